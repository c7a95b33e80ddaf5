//! Reads footers and page indexes once, and puts only those that pass the checks into the cache that all readers share.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::datasource::physical_plan::parquet::CachedParquetMetaData;
use datafusion::execution::cache::cache_manager::{CachedFileMetadataEntry, FileMetadataCache};
use futures::FutureExt;
use futures::future::BoxFuture;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use parquet::arrow::async_reader::MetadataFetch;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ColumnChunkMetaData, PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader};

use super::damage::DamagedFile;
use super::footer::{check_footer, check_index};
use crate::scan::parquet_files::{trusted, with_months};

/// Bytes at the end of a file that are read first, in one request: most footers, and the indexes before them, are shorter.
const TAIL_BYTES: u64 = 512 << 10;
/// The length of the footer, and the magic number.
const END_BYTES: u64 = 8;

/// Footer and page index of a file, from the cache after the first time. `key` is the name of the file in the cache.
pub async fn sound_metadata(
    store: &dyn ObjectStore,
    file: &ObjectMeta,
    (cache, key): (&FileMetadataCache, &Path),
) -> Result<Arc<ParquetMetaData>> {
    let cached = cache.get(key).filter(|cached| cached.is_valid_for(file));
    let known = cached
        .as_ref()
        .and_then(|cached| cached.file_metadata.as_any().downcast_ref::<CachedParquetMetaData>());
    if let Some(known) = known {
        return Ok(Arc::clone(known.parquet_metadata()));
    }
    let metadata = Arc::new(Tail::read(store, file).await?.metadata().await?);
    let entry = CachedFileMetadataEntry::new(
        file.clone(),
        Arc::new(CachedParquetMetaData::new(Arc::clone(&metadata))),
    );
    cache.put(key, entry);
    Ok(metadata)
}

/// The end of a file.
struct Tail<'a> {
    store: &'a dyn ObjectStore,
    file: &'a ObjectMeta,
    from: u64,
    bytes: Bytes,
}

impl<'a> Tail<'a> {
    async fn read(store: &'a dyn ObjectStore, file: &'a ObjectMeta) -> Result<Self> {
        let from = file.size.saturating_sub(TAIL_BYTES);
        let bytes = store.get_range(&file.location, from..file.size).await.map_err(of_store)?;
        Ok(Self { store, file, from, bytes })
    }

    /// Bytes of the file, which are read from the store if they are not in the tail.
    async fn get(&self, range: Range<u64>) -> Result<Bytes> {
        if range.start > range.end || range.end > self.file.size {
            return Err(DamagedFile("a part lies outside of it").into());
        }
        let within = range.start.checked_sub(self.from).zip(range.end.checked_sub(self.from));
        match within.map(|(start, end)| start as usize..end as usize) {
            Some(within) if within.end <= self.bytes.len() => Ok(self.bytes.slice(within)),
            _ => self.store.get_range(&self.file.location, range).await.map_err(of_store),
        }
    }

    async fn metadata(self) -> Result<ParquetMetaData> {
        let no_parquet = || ParquetError::General("Invalid Parquet file. Corrupt footer".to_owned());
        let end = self.file.size.checked_sub(END_BYTES).ok_or_else(no_parquet)?;
        let last = self.get(end..self.file.size).await?;
        let (length, magic) = last.split_first_chunk::<4>().ok_or_else(no_parquet)?;
        let start = end.checked_sub(u32::from_le_bytes(*length).into()).ok_or_else(no_parquet)?;
        if magic != b"PAR1" {
            return Err(no_parquet());
        }
        let footer = self.get(start..end).await?;
        check_footer(&footer)?;
        let metadata = ParquetMetaDataReader::decode_metadata(&footer)?;
        let indexes = indexes_of(&metadata, self.file.size)?;
        let mut reader = ParquetMetaDataReader::new_with_metadata(metadata)
            .with_page_index_policy(PageIndexPolicy::Optional);
        reader.load_page_index(Checked { tail: &self, indexes }).await?;
        trusted(with_months(reader.finish()?)?)
    }
}

fn of_store(error: object_store::Error) -> ParquetError {
    ParquetError::External(Box::new(error))
}

/// Ranges of the page indexes. An error if the footer points to bytes beyond the file.
fn indexes_of(metadata: &ParquetMetaData, file_bytes: u64) -> Result<Vec<Range<u64>>> {
    let mut indexes = Vec::new();
    for column in metadata.row_groups().iter().flat_map(|group| group.columns()) {
        chunk_of(column, file_bytes)?;
        part(column.bloom_filter_offset(), column.bloom_filter_length().map(i64::from), file_bytes)?;
        for (offset, length) in [
            (column.column_index_offset(), column.column_index_length()),
            (column.offset_index_offset(), column.offset_index_length()),
        ] {
            indexes.extend(part(offset, length.map(i64::from), file_bytes)?);
        }
    }
    Ok(indexes)
}

/// Range of the pages of a column.
pub fn chunk_of(column: &ColumnChunkMetaData, file_bytes: u64) -> Result<Range<u64>> {
    let start = column.dictionary_page_offset().unwrap_or_else(|| column.data_page_offset());
    let chunk = part(Some(start), Some(column.compressed_size()), file_bytes)?;
    chunk.ok_or_else(|| DamagedFile("a column has no pages").into())
}

fn part(offset: Option<i64>, length: Option<i64>, file_bytes: u64) -> Result<Option<Range<u64>>> {
    let Some(offset) = offset else { return Ok(None) };
    let outside = DamagedFile("it points to what lies outside of it");
    let start = u64::try_from(offset).map_err(|_| outside)?;
    let length = u64::try_from(length.unwrap_or(0)).map_err(|_| outside)?;
    match start.checked_add(length) {
        Some(end) if end <= file_bytes => Ok(Some(start..end)),
        _ => Err(outside.into()),
    }
}

/// Checks page indexes on their way to the reader, which asks for all of them at once.
struct Checked<'a> {
    tail: &'a Tail<'a>,
    indexes: Vec<Range<u64>>,
}

impl MetadataFetch for Checked<'_> {
    fn fetch(&mut self, range: Range<u64>) -> BoxFuture<'_, Result<Bytes>> {
        async move {
            let bytes = self.tail.get(range.clone()).await?;
            for index in self.indexes.iter().filter(|index| !index.is_empty()) {
                let within = index.start.checked_sub(range.start).zip(index.end.checked_sub(range.start));
                let index = within.and_then(|(start, end)| bytes.get(start as usize..end as usize));
                check_index(index.ok_or(DamagedFile("its page index is not whole"))?)?;
            }
            Ok(bytes)
        }
        .boxed()
    }
}
