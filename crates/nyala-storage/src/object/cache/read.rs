//! Reading ranges of a file through the cache.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use object_store::{Error, Result};

use super::BlockCache;
use super::block::BlockId;
use super::disk::Disk;
use super::file::RemoteFile;
use super::flight::Arriving;
use super::stats::Tally;

/// The place of a block.
#[derive(Debug, Clone)]
enum Place {
    Memory(Bytes),
    Disk,
    Arriving(Arc<Arriving>),
}

/// A part of a wanted range: from one block, or from consecutive blocks on disk.
#[derive(Debug)]
struct Piece {
    range: Range<u64>,
    place: Place,
}

/// Bytes of a range from the disk; none if a block could not be read.
type Part = (Range<u64>, Option<Bytes>);

/// How a reader treats the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fill {
    /// Blocks that are fetched may be kept for later reads.
    Keep,
    /// Blocks in the cache are used, and fetched blocks are not kept: for reads of a whole table that happen once.
    Never,
}

impl BlockCache {
    /// Reads ranges of a file, each of them not empty and within the file.
    ///
    /// # Errors
    /// The errors of the store, for blocks that are not in the cache. Failures of the cache itself are misses.
    pub async fn read(
        self: &Arc<Self>,
        file: &Arc<RemoteFile>,
        ranges: &[Range<u64>],
        fill: Fill,
        tally: &Tally,
    ) -> Result<Vec<Bytes>> {
        let places = self.places(file, ranges, fill, true);
        let pieces: Vec<Vec<Piece>> = ranges.iter().map(|range| pieces(file, range, &places)).collect();
        let on_disk = self.read_disk(file, &pieces).await;
        let lost = on_disk.iter().flatten().filter(|(_, data)| data.is_none());
        let lost: Vec<Range<u64>> = lost.map(|(range, _)| range.clone()).collect();
        let mut reading = Reading {
            file,
            // Blocks that the index had and the disk could not read are looked for once more, without the disk.
            places: self.places(file, &lost, fill, false),
            on_disk: on_disk.into_iter(),
            tally,
        };
        let mut found = Vec::with_capacity(ranges.len());
        for pieces in pieces {
            found.push(joined(reading.parts(pieces).await?));
        }
        // Bytes are missing if the blocking task was lost, while the process ends.
        let short =
            ranges.iter().zip(&found).find(|(range, bytes)| bytes.len() as u64 != range.end - range.start);
        match short {
            Some((range, _)) => Err(unread(range)),
            None => Ok(found),
        }
    }

    /// Finds the blocks of the ranges, and begins requests for those that are missing.
    fn places(
        self: &Arc<Self>,
        file: &Arc<RemoteFile>,
        ranges: &[Range<u64>],
        fill: Fill,
        use_disk: bool,
    ) -> BTreeMap<u64, Place> {
        let mut places = BTreeMap::new();
        let mut missing = Vec::new();
        let mut numbers: Vec<u64> = ranges.iter().flat_map(|range| file.cut().blocks(range)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        for number in numbers {
            let block = BlockId { file: file.id(), number };
            if let Some(data) = self.memory.as_ref().and_then(|memory| memory.get(&block)) {
                places.insert(number, Place::Memory(data));
            } else if use_disk && self.disk.as_ref().is_some_and(|disk| disk.has(&block)) {
                places.insert(number, Place::Disk);
            } else {
                missing.push(number);
            }
        }
        if !missing.is_empty() {
            if fill == Fill::Keep {
                self.note_name(file);
            }
            let is_kept =
                |block: &BlockId| use_disk && self.disk.as_ref().is_some_and(|disk| disk.keeps(block));
            let arriving = self.flights.join(file, &missing, fill == Fill::Keep, self, is_kept);
            let arriving = arriving.into_iter().map(|arriving| arriving.map_or(Place::Disk, Place::Arriving));
            places.extend(missing.into_iter().zip(arriving));
        }
        places
    }

    /// Reads all pieces on disk, in order.
    async fn read_disk(&self, file: &Arc<RemoteFile>, pieces: &[Vec<Piece>]) -> Vec<Vec<Part>> {
        let of_disk = pieces.iter().flatten().filter(|piece| matches!(piece.place, Place::Disk));
        let ranges: Vec<Range<u64>> = of_disk.map(|piece| piece.range.clone()).collect();
        let Some(disk) = self.disk.as_ref().filter(|_| !ranges.is_empty()) else { return Vec::new() };
        let (disk, file) = (Arc::clone(disk), Arc::clone(file));
        let read =
            move || ranges.into_iter().map(|range| read_piece(&disk, &file, range)).collect::<Vec<_>>();
        // The task is lost only while the process ends.
        self.runtime.spawn_blocking(read).await.unwrap_or_default()
    }
}

/// Collects the parts of ranges.
struct Reading<'a> {
    file: &'a RemoteFile,
    places: BTreeMap<u64, Place>,
    on_disk: std::vec::IntoIter<Vec<Part>>,
    tally: &'a Tally,
}

