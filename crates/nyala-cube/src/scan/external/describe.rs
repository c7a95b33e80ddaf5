//! `CREATE EXTERNAL TABLE`: looks at the files once and describes the table for the catalog.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow::datatypes::{Field, FieldRef, Schema, SchemaRef};
use arrow::ipc::convert::IpcSchemaEncoder;
use datafusion::execution::SessionState;
use nyala_catalog::NewTable;
use nyala_model::{ExternalSource, FileFormat, QualifiedName, TableSource};
use nyala_sql::error::{ErrorKind, QueryError, Result};
use nyala_storage::object::Location;
use object_store::ObjectMeta;

use super::delta::{DeltaColumns, DeltaTable};
use super::infer::{Look, check_listed, merged};
use super::layout::{Layout, are_same};
use super::listing::{Found, partitioned};
use super::partitions::type_of;
use crate::scan::file_reader::FileReader;
use crate::scan::file_reads::FileReads;
use crate::scan::stores::Stores;

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
    /// Whether folders `column=value` in which all files lie are partition columns, too.
    pub find_partitions: bool,
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
    let reads = stores.reads(&location, &request.name)?;
    if format == FileFormat::Delta {
        return describe_delta(request, &location, &reads).await;
    }
    let options = format_options(format, request.options);
    let reader = FileReader::new(format, options.clone(), state, reads)?;
    let layout = Layout::new(&location, format, &[]);
    let files = files_at(&location, &layout, reader.reads()).await?;
    let names = &match request.find_partitions {
        true => common_folders(&files),
        false => request.partition_columns,
    };
    let partitions = partition_fields(&request.columns, names, &files);
    check_partitions(&partitions, &files, &location)?;
    let objects: Vec<ObjectMeta> = files.into_iter().map(|file| file.meta).collect();
    let look = Look { reader: &reader, state, layout: &layout, location: &location };
    let found = look.at(&objects).await?;
    let listed: Vec<FieldRef> = request.columns.fields().iter().cloned().collect();
    let file_columns = match without(&listed, names) {
        // The user listed no columns besides partition columns.
        listed if listed.is_empty() => without(&merged(format, &found)?, names),
        listed => {
            check_listed(&reader, &found, &Schema::new(listed.clone()))?;
            listed
        }
    };
    let schema = Schema::new(file_columns.into_iter().chain(partitions).collect::<Vec<FieldRef>>());
    check_schema(&schema)?;
    Ok(NewTable {
        name: request.name,
        source: TableSource::External(ExternalSource {
            format,
            location: location.to_string(),
            partition_columns: names.clone(),
            options: options.into_iter().collect::<BTreeMap<_, _>>(),
        }),
        schema_ipc: encode_schema(&schema),
        definition: request.definition,
    })
}

/// Describes a Delta table, whose log has its columns.
async fn describe_delta(request: TableRequest, location: &Location, reads: &FileReads) -> Result<NewTable> {
    if !request.columns.fields().is_empty() || !request.partition_columns.is_empty() {
        let message = "the log of a Delta table tells its columns, also those that it is partitioned by";
        return Err(QueryError::new(ErrorKind::InvalidDefinition, message)
            .hint("leave the columns and PARTITIONED BY out"));
    }
    let table = DeltaTable::new(location, &request.options)?;
    reads.list(&Layout::of_delta(location, table.clone()), true).await?;
    let DeltaColumns { all, partitions } = reads.delta_columns(&table).await?;
    let (of_values, of_files): (Vec<FieldRef>, Vec<FieldRef>) =
        all.into_iter().partition(|column| partitions.contains(column.name()));
    let of_values: Vec<FieldRef> =
        of_values.iter().map(|column| Arc::new(column.as_ref().clone().with_nullable(true))).collect();
    let partition_columns = of_values.iter().map(|column| column.name().clone()).collect();
    let schema = Schema::new(of_files.into_iter().chain(of_values).collect::<Vec<FieldRef>>());
    check_schema(&schema)?;
    Ok(NewTable {
        name: request.name,
        source: TableSource::External(ExternalSource {
            format: FileFormat::Delta,
            location: location.to_string(),
            partition_columns,
            options: request.options.into_iter().collect::<BTreeMap<_, _>>(),
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
        "DELTA" | "DELTATABLE" => Ok(FileFormat::Delta),
        _ => Err(QueryError::new(ErrorKind::InvalidDefinition, format!("format `{text}` is not supported"))
            .hint("use PARQUET, DELTA, CSV or NDJSON")),
    }
}

/// CSV files are taken to have a header line unless the user says otherwise.
fn format_options(format: FileFormat, mut options: HashMap<String, String>) -> HashMap<String, String> {
    if format == FileFormat::Csv {
        options.entry("format.has_header".to_owned()).or_insert_with(|| "true".to_owned());
    }
    options
}

/// The data files below a location, with all the folders that they lie in.
async fn files_at(location: &Location, layout: &Layout, reads: &FileReads) -> Result<Vec<Found>> {
    if !layout.is_pattern() && location.local_path().is_some_and(|path| !path.exists()) {
        let message = format!("location `{location}` does not exist");
        return Err(QueryError::new(ErrorKind::Unreadable, message)
            .hint("check the path; it is looked up on the server"));
    }
    let files = reads.list(layout, true).await?.to_vec();
    if files.is_empty() {
        let message = format!("location `{location}` holds no readable file");
        return Err(QueryError::new(ErrorKind::Unreadable, message)
            .hint("a folder is searched for files whose names end with the format's extension"));
    }
    Ok(files)
}

/// The names of the folders that all files lie in.
fn common_folders(files: &[Found]) -> Vec<String> {
    let names = |file: &Found| file.folders.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    let first = files.first().map(names).unwrap_or_default();
    if files.iter().all(|file| names(file) == first) { first } else { Vec::new() }
}

fn without(columns: &[FieldRef], names: &[String]) -> Vec<FieldRef> {
    columns.iter().filter(|field| !names.contains(field.name())).cloned().collect()
}

/// Partition columns have the types that the user listed, or those of all their folders.
fn partition_fields(declared: &Schema, names: &[String], files: &[Found]) -> Vec<FieldRef> {
    let field = |(place, name): (usize, &String)| {
        let texts = files.iter().filter_map(move |file| file.folders.get(place));
        let texts = texts.map(|(_, text)| text.as_str());
        let listed = declared.field_with_name(name).map(|field| field.data_type().clone());
        Arc::new(Field::new(name, listed.unwrap_or_else(|_| type_of(texts)), true))
    };
    names.iter().enumerate().map(field).collect()
}

/// Checks that each file lies in folders of the partition columns, with values of their types.
fn check_partitions(fields: &[FieldRef], files: &[Found], location: &Location) -> Result<()> {
    if fields.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = fields.iter().map(|field| field.name().clone()).collect();
    let is_partitioned = |file: &&Found| are_same(file.folders.iter().map(|(name, _)| name.as_str()), &names);
    let Some(Found { folders: other, .. }) = files.iter().find(|file| !is_partitioned(file)) else {
        return partitioned(files.to_vec(), fields).map(drop);
    };
    let other: Vec<&str> = other.iter().map(|(name, _)| name.as_str()).collect();
    let (other, names) = (other.join(", "), names.join(", "));
    let message = format!("folders under `{location}` are partitioned by ({other}), not by ({names})");
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
