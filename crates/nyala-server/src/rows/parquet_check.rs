//! Checks a Parquet file from its footer to its pages, before the reader allocates the sizes that it states.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use axum::body::Bytes;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nyala_engine::parquet_bounds::{
    ChunkPages, ContentsCheck, Entries, Fingerprint, check_footer, check_pages, lists_of,
};
use nyala_engine::{ErrorKind, QueryError};
use parquet::arrow::ARROW_SCHEMA_META_KEY;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::basic::Type;
use parquet::column::page::PageReader;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, ParquetMetaDataReader};
use parquet::file::serialized_reader::SerializedPageReader;
use parquet::schema::types::ColumnDescriptor;

use super::arrow::check_arrow_schema;
use super::parquet_file::{BATCH_ROWS, unreadable};

/// Bytes behind the footer: its length, and `PAR1`.
const TAIL_BYTES: usize = 8;
/// Bytes that the reader may hold at once: a page and a dictionary of each column, or a batch of rows.
const MAX_HELD_BYTES: usize = 256 << 20;
/// Most values of a column of lists in one row group. One row may hold all of them.
const MAX_LIST_VALUES: usize = 16 << 20;
const MAX_COLUMNS: usize = 10_000;

/// The metadata of a file whose pages can all be read. Texts and bytes are read as views: otherwise each row would get a copy of
/// its value in the dictionary, which may have a megabyte.
pub fn checked_metadata(file: &Bytes) -> Result<ArrowReaderMetadata, QueryError> {
    let footer = footer_of(file).ok_or_else(|| unreadable("it does not end as Parquet files do"))?;
    check_footer(footer).map_err(unreadable)?;
    let metadata = Arc::new(ParquetMetaDataReader::decode_metadata(footer).map_err(unreadable)?);
    check_columns(&metadata)?;
    check_chunks(&metadata, file)?;
    check_arrow_types(&metadata)?;
    let options = ArrowReaderOptions::new();
    let read = ArrowReaderMetadata::try_new(Arc::clone(&metadata), options.clone()).map_err(unreadable)?;
    let fields: Vec<FieldRef> = read.schema().fields().iter().map(viewed).collect();
    let schema = Schema::new_with_metadata(fields, read.schema().metadata().clone());
    ArrowReaderMetadata::try_new(metadata, options.with_schema(Arc::new(schema))).map_err(unreadable)
}

fn footer_of(file: &[u8]) -> Option<&[u8]> {
    let (front, tail) = file.split_at_checked(file.len().checked_sub(TAIL_BYTES)?)?;
    let (length, magic) = tail.split_first_chunk::<4>()?;
    let from = front.len().checked_sub(u32::from_le_bytes(*length) as usize)?;
    if magic == b"PAR1" { front.get(from..) } else { None }
}

fn too_large(what: &str) -> QueryError {
    QueryError::new(ErrorKind::LimitExceeded, format!("a Parquet file with {what}"))
        .hint("write smaller pages and row groups, or send an Arrow stream")
}

/// Refuses more columns, or wider ones, than a batch may have.
fn check_columns(metadata: &ParquetMetaData) -> Result<(), QueryError> {
    let columns = metadata.file_metadata().schema_descr().columns();
    if columns.len() > MAX_COLUMNS {
        return Err(too_large(&format!("more than {MAX_COLUMNS} columns")));
    }
    let width = |column: &Arc<ColumnDescriptor>| match column.physical_type() {
        Type::FIXED_LEN_BYTE_ARRAY => usize::try_from(column.type_length()).unwrap_or_default(),
        _ => 16,
    };
    let row: usize = columns.iter().map(width).fold(0, usize::saturating_add);
    match row.saturating_mul(BATCH_ROWS) > MAX_HELD_BYTES {
        true => Err(too_large("rows that are too wide")),
        false => Ok(()),
    }
}

