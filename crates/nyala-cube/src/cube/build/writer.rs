//! Writes the partitions of a cuboid as Parquet files.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, SchemaRef};
use arrow::record_batch::RecordBatch;
use bytes::Bytes;
use datafusion::common::DataFusionError;
use datafusion::common::runtime::SpawnedTask;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use futures::StreamExt;
use nyala_model::config::BuildConfig;
use nyala_model::{CuboidEntry, CuboidFile, DimensionSet};
use nyala_sql::error::{QueryError, Result};
use object_store::ObjectStore;
use object_store::buffered::BufWriter;
use object_store::path::Path;
use parquet::arrow::ArrowWriter;
use parquet::arrow::async_writer::AsyncFileWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::ColumnPath;
use tokio::runtime::Handle;

use crate::scan::{BLOCKS_KEY, FileSums};

/// Where the files of a segment go and how they are encoded.
#[derive(Debug, Clone)]
pub struct Writer {
    store: Arc<dyn ObjectStore>,
    /// Folder of the segment within the store, with a trailing slash.
    folder: String,
    /// Tells these files from others of the folder.
    mark: String,
    /// The number of the first measure that they do not have.
    measures: u32,
    config: BuildConfig,
}

impl Writer {
    pub fn new(
        store: Arc<dyn ObjectStore>,
        (folder, mark): (&str, &str),
        measures: u32,
        config: &BuildConfig,
    ) -> Self {
        let (folder, mark) = (folder.to_owned(), mark.to_owned());
        Self { store, folder, mark, measures, config: config.clone() }
    }

    /// Dimensions repeat and are stored through dictionaries. States hardly do: a dictionary of them
    /// would be as large as the column and be read whole for every page that is wanted.
    fn properties(&self, schema: &SchemaRef, dimensions: usize) -> Result<WriterProperties> {
        let level = ZstdLevel::try_new(self.config.zstd_level).map_err(DataFusionError::from)?;
        let mut properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(level))
            .set_max_row_group_row_count(Some(self.config.row_group_rows))
            .set_data_page_row_count_limit(self.config.page_rows)
            .set_write_batch_size(self.config.page_rows.min(1024))
            .set_statistics_enabled(EnabledStatistics::Page)
            .set_created_by(concat!("nyala ", env!("CARGO_PKG_VERSION")).to_owned())
            .set_dictionary_enabled(false);
        for (i, field) in schema.fields().iter().enumerate() {
            let column = ColumnPath::from(field.name().as_str());
            if i < dimensions {
                properties = properties.set_column_dictionary_enabled(column, true);
            } else if matches!(field.data_type(), DataType::Int64 | DataType::UInt64) {
                properties = properties.set_column_encoding(column, Encoding::DELTA_BINARY_PACKED);
            }
        }
        Ok(properties.build())
    }

    /// Starts a task for each partition of `plan`; they run until awaited or dropped. `pass` counts the
    /// attempts to write the cuboid, from 1.
    pub fn start(
        &self,
        set: DimensionSet,
        pass: usize,
        plan: &Arc<dyn ExecutionPlan>,
        schema: &SchemaRef,
        context: &Arc<TaskContext>,
    ) -> Result<WritingCuboid> {
        let mut files = Vec::new();
        for partition in 0..plan.output_partitioning().partition_count() {
            let stream = plan.execute(partition, Arc::clone(context))?;
            let file = self.open(set, pass, partition, schema)?;
            files.push(SpawnedTask::spawn(file.write(stream)));
        }
        Ok(WritingCuboid { set, measures: self.measures, files })
    }

    /// A new file for cells of the cuboid over `set`.
    pub fn open(
        &self,
        set: DimensionSet,
        pass: usize,
        partition: usize,
        schema: &SchemaRef,
    ) -> Result<NewFile> {
        // A pass that failed may still put a file in place; another pass must not meet it.
        let pass = if pass == 1 { String::new() } else { format!("-{pass}") };
        let name = format!("{:x}-{partition}{}{pass}.parquet", set.bits(), self.mark);
        let path = Path::from(format!("{}{name}", self.folder));
        let sink = Sink(Some(BufWriter::new(Arc::clone(&self.store), path)));
        let properties = self.properties(schema, set.len())?;
        let pages = ArrowWriter::try_new(Vec::new(), Arc::clone(schema), Some(properties))
            .map_err(DataFusionError::from)?;
        Ok(NewFile { name, schema: Arc::clone(schema), pages, sink, sums: FileSums::default(), rows: 0 })
    }

    /// The cuboid over `set` that these files hold.
    pub fn cuboid(&self, set: DimensionSet, files: Vec<CuboidFile>) -> CuboidEntry {
        cuboid_of(set, self.measures, files)
    }
}

