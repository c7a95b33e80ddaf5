//! Writes the partitions of a cuboid as Parquet files.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use datafusion::common::DataFusionError;
use datafusion::common::runtime::SpawnedTask;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::StreamExt;
use nyala_model::config::BuildConfig;
use nyala_model::{CuboidEntry, CuboidFile, DimensionSet};
use object_store::buffered::BufWriter;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use parquet::arrow::AsyncArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties};

use crate::error::{QueryError, Result};

/// Where the files of a segment go and how they are encoded.
#[derive(Debug, Clone)]
pub(super) struct Writer {
    pub(super) store: Arc<dyn ObjectStore>,
    /// Folder of the segment within the store, with a trailing slash.
    pub(super) folder: String,
    pub(super) properties: WriterProperties,
}

impl Writer {
    pub(super) fn new(store: Arc<dyn ObjectStore>, folder: String, config: &BuildConfig) -> Result<Self> {
        let level = ZstdLevel::try_new(config.zstd_level).map_err(DataFusionError::from)?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(level))
            .set_max_row_group_row_count(Some(config.row_group_rows))
            .set_data_page_row_count_limit(config.page_rows)
            .set_statistics_enabled(EnabledStatistics::Page)
            .set_created_by(concat!("nyala ", env!("CARGO_PKG_VERSION")).to_owned())
            .build();
        Ok(Self { store, folder, properties })
    }

    /// Starts a task for each partition of `plan`; they run until awaited or dropped.
    pub(super) fn start(
        &self,
        set: DimensionSet,
        plan: &Arc<dyn ExecutionPlan>,
        schema: &SchemaRef,
        context: &Arc<TaskContext>,
    ) -> Result<WritingCuboid> {
        let mut files = Vec::new();
        for partition in 0..plan.output_partitioning().partition_count() {
            let stream = plan.execute(partition, Arc::clone(context))?;
            let name = format!("{:x}-{partition}.parquet", set.bits());
            files.push(SpawnedTask::spawn(write_file(self.clone(), name, stream, Arc::clone(schema))));
        }
        Ok(WritingCuboid { set, files })
    }
}

/// A cuboid whose files are being written.
pub(super) struct WritingCuboid {
    set: DimensionSet,
    files: Vec<SpawnedTask<Result<CuboidFile>>>,
}

impl WritingCuboid {
    /// Waits for every file. Empty ones are left out, but one is always kept to hold the schema.
    pub(super) async fn finish(self) -> Result<CuboidEntry> {
        let mut files = Vec::new();
        for task in self.files {
            let file = task.join_unwind().await.map_err(QueryError::internal)??;
            if file.rows > 0 || files.is_empty() {
                files.push(file);
            }
        }
        Ok(CuboidEntry {
            dimensions: self.set,
            rows: files.iter().map(|f| f.rows).sum(),
            bytes: files.iter().map(|f| f.bytes).sum(),
            files,
        })
    }
}

async fn write_file(
    writer: Writer,
    name: String,
    mut stream: SendableRecordBatchStream,
    schema: SchemaRef,
) -> Result<CuboidFile> {
    let path = Path::from(format!("{}{name}", writer.folder));
    let sink = BufWriter::new(Arc::clone(&writer.store), path.clone());
    let mut file = AsyncArrowWriter::try_new(sink, Arc::clone(&schema), Some(writer.properties))
        .map_err(DataFusionError::from)?;
    let mut rows = 0;
    while let Some(batch) = stream.next().await {
        let batch = RecordBatch::try_new(Arc::clone(&schema), batch?.columns().to_vec())?;
        rows += batch.num_rows() as u64;
        file.write(&batch).await.map_err(DataFusionError::from)?;
    }
    file.close().await.map_err(DataFusionError::from)?;
    let bytes = writer.store.head(&path).await.map_err(DataFusionError::from)?.size;
    Ok(CuboidFile { name, rows, bytes })
}
