//! The columns that files have: from the footers of Parquet files, and guessed from the beginnings of others.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion::error::DataFusionError;
use datafusion::execution::SessionState;
use datafusion::execution::cache::cache_manager::FileMetadataCache;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use nyala_model::FileFormat;
use nyala_sql::error::{ErrorKind, QueryError, Result};
use nyala_storage::object::Location;
use object_store::ObjectMeta;
use parquet::errors::Result as ParquetResult;
use parquet::file::metadata::ParquetMetaData;

use super::layout::Layout;
use crate::scan::bounds::sound_metadata;
use crate::scan::file_reader::FileReader;
use crate::scan::merge::{Merged, refusal, twice};
use crate::scan::parquet_files::columns_of;
use crate::scan::text_files::{GUESSED_BYTES, HeadOfCsv, columns_of_csv, has_header, whole};

/// Number of text files that are inspected.
const MAX_GUESSED_FILES: usize = 64;
/// Rows of a text file from which types are guessed, unless an option sets another number.
const GUESSED_ROWS: usize = 1000;

/// One file's columns.
#[derive(Debug)]
pub struct ColumnsOfFile {
    /// The path below the table's location.
    name: String,
    columns: Vec<FieldRef>,
}

/// Inspects files.
pub struct Look<'a> {
    pub reader: &'a FileReader,
    pub state: &'a SessionState,
    pub layout: &'a Layout,
    pub location: &'a Location,
}

impl Look<'_> {
    /// The columns of each file that is inspected.
    pub async fn at(&self, files: &[ObjectMeta]) -> Result<Vec<ColumnsOfFile>> {
        let count = match self.reader.format() {
            FileFormat::Parquet => files.len(),
            _ => files.len().min(MAX_GUESSED_FILES),
        };
        let at_once = self.state.config_options().execution.meta_fetch_concurrency.get();
        let found = files.iter().take(count).map(|file| self.at_one(file)).collect::<Vec<_>>();
        stream::iter(found).buffered(at_once).try_collect().await
    }

    async fn at_one(&self, file: &ObjectMeta) -> Result<ColumnsOfFile> {
        let name = self.layout.name_of(&file.location);
        let unreadable = |reason: &str| {
            let message = format!("cannot read the files of `{}`: file `{name}`: {reason}", self.location);
            QueryError::new(ErrorKind::Unreadable, message)
                .hint("check that every file is whole and of the format")
        };
        // The Parquet reader trusts lengths in a footer and may panic on a damaged one.
        let columns = match AssertUnwindSafe(self.columns(file)).catch_unwind().await {
            Ok(Ok(columns)) => columns,
            Ok(Err(error)) if error.kind == ErrorKind::Unsupported => return Err(error),
            Ok(Err(error)) => {
                let transient = error.transient;
                return Err(QueryError { transient, ..unreadable(&error.message) });
            }
            Err(_) => return Err(unreadable("it is damaged")),
        };
        Ok(ColumnsOfFile { name, columns })
    }

    async fn metadata(
        &self,
        file: &ObjectMeta,
        cache: &FileMetadataCache,
    ) -> ParquetResult<Arc<ParquetMetaData>> {
        let reads = self.reader.reads();
        sound_metadata(reads.file(file).as_ref(), file, (cache, &reads.key(file))).await
    }

    async fn columns(&self, file: &ObjectMeta) -> Result<Vec<FieldRef>> {
        match self.reader.format() {
            FileFormat::Parquet | FileFormat::Delta => {
                let cache = self.state.runtime_env().cache_manager.get_file_metadata_cache();
                let metadata = self.metadata(file, cache.as_ref()).await;
                columns_of(metadata.map_err(DataFusionError::from)?.as_ref())
            }
            FileFormat::Csv => {
                let bytes =
                    whole(&self.reader.reads().file(file), &file.location, self.reader.compression()).await?;
                let (head, _) = HeadOfCsv::read(bytes, self.reader.csv(), GUESSED_BYTES).await?;
                let rows = self.reader.csv().schema_infer_max_rec.unwrap_or(GUESSED_ROWS);
                Ok(columns_of_csv(&head.columns(self.reader.csv(), rows)?))
            }
            FileFormat::NdJson => {
                let format = self.reader.format_of_files();
                let store = self.reader.reads().file(file);
                let schema = format.infer_schema(self.state, &store, std::slice::from_ref(file)).await?;
                Ok(schema.fields().iter().cloned().collect())
            }
        }
    }
}

/// The columns of all files, with types wide enough for each.
pub fn merged(format: FileFormat, files: &[ColumnsOfFile]) -> Result<Vec<FieldRef>> {
    let otherwise = (format != FileFormat::Parquet).then_some(DataType::Utf8);
    let mut all = Merged::default();
    for file in files {
        all.add(&file.name, &file.columns, otherwise.as_ref())?;
    }
    let settled = |column: FieldRef| match column.data_type() {
        // A column without any value is a text.
        DataType::Null if otherwise.is_some() => Arc::new(Field::new(column.name(), DataType::Utf8, true)),
        _ => column,
    };
    Ok(all.into_columns().into_iter().map(settled).collect())
}

/// Checks that the files can be read as the listed columns.
pub fn check_listed(reader: &FileReader, files: &[ColumnsOfFile], listed: &Schema) -> Result<()> {
    for field in listed.fields() {
        let mut is_there = files.is_empty();
        for file in files {
            let found = file.columns.iter().filter(|column| column.name() == field.name());
            match found.collect::<Vec<_>>().as_slice() {
                [] => {}
                [column] if reader.format() == FileFormat::Parquet => {
                    is_there = true;
                    if let Some(message) = refusal(field.name(), column.data_type(), field.data_type()) {
                        return Err(QueryError::new(ErrorKind::InvalidDefinition, message)
                            .hint("list the column with a type that holds all values of the files"));
                    }
                }
                [_] => is_there = true,
                _ => return Err(twice(field.name())),
            }
            let folded = |column: &FieldRef| column.name().trim().eq_ignore_ascii_case(field.name());
            is_there |= file.columns.iter().any(folded);
        }
        if !is_there && reader.format() == FileFormat::Csv && has_header(reader.csv()) {
            return Err(no_such_column(field, files));
        }
    }
    Ok(())
}

fn no_such_column(field: &Field, files: &[ColumnsOfFile]) -> QueryError {
    let names = files.iter().flat_map(|file| &file.columns).map(|column| column.name().as_str());
    let mut known: Vec<&str> = Vec::new();
    for name in names {
        if !known.contains(&name) {
            known.push(name);
        }
    }
    let message = format!(
        "no file has a column `{}`: the first lines name {}",
        field.name(),
        known.iter().take(20).copied().collect::<Vec<_>>().join(", ")
    );
    QueryError::new(ErrorKind::UndefinedColumn, message)
        .hint("columns are found by their names; for files without such a line: OPTIONS ('format.has_header' 'false')")
}