fn cuboid_of(set: DimensionSet, measures: u32, files: Vec<CuboidFile>) -> CuboidEntry {
    CuboidEntry {
        dimensions: set,
        rows: files.iter().map(|f| f.rows).sum(),
        bytes: files.iter().map(|f| f.bytes).sum(),
        measures,
        repeats: false,
        wider: false,
        files,
    }
}

/// A cuboid, and the tasks that write its files.
pub struct WritingCuboid {
    set: DimensionSet,
    measures: u32,
    files: Vec<SpawnedTask<Result<CuboidFile>>>,
}

impl WritingCuboid {
    /// Waits for every file.
    pub async fn finish(self) -> Result<CuboidEntry> {
        let mut files = Vec::new();
        for task in self.files {
            files.push(task.join_unwind().await.map_err(QueryError::internal)??);
        }
        Ok(cuboid_of(self.set, self.measures, files))
    }
}

/// A file being written; it appears when it is whole.
pub struct NewFile {
    name: String,
    schema: SchemaRef,
    pages: ArrowWriter<Vec<u8>>,
    sink: Sink,
    sums: FileSums,
    rows: u64,
}

/// A file of a store being written. What a multipart upload has sent takes room until it is completed or aborted, so it is
/// aborted if the file is dropped before.
struct Sink(Option<BufWriter>);

impl Sink {
    async fn write(&mut self, bytes: Bytes) -> parquet::errors::Result<()> {
        match &mut self.0 {
            Some(sink) => AsyncFileWriter::write(sink, bytes).await,
            None => Err(ParquetError::General("the file is complete".to_owned())),
        }
    }

    async fn complete(&mut self) -> parquet::errors::Result<()> {
        // A writer panics when it is aborted after completing it has begun.
        match self.0.take() {
            Some(mut sink) => AsyncFileWriter::complete(&mut sink).await,
            None => Ok(()),
        }
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        if let (Some(mut sink), Ok(runtime)) = (self.0.take(), Handle::try_current()) {
            runtime.spawn(async move {
                // Nothing was sent yet, or the store is out of reach: then its rules for old uploads apply.
                let _ = sink.abort().await;
            });
        }
    }
}

impl NewFile {
    async fn write(mut self, mut stream: SendableRecordBatchStream) -> Result<CuboidFile> {
        while let Some(batch) = stream.next().await {
            self.add(batch?.columns().to_vec()).await?;
        }
        self.close().await
    }

    /// Adds cells.
    pub async fn add(&mut self, columns: Vec<ArrayRef>) -> Result<()> {
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns)?;
        self.rows += batch.num_rows() as u64;
        let before = self.pages.flushed_row_groups().len();
        self.pages.write(&batch).map_err(DataFusionError::from)?;
        if self.pages.flushed_row_groups().len() == before { Ok(()) } else { self.drain().await }
    }

    /// Moves the encoded bytes to the store, and checksums them.
    async fn drain(&mut self) -> Result<()> {
        self.pages.sync().map_err(DataFusionError::from)?;
        let bytes = Bytes::from(std::mem::take(self.pages.inner_mut()));
        self.sums.add(&bytes);
        Ok(self.sink.write(bytes).await.map_err(DataFusionError::from)?)
    }

    /// The footer gets the checksums of all pages; its own goes to the catalog.
    pub async fn close(mut self) -> Result<CuboidFile> {
        self.pages.flush().map_err(DataFusionError::from)?;
        self.drain().await?;
        self.pages.append_key_value_metadata(KeyValue::new(BLOCKS_KEY.to_owned(), self.sums.seal()));
        self.pages.finish().map_err(DataFusionError::from)?;
        self.drain().await?;
        self.sink.complete().await.map_err(DataFusionError::from)?;
        let (bytes, tail) = self.sums.ended();
        Ok(CuboidFile { name: self.name, rows: self.rows, bytes, tail_from: tail.from, tail_crc: tail.crc })
    }
}
