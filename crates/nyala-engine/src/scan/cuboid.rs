//! Cuboid files as a table: dimensions first, then the states of every measure.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::config::{ConfigOptions, ParquetOptions, TableParquetOptions};
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, Statistics};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::CachedParquetFileReaderFactory;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::{TableProvider, TableType};
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::physical_plan::ExecutionPlan;
use nyala_model::CuboidEntry;

use super::reader::IndexedReaderFactory;
use super::stores::DATA_STORE;

/// The cells of one cuboid in one segment.
#[derive(Debug, Clone)]
pub(crate) struct CuboidPart {
    /// Folder of the segment, relative to the data store, with a trailing slash.
    pub(crate) folder: String,
    /// The cuboid.
    pub(crate) cuboid: CuboidEntry,
}

/// The files of one cuboid in some segments. Everything needed to scan them comes from the catalog: no
/// listing, and footers are read once and kept.
#[derive(Debug)]
pub(crate) struct CuboidTable {
    parts: Vec<CuboidPart>,
    schema: SchemaRef,
}

impl CuboidTable {
    /// A table over `parts`, whose files have `schema`.
    pub(crate) fn new(parts: Vec<CuboidPart>, schema: SchemaRef) -> Self {
        Self { parts, schema }
    }

    fn files(&self) -> FileGroup {
        let files = self.parts.iter().flat_map(|part| {
            part.cuboid.files.iter().map(|file| {
                let path = format!("{}{}", part.folder, file.name);
                PartitionedFile::new(path, file.bytes).with_arrow_schema(Arc::clone(&self.schema))
            })
        });
        FileGroup::new(files.collect())
    }
}

#[async_trait]
impl TableProvider for CuboidTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        limit: Option<usize>,
    ) -> datafusion::error::Result<Arc<dyn ExecutionPlan>> {
        let url = ObjectStoreUrl::parse(DATA_STORE)?;
        let runtime = state.runtime_env();
        let store = runtime.object_store(&url)?;
        let metadata = runtime.cache_manager.get_file_metadata_cache();
        let options = TableParquetOptions {
            global: reading_options(state.config_options()),
            ..TableParquetOptions::default()
        };
        let source = ParquetSource::new(Arc::clone(&self.schema))
            .with_table_parquet_options(options)
            .with_parquet_file_reader_factory(IndexedReaderFactory::new(
                CachedParquetFileReaderFactory::new(store, metadata),
            ));
        let scan = FileScanConfigBuilder::new(url, Arc::new(source))
            .with_file_group(self.files())
            .with_projection_indices(projection.cloned())?
            .with_limit(limit)
            .with_statistics(self.table_statistics())
            .build();
        Ok(DataSourceExec::from_data_source(scan))
    }

    /// Filters reach the Parquet reader as physical expressions, which prune row groups and pages;
    /// they still have to be evaluated above the scan.
    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> datafusion::error::Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    fn statistics(&self) -> Option<Statistics> {
        Some(self.table_statistics())
    }
}

fn reading_options(options: &ConfigOptions) -> ParquetOptions {
    ParquetOptions {
        // Cuboids have no bloom filters, and looking for them costs a lookup for each row group.
        bloom_filter_on_read: false,
        // Filters on cuboids are selective: columns are decoded only where the earlier ones matched.
        pushdown_filters: true,
        ..options.execution.parquet.clone()
    }
}

impl CuboidTable {
    fn table_statistics(&self) -> Statistics {
        Statistics {
            num_rows: exact(self.parts.iter().map(|part| part.cuboid.rows).sum()),
            total_byte_size: exact(self.parts.iter().map(|part| part.cuboid.bytes).sum()),
            column_statistics: vec![ColumnStatistics::new_unknown(); self.schema.fields().len()],
        }
    }
}

fn exact(count: u64) -> Precision<usize> {
    usize::try_from(count).map_or(Precision::Absent, Precision::Exact)
}