/// Checks the pages of all columns.
fn check_chunks(metadata: &ParquetMetaData, file: &Bytes) -> Result<(), QueryError> {
    let lists = lists_of(metadata.file_metadata().schema_descr());
    for group in metadata.row_groups() {
        let rows = usize::try_from(group.num_rows()).map_err(unreadable)?;
        let (mut held, mut entries) = (0_usize, HashMap::new());
        for (chunk, lists) in group.columns().iter().zip(&lists) {
            let pages = check_chunk(chunk, file)?;
            held = held.saturating_add(pages.held_bytes);
            if held > MAX_HELD_BYTES {
                return Err(too_large(&format!("pages of more than {} MiB", MAX_HELD_BYTES >> 20)));
            }
            if chunk.column_descr().max_rep_level() > 0 && pages.values > MAX_LIST_VALUES {
                return Err(too_large(&format!(
                    "more than {MAX_LIST_VALUES} values in lists of a row group"
                )));
            }
            for found in check_within(chunk, lists, file, rows)? {
                if *entries.entry(found.entries.list).or_insert(found) != found {
                    return Err(unreadable("columns of a list differ in its entries"));
                }
            }
        }
    }
    Ok(())
}

fn check_chunk(chunk: &ColumnChunkMetaData, file: &Bytes) -> Result<ChunkPages, QueryError> {
    let outside = || unreadable("a column lies outside of it");
    let start = chunk.dictionary_page_offset().unwrap_or_else(|| chunk.data_page_offset());
    let start = usize::try_from(start).map_err(|_| outside())?;
    let length = usize::try_from(chunk.compressed_size()).map_err(|_| outside())?;
    let end = start.checked_add(length).ok_or_else(outside)?;
    check_pages(file.get(start..end).ok_or_else(outside)?, usize::MAX).map_err(unreadable)
}

/// Checks the decompressed pages of a column. Gives fingerprints of its lists.
fn check_within(
    chunk: &ColumnChunkMetaData,
    lists: &[Entries],
    file: &Bytes,
    rows: usize,
) -> Result<Vec<Fingerprint>, QueryError> {
    let mut pages =
        SerializedPageReader::new(Arc::new(file.clone()), chunk, rows, None).map_err(unreadable)?;
    let mut check = ContentsCheck::new(chunk.column_descr(), lists);
    while let Some(page) = pages.get_next_page().map_err(unreadable)? {
        check.check(&page).map_err(unreadable)?;
    }
    Ok(check.entries())
}

/// Checks the Arrow schema that programs with Arrow write into the file, as text.
fn check_arrow_types(metadata: &ParquetMetaData) -> Result<(), QueryError> {
    let pairs = metadata.file_metadata().key_value_metadata().into_iter().flatten();
    for text in pairs.filter(|pair| pair.key == ARROW_SCHEMA_META_KEY).filter_map(|pair| pair.value.as_ref())
    {
        let bytes = STANDARD.decode(text).map_err(unreadable)?;
        check_arrow_schema(&bytes).map_err(|error| unreadable(error.message))?;
    }
    Ok(())
}

/// The field with views in place of texts and bytes, and values in place of dictionaries: the reader of dictionaries does not check
/// their keys.
fn viewed(field: &FieldRef) -> FieldRef {
    let data_type = match field.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        DataType::Binary | DataType::LargeBinary => DataType::BinaryView,
        DataType::List(item) => DataType::List(viewed(item)),
        DataType::LargeList(item) => DataType::LargeList(viewed(item)),
        DataType::FixedSizeList(item, size) => DataType::FixedSizeList(viewed(item), *size),
        DataType::Map(entries, sorted) => DataType::Map(viewed(entries), *sorted),
        DataType::Dictionary(_, values) => {
            return viewed(&Arc::new(Field::clone(field).with_data_type(DataType::clone(values))));
        }
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(viewed).collect()),
        _ => return Arc::clone(field),
    };
    Arc::new(Field::clone(field).with_data_type(data_type))
}
