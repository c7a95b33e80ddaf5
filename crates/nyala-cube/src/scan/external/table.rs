//! A catalog entry as something DataFusion can scan.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{Field, FieldRef, Schema, SchemaRef};
use arrow::ipc::convert::fb_to_schema;
use arrow::ipc::root_as_schema;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::{Statistics, project_schema};
use datafusion::datasource::file_format::FileFormat as FormatOfFiles;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig, FileScanConfigBuilder};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::datasource::{TableProvider, TableType};
use datafusion::execution::SessionState;
use datafusion::execution::cache::cache_manager::SchemaFingerprint;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::{Expr, LogicalPlan, TableProviderFilterPushDown};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion_datasource::compute_all_files_statistics;
use nyala_model::{ExternalSource, FileFormat, TableEntry};
use nyala_sql::error::{QueryError, Result};
use nyala_storage::object::AllowedLocation;

use super::delta::{DeltaTable, check_columns};
use super::layout::Layout;
use super::listing::{FileStatistics, partitioned, with_statistics};
use super::prune::{is_about, pruned};
use super::shared::SharedFileOf;
use crate::scan::cached_file::CachedFile;
use crate::scan::file_reader::FileReader;
use crate::scan::file_reads::ReadOnce;
use crate::scan::stores::Stores;

/// A table over files, known by its catalog entry so that cubes recognise it under any alias.
#[derive(Debug, Clone)]
pub struct ExternalTable {
    entry: Arc<TableEntry>,
    reader: FileReader,
    layout: Layout,
    store: ObjectStoreUrl,
    columns: TableSchema,
    fingerprint: Arc<SchemaFingerprint>,
}

impl ExternalTable {
    /// Prepares the table for scanning. No file is touched.
    pub fn open(
        entry: Arc<TableEntry>,
        source: &ExternalSource,
        state: &SessionState,
        stores: &Stores,
    ) -> Result<Self> {
        let location = stores.check(&source.location)?;
        let mut reads = stores.reads(&location, &entry.name)?;
        let layout = match source.format {
            FileFormat::Delta => {
                // A file that a log tells never changes.
                reads = reads.of_constant_files();
                Layout::of_delta(&location, DeltaTable::new(&location, &source.options)?)
            }
            format => Layout::new(&location, format, &source.partition_columns),
        };
        let columns = table_schema(&decode_schema(&entry)?, &source.partition_columns);
        let options = match source.format {
            // The options of a Delta table choose its version, and are not for the reader of its files.
            FileFormat::Delta => HashMap::new(),
            _ => source.options.clone().into_iter().collect(),
        };
        let reader = FileReader::new(source.format.of_files(), options, state, reads)?;
        let fingerprint = Arc::new(SchemaFingerprint::from_schema(columns.file_schema()));
        Ok(Self { entry, reader, layout, store: store_url(&location)?, columns, fingerprint })
    }

    /// The files as the store lists them now, in no order.
    pub(in crate::scan) async fn files(
        &self,
        state: &SessionState,
        statistics: bool,
    ) -> Result<Vec<PartitionedFile>> {
        Ok(self.listed(state, &[], statistics, true).await?)
    }

    /// The table's files in a remote store, as they are now; none of a local store.
    pub async fn remote_files(&self) -> Result<Vec<CachedFile>> {
        let reads = self.reader.reads();
        if !reads.opened().is_remote() {
            return Ok(Vec::new());
        }
        let files = reads.list(&self.layout, true).await?;
        Ok(files.iter().map(|file| reads.cached(&file.meta)).collect())
    }

    /// The files for which conditions on their folders hold.
    async fn listed(
        &self,
        state: &dyn Session,
        conditions: &[Expr],
        statistics: bool,
        anew: bool,
    ) -> datafusion::error::Result<Vec<PartitionedFile>> {
        let partitions = self.columns.table_partition_cols();
        let found = self.reader.reads().list(&self.layout, anew).await?;
        self.check_log().await?;
        let files = partitioned(found.to_vec(), partitions)?;
        let files = pruned(files, conditions, partitions)?;
        if !statistics || self.reader.format() != FileFormat::Parquet {
            let unknown = Arc::new(Statistics::new_unknown(self.columns.file_schema()));
            return Ok(files.into_iter().map(|file| with_statistics(file, Arc::clone(&unknown))).collect());
        }
        let format: &Arc<dyn FormatOfFiles> = self.reader.format_of_files();
        let schema = self.columns.file_schema();
        FileStatistics { state, reads: self.reader.reads(), format, schema, fingerprint: &self.fingerprint }
            .add_to(files)
            .await
    }

    /// The catalog's entry.
    pub fn entry(&self) -> &Arc<TableEntry> {
        &self.entry
    }

    /// Fails if the log of a Delta table has other columns than when the table was created.
    async fn check_log(&self) -> Result<()> {
        let Some(table) = self.layout.delta() else { return Ok(()) };
        let columns = self.reader.reads().delta_columns(table).await?;
        check_columns(self.columns.table_schema().fields(), &columns.all)
    }

