//! External tables: a catalog entry as something DataFusion can scan.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Schema, SchemaRef};
use arrow::ipc::convert::fb_to_schema;
use arrow::ipc::root_as_schema;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::{Constraints, Statistics};
use datafusion::datasource::listing::{
    ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl, PartitionedFile,
};
use datafusion::datasource::physical_plan::FileGroup;
use datafusion::datasource::{TableProvider, TableType};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan, TableProviderFilterPushDown};
use datafusion::physical_plan::ExecutionPlan;
use nyala_model::{ExternalSource, FileFormat, QualifiedName, TableEntry};
use nyala_sql::error::{ErrorKind, QueryError, Result};
use nyala_storage::object::Location;

use super::parquet_format::SoundParquet;
use super::stores::Stores;

/// A table over files, known by its catalog entry so that cubes recognise it under any alias.
#[derive(Debug, Clone)]
pub struct ExternalTable {
    entry: Arc<TableEntry>,
    format: FileFormat,
    files: ListingTable,
    /// The view that reads it, if one does.
    through: Option<QualifiedName>,
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
        stores.open(&location)?;
        let schema = decode_schema(&entry)?;
        let options = listing_options(source, &schema, state)?;
        let file_schema = file_schema(&schema, &source.partition_columns);
        let url = listing_url(&location, source.format)?;
        let config =
            ListingTableConfig::new(url).with_listing_options(options).with_schema(Arc::new(file_schema));
        let cache = state.runtime_env().cache_manager.get_file_statistic_cache();
        let files = ListingTable::try_new(config)?.with_cache(cache);
        Ok(Self { entry, format: source.format, files, through: None })
    }

    /// The files as they lie there now, in no order.
    pub(super) async fn files(&self, state: &SessionState, statistics: bool) -> Result<Vec<PartitionedFile>> {
        let mut state = state.clone();
        state.config_mut().options_mut().execution.collect_statistics = statistics;
        let listed = self.files.list_files_for_scan(&state, &[], None).await?;
        Ok(listed.file_groups.into_iter().flat_map(FileGroup::into_inner).collect())
    }

    /// The catalog's entry.
    pub fn entry(&self) -> &Arc<TableEntry> {
        &self.entry
    }

    /// The same table, read by a view: whoever may read the view may read these rows.
    pub fn through(&self, view: QualifiedName) -> Self {
        Self { through: Some(view), ..self.clone() }
    }

    /// The name that a reader needs the right to read: that of the table, or of the view that reads it.
    pub fn read_as(&self) -> &QualifiedName {
        self.through.as_ref().unwrap_or(&self.entry.name)
    }

    /// Format of its files.
    pub fn format(&self) -> FileFormat {
        self.format
    }
}

/// The schema stored in a catalog entry, partition columns included.
pub fn decode_schema(entry: &TableEntry) -> Result<Schema> {
    let schema = root_as_schema(&entry.schema_ipc).map_err(|error| {
        QueryError::internal(format!("schema of table `{}` cannot be read: {error}", entry.name))
    })?;
    Ok(fb_to_schema(schema))
}

/// The part of the schema that the files themselves hold.
pub fn file_schema(schema: &Schema, partition_columns: &[String]) -> Schema {
    let fields: Vec<_> =
        schema.fields().iter().filter(|f| !partition_columns.contains(f.name())).cloned().collect();
    Schema::new_with_metadata(fields, HashMap::new())
}

/// The name DataFusion knows a format by.
pub fn format_name(format: FileFormat) -> &'static str {
    match format {
        FileFormat::Parquet => "parquet",
        FileFormat::Csv => "csv",
        FileFormat::NdJson => "json",
    }
}

/// Folders are read by file name extension, single files by any name.
pub fn listing_url(location: &Location, format: FileFormat) -> Result<ListingTableUrl> {
    let url = ListingTableUrl::parse(location.url().as_str())?;
    if !location.is_folder() {
        return Ok(url);
    }
    let pattern = match format {
        FileFormat::Parquet => "**/*.parquet",
        // Compressed files end with another extension; which compression is an option of the table.
        FileFormat::Csv => "**/*.csv*",
        FileFormat::NdJson => "**/*.*json*",
    };
    Ok(url.with_glob(pattern)?)
}

pub fn listing_options(
    source: &ExternalSource,
    schema: &Schema,
    state: &SessionState,
) -> Result<ListingOptions> {
    let partitions: Vec<(String, DataType)> =
        source.partition_columns.iter().map(|name| (name.clone(), partition_type(schema, name))).collect();
    Ok(base_options(source.format, source.options.clone().into_iter().collect(), state)?
        .with_table_partition_cols(partitions))
}

/// Listing options without partition columns.
pub fn base_options(
    format: FileFormat,
    options: HashMap<String, String>,
    state: &SessionState,
) -> Result<ListingOptions> {
    let name = format_name(format);
    let is_parquet = format == FileFormat::Parquet;
    let factory = state
        .get_file_format_factory(name)
        .ok_or_else(|| QueryError::internal(format!("format `{name}` is not registered")))?;
    let format = factory.create(state, &options).map_err(|error| {
        let error = QueryError::from(error);
        QueryError::new(ErrorKind::InvalidDefinition, format!("invalid format option: {}", error.message))
    })?;
    let format = if is_parquet { Arc::new(SoundParquet::new(format)) } else { format };
    Ok(ListingOptions::new(format).with_file_extension(""))
}

fn partition_type(schema: &Schema, name: &str) -> DataType {
    schema.field_with_name(name).map_or(DataType::Utf8, |field| field.data_type().clone())
}

#[async_trait]
impl TableProvider for ExternalTable {
    fn schema(&self) -> SchemaRef {
        self.files.schema()
    }

    fn constraints(&self) -> Option<&Constraints> {
        self.files.constraints()
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
        self.files.scan(state, projection, filters, limit).await
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> datafusion::error::Result<Vec<TableProviderFilterPushDown>> {
        self.files.supports_filters_pushdown(filters)
    }

    fn statistics(&self) -> Option<Statistics> {
        self.files.statistics()
    }
}
