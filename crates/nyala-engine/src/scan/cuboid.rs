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

use super::hot::{BlockFilter, CuboidKey, HotCuboidExec, HotCuboids, Source};
use super::reader::IndexedReaderFactory;
use super::stores::DATA_STORE;

/// One cuboid of one segment, from memory where it is held there, else from its files. Everything needed
/// to scan these comes from the catalog: no listing, and footers are read once and kept.
#[derive(Debug)]
pub(crate) struct CuboidTable {
    cuboid: CuboidEntry,
    /// Folder of the segment, relative to the data store, with a trailing slash.
    folder: String,
    schema: SchemaRef,
}

impl CuboidTable {
    /// A table over `cuboid`, whose files lie in `folder` and have `schema`.
    pub(crate) fn new(cuboid: CuboidEntry, folder: String, schema: SchemaRef) -> Self {
        Self { cuboid, folder, schema }
    }

    /// The cuboid from its files, whatever is in memory.
    pub(crate) fn scan_files(
        &self,
        state: &dyn Session,
        projection: Option<Vec<usize>>,
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
            .with_projection_indices(projection)?
            .with_limit(limit)
            .with_statistics(self.table_statistics())
            .build();
        Ok(DataSourceExec::from_data_source(scan))
    }

    /// The cuboid from memory. If it is not there, it may be soon.
    fn scan_memory(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
    ) -> datafusion::error::Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(hot) = state.config().get_extension::<HotCuboids>() else { return Ok(None) };
        let all = || (0..self.schema.fields().len()).collect();
        let columns: Vec<usize> = projection.cloned().unwrap_or_else(all);
        let key = CuboidKey { folder: self.folder.clone(), dimensions: self.cuboid.dimensions };
        let cuboid = match hot.find(&key, &columns) {
            Ok(cuboid) => cuboid,
            Err(absent) => {
                hot.load(&key, absent, |columns| self.source(state, columns))?;
                return Ok(None);
            }
        };
        let ranges = BlockFilter::new(filters, &self.schema, state)?.ranges(&cuboid)?;
        let schema = Arc::new(self.schema.project(&columns)?);
        let scan = HotCuboidExec::new(vec![(cuboid, ranges)], columns, schema, state.config());
        Ok(Some(Arc::new(scan)))
    }

    fn source(&self, state: &dyn Session, columns: &[usize]) -> datafusion::error::Result<Source> {
        Ok(Source {
            plan: self.scan_files(state, Some(columns.to_vec()), None)?,
            runtime: Arc::clone(state.runtime_env()),
            dimensions: self.cuboid.dimensions.len(),
            rows: usize::try_from(self.cuboid.rows).unwrap_or(usize::MAX),
        })
    }

    fn files(&self) -> FileGroup {
        let files = self.cuboid.files.iter().map(|file| {
            let path = format!("{}{}", self.folder, file.name);
            PartitionedFile::new(path, file.bytes).with_arrow_schema(Arc::clone(&self.schema))
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
        filters: &[Expr],
        limit: Option<usize>,
    ) -> datafusion::error::Result<Arc<dyn ExecutionPlan>> {
        match self.scan_memory(state, projection, filters)? {
            Some(scan) => Ok(scan),
            None => self.scan_files(state, projection.cloned(), limit),
        }
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
            num_rows: exact(self.cuboid.rows),
            total_byte_size: exact(self.cuboid.bytes),
            column_statistics: vec![ColumnStatistics::new_unknown(); self.schema.fields().len()],
        }
    }
}

fn exact(count: u64) -> Precision<usize> {
    usize::try_from(count).map_or(Precision::Absent, Precision::Exact)
}