impl Reading<'_> {
    async fn parts(&mut self, range: Vec<Piece>) -> Result<Vec<Bytes>> {
        let mut parts = Vec::new();
        for piece in range {
            if !matches!(piece.place, Place::Disk) {
                self.add(piece, &mut parts).await?;
                continue;
            }
            for (range, data) in self.on_disk.next().unwrap_or_default() {
                if let Some(data) = data {
                    self.tally.count_disk(data.len() as u64);
                    parts.push(data);
                    continue;
                }
                for piece in pieces(self.file, &range, &self.places) {
                    self.add(piece, &mut parts).await?;
                }
            }
        }
        Ok(parts)
    }

    async fn add(&self, Piece { range, place }: Piece, parts: &mut Vec<Bytes>) -> Result<()> {
        let bytes = range.end - range.start;
        match place {
            Place::Memory(data) => {
                self.tally.count_memory(bytes);
                parts.push(data);
            }
            Place::Arriving(arriving) => {
                self.tally.count_store(bytes);
                parts.extend(arrived(self.file, &range, &arriving).await?);
            }
            Place::Disk => return Err(unread(&range)),
        }
        Ok(())
    }
}

/// Reads a piece block by block. The part of a block that cannot be read has no bytes.
fn read_piece(disk: &Disk, file: &RemoteFile, mut rest: Range<u64>) -> Vec<Part> {
    let read = |range: &Range<u64>| disk.read(file.id(), file.cut(), range);
    let mut parts = Vec::new();
    while !rest.is_empty() {
        match read(&rest) {
            Ok(data) => {
                parts.push((rest, Some(data)));
                break;
            }
            Err(number) => {
                let block = file.cut().bytes_of(&(number..number + 1));
                let (from, to) = (block.start.max(rest.start), block.end.min(rest.end));
                if rest.start < from {
                    parts.push((rest.start..from, read(&(rest.start..from)).ok()));
                }
                parts.push((from..to, None));
                rest.start = to;
            }
        }
    }
    parts
}

fn unread(range: &Range<u64>) -> Error {
    let source = format!("bytes {range:?} were not read: the process ends").into();
    Error::Generic { store: "block cache", source }
}

async fn arrived(file: &RemoteFile, range: &Range<u64>, arriving: &Arriving) -> Result<Vec<Bytes>> {
    let part = file.cut().part(range.start / file.cut().block_bytes, range);
    let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    arriving.part(size(part.start)..size(part.end)).await.map_err(|error| error.for_reader())
}

/// The pieces of a range, in order.
fn pieces(file: &RemoteFile, range: &Range<u64>, places: &BTreeMap<u64, Place>) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    for number in file.cut().blocks(range) {
        let block = file.cut().bytes_of(&(number..number + 1));
        let part = file.cut().part(number, range);
        let range = block.start + part.start..block.start + part.end;
        let Some(place) = places.get(&number).cloned() else { continue };
        match (&place, pieces.last_mut()) {
            (Place::Disk, Some(Piece { range: before, place: Place::Disk })) => before.end = range.end,
            (Place::Memory(data), _) => {
                let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
                let place = Place::Memory(data.slice(size(part.start)..size(part.end)));
                pieces.push(Piece { range, place });
            }
            _ => pieces.push(Piece { range, place }),
        }
    }
    pieces
}

/// All parts in one piece.
fn joined(mut parts: Vec<Bytes>) -> Bytes {
    if parts.len() == 1
        && let Some(only) = parts.pop()
    {
        return only;
    }
    let mut all = BytesMut::with_capacity(parts.iter().map(Bytes::len).sum());
    parts.iter().for_each(|part| all.extend_from_slice(part));
    all.freeze()
}
