//! `CREATE EXTERNAL TABLE`: looks at the files once and describes the table for the catalog.

use std::collections::{BTreeMap, HashMap};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use arrow::ipc::convert::IpcSchemaEncoder;
use datafusion::datasource::listing::{ListingOptions, ListingTableUrl};
use datafusion::execution::SessionState;
use futures::{FutureExt, StreamExt};
use nyala_catalog::NewTable;
use nyala_model::{ExternalSource, FileFormat, QualifiedName, TableSource};
use nyala_sql::error::{ErrorKind, QueryError, Result};
use nyala_storage::object::Location;

use super::external::{base_options, listing_url};
use super::stores::Stores;

/// The parts of a CREATE EXTERNAL TABLE statement.
#[derive(Debug)]
pub struct TableRequest {
    /// The table.
    pub name: QualifiedName,
    /// URL or path of its files.
    pub location: String,
    /// Format of its files.
    pub file_type: String,
    /// Columns the user listed, partition columns included; empty means: from the files.
    pub columns: SchemaRef,
    /// Columns in the names of its folders.
    pub partition_columns: Vec<String>,
    /// Options of the format.
    pub options: HashMap<String, String>,
    /// The statement that created it.
    pub definition: String,
}

/// Checks that the location holds readable files and works out the table's schema from them.
pub async fn describe_table(
    request: TableRequest,
    state: &SessionState,
    stores: &Stores,
) -> Result<NewTable> {
    let format = parse_format(&request.file_type)?;
    let location = stores.check(&request.location)?;
    stores.open(&location)?;
    let options = format_options(format, request.options);
    let listing = base_options(format, options.clone(), state)?;
    let url = listing_url(&location, format)?;
    require_files(&location, &url, state).await?;
    let from_files = infer_schema(&listing, &url, &location, state).await?;
    let file_columns = if request.columns.fields().is_empty() {
        from_files.fields().iter().map(without_dictionaries).collect()
    } else {
        declared_file_columns(&request.columns, &request.partition_columns)
    };
    let partitions = partition_fields(&request.columns, &request.partition_columns, &file_columns)?;
    check_partition_folders(&listing, &url, &request.partition_columns, &location, state).await?;
    let schema = Schema::new(file_columns.into_iter().chain(partitions).collect::<Vec<FieldRef>>());
    check_schema(&schema)?;
    Ok(NewTable {
        name: request.name,
        source: TableSource::External(ExternalSource {
            format,
            location: location.to_string(),
            partition_columns: request.partition_columns,
            options: options.into_iter().collect::<BTreeMap<_, _>>(),
        }),
        schema_ipc: encode_schema(&schema),
        definition: request.definition,
    })
}

fn parse_format(text: &str) -> Result<FileFormat> {
    match text.to_ascii_uppercase().as_str() {
        "PARQUET" => Ok(FileFormat::Parquet),
        "CSV" => Ok(FileFormat::Csv),
        "NDJSON" | "JSON" | "JSONL" => Ok(FileFormat::NdJson),
        _ => Err(QueryError::new(ErrorKind::InvalidDefinition, format!("format `{text}` is not supported"))
            .hint("use PARQUET, CSV or NDJSON")),
    }
}

/// CSV files are taken to have a header line unless the user says otherwise.
fn format_options(format: FileFormat, mut options: HashMap<String, String>) -> HashMap<String, String> {
    if format == FileFormat::Csv {
        options.entry("format.has_header".to_owned()).or_insert_with(|| "true".to_owned());
    }
    options
}

async fn require_files(location: &Location, url: &ListingTableUrl, state: &SessionState) -> Result<()> {
    if location.local_path().is_some_and(|path| !path.exists()) {
        let message = format!("location `{location}` does not exist");
        return Err(QueryError::new(ErrorKind::Unreadable, message)
            .hint("check the path; it is looked up on the server"));
    }
    let store = state.runtime_env().object_store(url)?;
    let mut files = url.list_all_files(state, store.as_ref(), "").await?;
    match files.next().await {
        Some(Ok(_)) => Ok(()),
        Some(Err(error)) => Err(error.into()),
        None => {
            let message = format!("location `{location}` holds no readable file");
            Err(QueryError::new(ErrorKind::Unreadable, message)
                .hint("a folder is searched for files whose names end with the format's extension"))
        }
    }
}

