//! Files with one JSON object a line as a source of rows.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::json::ReaderBuilder;
use arrow::json::reader::Decoder as ArrowDecoder;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileOpenFuture, FileOpener, FileScanConfig, FileSource};
use datafusion::datasource::projection::{ProjectionOpener, SplitProjection};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_plan::apply_expression_roots;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion_datasource::decoder::{Decoder, DecoderDeserializer, deserialize_stream};
use futures::{FutureExt, StreamExt};
use object_store::ObjectStore;

use super::bytes::{of_file, part};
use super::whole_numbers::{as_texts, settled};
use crate::scan::file_reads::FileReads;

/// Files of one table.
#[derive(Debug, Clone)]
pub struct JsonFiles {
    columns: TableSchema,
    batch_rows: usize,
    projection: SplitProjection,
    metrics: ExecutionPlanMetricsSet,
    reads: FileReads,
}

impl JsonFiles {
    /// All columns of files.
    pub fn new(columns: TableSchema, reads: FileReads) -> Self {
        let projection = SplitProjection::unprojected(&columns);
        Self { columns, batch_rows: 8192, projection, metrics: ExecutionPlanMetricsSet::new(), reads }
    }
}

impl FileSource for JsonFiles {
    fn create_file_opener(
        &self,
        _store: Arc<dyn ObjectStore>,
        scan: &FileScanConfig,
        partition: usize,
    ) -> Result<Arc<dyn FileOpener>> {
        let table = self.columns.file_schema();
        let opener = Opener {
            compression: scan.file_compression_type,
            wanted: Arc::new(table.project(&self.projection.file_indices)?),
            batch_rows: self.batch_rows,
            reads: self.reads.clone(),
            metrics: self.metrics.clone(),
            partition,
        };
        ProjectionOpener::try_new(self.projection.clone(), Arc::new(opener), table)
    }

    fn table_schema(&self) -> &TableSchema {
        &self.columns
    }

    fn with_batch_size(&self, batch_rows: usize) -> Arc<dyn FileSource> {
        Arc::new(Self { batch_rows, ..self.clone() })
    }

    fn try_pushdown_projection(&self, projection: &ProjectionExprs) -> Result<Option<Arc<dyn FileSource>>> {
        let projection = self.projection.source.try_merge(projection)?;
        let projection = SplitProjection::new(self.columns.file_schema(), &projection);
        Ok(Some(Arc::new(Self { projection, ..self.clone() })))
    }

    fn projection(&self) -> Option<&ProjectionExprs> {
        Some(&self.projection.source)
    }

    fn metrics(&self) -> &ExecutionPlanMetricsSet {
        &self.metrics
    }

    fn file_type(&self) -> &str {
        "json"
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        apply_expression_roots(self.projection.source.iter(), f)
    }
}

#[derive(Debug, Clone)]
struct Opener {
    compression: FileCompressionType,
    wanted: SchemaRef,
    batch_rows: usize,
    reads: FileReads,
    metrics: ExecutionPlanMetricsSet,
    partition: usize,
}

impl FileOpener for Opener {
    fn open(&self, file: PartitionedFile) -> Result<FileOpenFuture> {
        let opener = self.clone();
        Ok(async move {
            let path = file.object_meta.location.clone();
            let (store, reads) = opener.reads.measured(&file.object_meta, &opener.metrics, opener.partition);
            let bytes = part(&store, &file, opener.compression).await?;
            // Arrow cuts the fraction of a number in a column of integers, so these are read as texts.
            let fields = opener.wanted.fields().iter().map(as_texts).collect::<Vec<_>>();
            let decoder = ReaderBuilder::new(Arc::new(Schema::new(fields)))
                .with_batch_size(opener.batch_rows)
                .with_coerce_primitive(true)
                .build_decoder()?;
            let rows = deserialize_stream(bytes.fuse(), DecoderDeserializer::new(Rows(decoder)));
            let complete = move |batch: std::result::Result<RecordBatch, ArrowError>| {
                let _until_the_end = &reads;
                let batch = batch.map_err(|error| of_file(&path, error))?;
                settled(&batch, &opener.wanted).map_err(|error| of_file(&path, error))
            };
            Ok(rows.map(complete).boxed())
        }
        .boxed())
    }
}

#[derive(Debug)]
struct Rows(ArrowDecoder);

impl Decoder for Rows {
    fn decode(&mut self, bytes: &[u8]) -> std::result::Result<usize, ArrowError> {
        self.0.decode(bytes)
    }

    fn flush(&mut self) -> std::result::Result<Option<RecordBatch>, ArrowError> {
        self.0.flush()
    }

    fn can_flush_early(&self) -> bool {
        false
    }
}