    /// Format of its files.
    pub fn format(&self) -> FileFormat {
        self.reader.format()
    }

    /// Whether its files are in a bucket, where every node reaches them.
    pub fn is_shared(&self) -> bool {
        self.reader.reads().opened().is_remote()
    }

    /// Marks files in buckets with the name of the table, because other nodes may read them.
    fn marked(&self, mut files: Vec<PartitionedFile>) -> Vec<PartitionedFile> {
        // Other nodes could not find the entry of a file that a statement names by its location.
        let is_known = !self.entry.name.schema.is_empty();
        if is_known && self.reader.format() == FileFormat::Parquet && self.is_shared() {
            let table = Arc::new(SharedFileOf(self.entry.name.clone()));
            files.iter_mut().for_each(|file| {
                file.extensions.insert_arc(Arc::clone(&table));
            });
        }
        files
    }

    /// Where its files are found.
    pub(super) fn store_url(&self) -> &ObjectStoreUrl {
        &self.store
    }

    /// How its files are read.
    pub(super) fn reader(&self) -> &FileReader {
        &self.reader
    }

    fn scan_of(
        &self,
        files: Vec<PartitionedFile>,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        limit: Option<usize>,
    ) -> datafusion::error::Result<FileScanConfig> {
        let groups = FileGroup::new(self.marked(files)).split_files(state.config().target_partitions());
        let has_statistics = state.config().collect_statistics();
        let (groups, statistics) =
            compute_all_files_statistics(groups, self.schema(), has_statistics, false)?;
        let builder =
            FileScanConfigBuilder::new(self.store.clone(), self.reader.source(&self.columns, state))
                .with_file_groups(groups)
                .with_statistics(statistics)
                .with_projection_indices(projection.cloned())?
                .with_limit(limit)
                .with_file_compression_type(self.reader.compression())
                .with_expr_adapter(self.reader.adapter());
        Ok(builder.build())
    }
}

/// The URL of the store, in which paths of files are found.
fn store_url(location: &AllowedLocation) -> Result<ObjectStoreUrl> {
    let url = location.url();
    Ok(ObjectStoreUrl::parse(format!("{}://{}", url.scheme(), url.host_str().unwrap_or_default()))?)
}

/// The schema stored in a catalog entry, partition columns included.
pub fn decode_schema(entry: &TableEntry) -> Result<Schema> {
    let schema = root_as_schema(&entry.schema_ipc).map_err(|error| {
        QueryError::internal(format!("schema of table `{}` cannot be read: {error}", entry.name))
    })?;
    Ok(fb_to_schema(schema))
}

/// Columns of the files, and columns of their folders, which may stand for NULL.
fn table_schema(schema: &Schema, partition_columns: &[String]) -> TableSchema {
    let is_partition = |field: &&FieldRef| partition_columns.contains(field.name());
    let of_files: Vec<FieldRef> =
        schema.fields().iter().filter(|field| !is_partition(field)).cloned().collect();
    let of_folders = schema.fields().iter().filter(is_partition);
    let of_folders =
        of_folders.map(|field| Arc::new(Field::new(field.name(), field.data_type().clone(), true)));
    let of_folders: Vec<FieldRef> = of_folders.collect();
    TableSchema::builder(Arc::new(Schema::new(of_files))).with_table_partition_cols(of_folders).build()
}

#[async_trait]
impl TableProvider for ExternalTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(self.columns.table_schema())
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn get_table_definition(&self) -> Option<&str> {
        Some(&self.entry.definition)
    }

    fn get_logical_plan(&self) -> Option<Cow<'_, LogicalPlan>> {
        None
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> datafusion::error::Result<Arc<dyn ExecutionPlan>> {
        let partitions = self.columns.table_partition_cols();
        let about = filters.iter().filter(|filter| is_about(filter, partitions)).cloned().collect::<Vec<_>>();
        let config = state.config();
        // A build must not read an older list than the one that its cube is judged by.
        let anew = config.get_extension::<ReadOnce>().is_some();
        let files = self.listed(state, &about, config.collect_statistics(), anew).await?;
        if files.is_empty() {
            return Ok(Arc::new(EmptyExec::new(project_schema(&self.schema(), projection)?)));
        }
        let scan = self.scan_of(files, state, projection, limit)?;
        match self.reader.format() {
            FileFormat::Parquet => self.reader.format_of_files().create_physical_plan(state, scan).await,
            _ => Ok(DataSourceExec::from_data_source(scan)),
        }
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> datafusion::error::Result<Vec<TableProviderFilterPushDown>> {
        let partitions = self.columns.table_partition_cols();
        let decides = |filter: &&Expr| match is_about(filter, partitions) {
            true => TableProviderFilterPushDown::Exact,
            false => TableProviderFilterPushDown::Inexact,
        };
        Ok(filters.iter().map(decides).collect())
    }
}