async fn infer_schema(
    listing: &ListingOptions,
    url: &ListingTableUrl,
    location: &Location,
    state: &SessionState,
) -> Result<SchemaRef> {
    let unreadable = |reason: &str| {
        let message = format!("cannot read the files of `{location}`: {reason}");
        QueryError::new(ErrorKind::Unreadable, message)
            .hint("check that every file is whole and of the format")
    };
    // The Parquet reader trusts lengths in a footer and may panic on a damaged one.
    match AssertUnwindSafe(listing.infer_schema(state, url)).catch_unwind().await {
        Ok(Ok(schema)) => Ok(schema),
        Ok(Err(error)) => Err(unreadable(&QueryError::from(error).message)),
        Err(_) => Err(unreadable("a file is damaged")),
    }
}

/// A column by its values. A dictionary is how the program that wrote a file kept them in memory, which Parquet files tell; another
/// file of the same table may have none.
fn without_dictionaries(field: &FieldRef) -> FieldRef {
    let data_type = match field.data_type() {
        DataType::Dictionary(_, values) => {
            let values = Field::new(field.name(), viewed(values), field.is_nullable());
            return without_dictionaries(&Arc::new(values.with_metadata(field.metadata().clone())));
        }
        DataType::List(item) => DataType::List(without_dictionaries(item)),
        DataType::LargeList(item) => DataType::LargeList(without_dictionaries(item)),
        DataType::FixedSizeList(item, length) => DataType::FixedSizeList(without_dictionaries(item), *length),
        DataType::Map(entries, sorted) => DataType::Map(without_dictionaries(entries), *sorted),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(without_dictionaries).collect()),
        _ => return Arc::clone(field),
    };
    Arc::new(field.as_ref().clone().with_data_type(data_type))
}

/// Texts and bytes as they are read from columns without a dictionary.
fn viewed(values: &DataType) -> DataType {
    match values {
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        DataType::Binary | DataType::LargeBinary => DataType::BinaryView,
        other => other.clone(),
    }
}

fn declared_file_columns(columns: &Schema, partition_columns: &[String]) -> Vec<FieldRef> {
    columns.fields().iter().filter(|f| !partition_columns.contains(f.name())).cloned().collect()
}

/// Partition columns are text unless the user declared a type.
fn partition_fields(declared: &Schema, names: &[String], file_columns: &[FieldRef]) -> Result<Vec<FieldRef>> {
    names
        .iter()
        .map(|name| {
            if file_columns.iter().any(|field| field.name() == name) {
                let message = format!("partition column `{name}` is also a column of the files");
                return Err(QueryError::new(ErrorKind::InvalidDefinition, message)
                    .hint("leave it out of PARTITIONED BY, or list the columns without it"));
            }
            let data_type =
                declared.field_with_name(name).map_or(DataType::Utf8, |field| field.data_type().clone());
            Ok(Arc::new(Field::new(name, data_type, true)))
        })
        .collect()
}

async fn check_partition_folders(
    listing: &ListingOptions,
    url: &ListingTableUrl,
    names: &[String],
    location: &Location,
    state: &SessionState,
) -> Result<()> {
    if names.is_empty() {
        return Ok(());
    }
    let found = listing.infer_partitions(state, url).await?;
    if found.iter().map(String::as_str).eq(names.iter().map(String::as_str)) {
        return Ok(());
    }
    let message = format!(
        "folders under `{location}` are partitioned by ({}), not by ({})",
        found.join(", "),
        names.join(", ")
    );
    Err(QueryError::new(ErrorKind::InvalidDefinition, message)
        .hint("name the columns of the `column=value` folders, outermost first"))
}

fn check_schema(schema: &Schema) -> Result<()> {
    for (i, field) in schema.fields().iter().enumerate() {
        if schema.fields().iter().take(i).any(|earlier| earlier.name() == field.name()) {
            let message = format!("column `{}` appears twice", field.name());
            return Err(QueryError::new(ErrorKind::InvalidDefinition, message));
        }
    }
    if schema.fields().is_empty() {
        return Err(QueryError::new(ErrorKind::InvalidDefinition, "the files have no columns")
            .hint("list the columns after the table's name"));
    }
    Ok(())
}

/// Arrow IPC bytes of a schema, for the catalog.
pub fn encode_schema(schema: &Schema) -> Vec<u8> {
    let mut encoder = IpcSchemaEncoder::new();
    let message = encoder.schema_to_fb(schema);
    message.finished_data().to_vec()
}
