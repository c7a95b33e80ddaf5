//! CSV files as a source of rows.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::csv::reader::Decoder as ArrowDecoder;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use datafusion::common::config::CsvOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileOpenFuture, FileOpener, FileScanConfig, FileSource};
use datafusion::datasource::projection::{ProjectionOpener, SplitProjection};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::{DisplayFormatType, apply_expression_roots};
use datafusion_datasource::decoder::{Decoder, DecoderDeserializer, deserialize_stream};
use futures::{FutureExt, StreamExt};
use object_store::ObjectStore;

use super::bytes::{ByteStream, is_first, of_file, part, whole};
use super::csv_columns::Places;
use super::csv_head::{HeadOfCsv, has_header};
use crate::scan::file_reads::{FileReads, ReadMetrics};

/// Files of one table.
#[derive(Debug, Clone)]
pub struct CsvFiles {
    options: CsvOptions,
    columns: TableSchema,
    batch_rows: usize,
    projection: SplitProjection,
    metrics: ExecutionPlanMetricsSet,
    reads: FileReads,
}

impl CsvFiles {
    /// All columns of files with these options.
    pub fn new(options: CsvOptions, columns: TableSchema, reads: FileReads) -> Self {
        let projection = SplitProjection::unprojected(&columns);
        Self {
            options,
            columns,
            batch_rows: 8192,
            projection,
            metrics: ExecutionPlanMetricsSet::new(),
            reads,
        }
    }
}

impl FileSource for CsvFiles {
    fn create_file_opener(
        &self,
        _store: Arc<dyn ObjectStore>,
        scan: &FileScanConfig,
        partition: usize,
    ) -> Result<Arc<dyn FileOpener>> {
        let table = self.columns.file_schema();
        let opener = Opener {
            options: self.options.clone(),
            compression: scan.file_compression_type,
            wanted: Arc::new(table.project(&self.projection.file_indices)?),
            table: Arc::clone(table),
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
        "csv"
    }

    fn fmt_extra(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ", has_header={}", has_header(&self.options))
    }

    /// A file may be cut at line breaks only if it is known that all of them end records.
    fn supports_repartitioning(&self) -> bool {
        self.options.newlines_in_values == Some(false) && self.options.terminator.is_none()
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
    options: CsvOptions,
    compression: FileCompressionType,
    /// All columns of the table's files.
    table: SchemaRef,
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
            let opened = opener.begin(&file).await;
            let (places, bytes, reads) = opened.map_err(|error| of_file(&path, error))?;
            let header = has_header(&opener.options) && is_first(&file);
            let decoder = Rows(places.decoder(&opener.options, header, opener.batch_rows));
            let rows = deserialize_stream(bytes.fuse(), DecoderDeserializer::new(decoder));
            let complete = move |batch: std::result::Result<RecordBatch, ArrowError>| {
                let _until_the_end = &reads;
                let batch = batch.map_err(|error| of_file(&path, error))?;
                places.complete(&batch).map_err(|error| of_file(&path, error))
            };
            Ok(rows.map(complete).boxed())
        }
        .boxed())
    }
}

impl Opener {
    /// Reads the first line, and gives the bytes of the part.
    async fn begin(&self, file: &PartitionedFile) -> Result<(Places, ByteStream, Option<ReadMetrics>)> {
        let (store, reads) = self.reads.measured(&file.object_meta, &self.metrics, self.partition);
        let path = &file.object_meta.location;
        let all = whole(&store, path, self.compression).await?;
        let (head, all) = HeadOfCsv::read(all, &self.options, 0).await?;
        let names = head.names(&self.options)?;
        let places = match has_header(&self.options) {
            true => Places::by_name(&names, &self.table, Arc::clone(&self.wanted))?,
            false => Places::by_position(names.len(), &self.table, Arc::clone(&self.wanted)),
        };
        let bytes = if file.range.is_none() { all } else { part(&store, file, self.compression).await? };
        Ok((places, bytes, reads))
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
        self.0.capacity() == 0
    }
}
