//! One file of a cuboid as it is stored: its footer, ranges of its pages, and all of it, compared with checksums.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use nyala_model::CuboidFile;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader};

use super::blocks::{BLOCKS_KEY, Blocks, Tail, joined};
use super::damage::Damage;
use super::parquet_files::trusted;

/// Bytes that are read at once when a whole file is verified: a multiple of the size of a block.
const VERIFIED_AT_ONCE: u64 = 4 << 20;

/// The decoded tail of a file.
#[derive(Debug, Clone)]
pub struct Footer {
    pub metadata: Arc<ParquetMetaData>,
    pub blocks: Arc<Blocks>,
}

/// A file, and its record in the catalog.
#[derive(Debug)]
pub struct StoredFile {
    store: Arc<dyn ObjectStore>,
    path: Path,
    recorded: CuboidFile,
}

impl StoredFile {
    /// A file as the catalog recorded it.
    pub fn new(store: Arc<dyn ObjectStore>, path: Path, recorded: CuboidFile) -> Self {
        Self { store, path, recorded }
    }

    /// Path of the file within the data folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads and parses the tail of the file.
    pub async fn read_footer(&self) -> Result<Footer, Damage> {
        let CuboidFile { bytes, tail_from, tail_crc, rows, .. } = self.recorded;
        let tail = self.store.get_range(&self.path, tail_from..bytes).await;
        let tail = match tail {
            Ok(tail) => tail,
            Err(error) => return Err(self.explain(error).await),
        };
        if !(Tail { from: tail_from, crc: tail_crc }).holds(&tail) {
            return Err(Damage::Found("the checksum of its footer does not match".to_owned()));
        }
        let metadata = parse(&tail, bytes).map_err(|error| Damage::Found(error.to_string()))?;
        let found = u64::try_from(metadata.file_metadata().num_rows()).unwrap_or_default();
        if found != rows {
            return Err(Damage::Found(format!("it has {found} rows, but {rows} were written")));
        }
        let pairs = metadata.file_metadata().key_value_metadata().into_iter().flatten();
        let sums = pairs.filter(|pair| pair.key == BLOCKS_KEY).find_map(|pair| pair.value.as_deref());
        let blocks = sums.and_then(|sums| Blocks::decode(sums, tail_from));
        let blocks =
            blocks.ok_or_else(|| Damage::Found("its footer has no checksums of pages".to_owned()))?;
        Ok(Footer { metadata: Arc::new(metadata), blocks: Arc::new(blocks) })
    }

    /// Reads `ranges`, with the blocks around them.
    pub async fn read(&self, blocks: &Blocks, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, Damage> {
        let around: Option<Vec<Range<u64>>> = ranges.iter().map(|range| blocks.around(range)).collect();
        let beyond = || Damage::Found("its footer names pages beyond its end".to_owned());
        let wide = joined(around.ok_or_else(beyond)?);
        let read = match self.store.get_ranges(&self.path, &wide).await {
            Ok(read) => read,
            Err(error) => return Err(self.explain(error).await),
        };
        for (range, bytes) in wide.iter().zip(&read) {
            if let Some(at) = blocks.find_damage(range.start, bytes) {
                return Err(Damage::Found(format!("the checksum of the block at byte {at} does not match")));
            }
        }
        ranges.iter().map(|range| slice(&wide, &read, range).ok_or_else(beyond)).collect()
    }

    /// Decides whether a file was truncated, or only cannot be read at the moment.
    async fn explain(&self, error: object_store::Error) -> Damage {
        match self.store.head(&self.path).await {
            Ok(found) if found.size < self.recorded.bytes => self.differs(found.size),
            _ => error.into(),
        }
    }

    fn differs(&self, found: u64) -> Damage {
        Damage::Found(format!("it has {found} bytes, but {} were written", self.recorded.bytes))
    }

    /// Reads the whole file, and compares all checksums.
    pub async fn verify(&self) -> Result<(), Damage> {
        let found = match self.store.head(&self.path).await {
            Ok(found) => found.size,
            // The error of this request has no text, by which a missing file is told from a missing bucket, so a GET follows.
            Err(error) => return Err(self.read_footer().await.err().unwrap_or_else(|| error.into())),
        };
        if found != self.recorded.bytes {
            return Err(self.differs(found));
        }
        let blocks = self.read_footer().await?.blocks;
        let mut from = 0;
        while from < self.recorded.tail_from {
            let to = from.saturating_add(VERIFIED_AT_ONCE).min(self.recorded.tail_from);
            self.read(&blocks, std::slice::from_ref(&(from..to))).await?;
            from = to;
        }
        Ok(())
    }
}

fn parse(tail: &Bytes, file_bytes: u64) -> parquet::errors::Result<ParquetMetaData> {
    let mut reader = ParquetMetaDataReader::new().with_page_index_policy(PageIndexPolicy::Optional);
    reader.try_parse_sized(tail, file_bytes)?;
    trusted(reader.finish()?)
}

/// The bytes of `range`, cut out of the `wide` range around it.
fn slice(wide: &[Range<u64>], read: &[Bytes], range: &Range<u64>) -> Option<Bytes> {
    let at = wide.partition_point(|wide| wide.start <= range.start).checked_sub(1)?;
    let (start, bytes) = (wide.get(at)?.start, read.get(at)?);
    let from = usize::try_from(range.start - start).ok()?;
    let to = usize::try_from(range.end.checked_sub(start)?).ok()?;
    (from <= to && to <= bytes.len()).then(|| bytes.slice(from..to))
}
