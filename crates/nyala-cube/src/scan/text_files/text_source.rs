//! Text files of one table as a source of rows, in any format.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileOpener, FileScanConfig, FileSource};
use datafusion::datasource::projection::{ProjectionOpener, SplitProjection};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::{DisplayFormatType, apply_expression_roots};
use object_store::ObjectStore;

use crate::scan::file_reads::{FileReads, ReadMetrics};

/// How rows are written as text.
pub trait TextFormat: fmt::Debug + Clone + Send + Sync + 'static {
    /// The name in plans.
    const NAME: &'static str;

    /// Opens the files of one partition.
    fn opener(&self, wanted: Wanted) -> Arc<dyn FileOpener>;

    /// What plans show after the name.
    fn fmt_extra(&self, _f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }

    /// Whether a file may be cut at line breaks, so that several readers share it.
    fn is_cut_at_lines(&self) -> bool {
        true
    }
}

/// What one partition wants of the files of a table.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// How the files are compressed.
    pub compression: FileCompressionType,
    /// All columns of the table's files.
    pub table: SchemaRef,
    /// The columns that are read.
    pub columns: SchemaRef,
    /// Most rows of a batch.
    pub batch_rows: usize,
    reads: FileReads,
    metrics: ExecutionPlanMetricsSet,
    partition: usize,
}

impl Wanted {
    /// The store of a file, and the metrics of reads of the file.
    pub fn store_of(&self, file: &PartitionedFile) -> (Arc<dyn ObjectStore>, Option<ReadMetrics>) {
        self.reads.measured(&file.object_meta, &self.metrics, self.partition)
    }
}

/// Files of one table.
#[derive(Debug, Clone)]
pub struct TextFiles<F> {
    format: F,
    columns: TableSchema,
    batch_rows: usize,
    projection: SplitProjection,
    metrics: ExecutionPlanMetricsSet,
    reads: FileReads,
}

impl<F: TextFormat> TextFiles<F> {
    /// All columns of files in this format.
    pub fn new(format: F, columns: TableSchema, reads: FileReads) -> Self {
        let projection = SplitProjection::unprojected(&columns);
        Self { format, columns, batch_rows: 8192, projection, metrics: ExecutionPlanMetricsSet::new(), reads }
    }
}

impl<F: TextFormat> FileSource for TextFiles<F> {
    fn create_file_opener(
        &self,
        _store: Arc<dyn ObjectStore>,
        scan: &FileScanConfig,
        partition: usize,
    ) -> Result<Arc<dyn FileOpener>> {
        let table = self.columns.file_schema();
        let wanted = Wanted {
            compression: scan.file_compression_type,
            columns: Arc::new(table.project(&self.projection.file_indices)?),
            table: Arc::clone(table),
            batch_rows: self.batch_rows,
            reads: self.reads.clone(),
            metrics: self.metrics.clone(),
            partition,
        };
        ProjectionOpener::try_new(self.projection.clone(), self.format.opener(wanted), table)
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
        F::NAME
    }

    fn fmt_extra(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.format.fmt_extra(f)
    }

    fn supports_repartitioning(&self) -> bool {
        self.format.is_cut_at_lines()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        apply_expression_roots(self.projection.source.iter(), f)
    }
}
