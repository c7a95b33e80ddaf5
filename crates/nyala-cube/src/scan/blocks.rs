//! Checksums of a cuboid's file: of each block of its pages, and of the tail that holds these checksums.
//!
//! ```text
//! 0         16 KiB    32 KiB      tail_from                      bytes
//! │ block 0 │ block 1 │ block 2 … │ page index, footer           │
//!                                               └─ `nyala.blocks`: CRC-32C of each block
//! catalog: bytes, tail_from, CRC-32C of the tail
//! ```
//!
//! Parquet's own page checksums leave out the headers of pages, the page index and the footer, and the writer does not
//! write them. The checksums here cover every byte. A reader compares the tail when it parses it, and the blocks of every range
//! that it reads, each time: so it also finds a bit that flips long after the file was opened.

use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crc32c::{crc32c, crc32c_append};

/// Unit of the checksums of pages. Part of the format.
const BLOCK_BYTES: u64 = 16 << 10;
/// Key of the footer's metadata that has the checksums of the blocks, little-endian, in base64.
pub const BLOCKS_KEY: &str = "nyala.blocks";

/// Checksums of a file that is being written.
#[derive(Debug, Default)]
pub struct FileSums {
    blocks: Vec<u32>,
    /// The checksum of the last block so far, which is not full yet.
    open: u32,
    bytes: u64,
    tail: Option<Tail>,
}

/// The end of a file, with the checksum that is in the catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tail {
    pub from: u64,
    pub crc: u32,
}

impl FileSums {
    /// Takes the next bytes of the file.
    pub fn add(&mut self, mut bytes: &[u8]) {
        if let Some(tail) = &mut self.tail {
            tail.crc = crc32c_append(tail.crc, bytes);
            self.bytes += bytes.len() as u64;
            return;
        }
        while !bytes.is_empty() {
            let room = usize::try_from(BLOCK_BYTES - self.bytes % BLOCK_BYTES).unwrap_or(usize::MAX);
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.open = crc32c_append(self.open, now);
            self.bytes += now.len() as u64;
            if self.bytes.is_multiple_of(BLOCK_BYTES) {
                self.blocks.push(std::mem::take(&mut self.open));
            }
            bytes = later;
        }
    }

    /// Ends the last block: bytes added from now on are the tail. Gives the checksums of all blocks for the footer.
    pub fn seal(&mut self) -> String {
        if !self.bytes.is_multiple_of(BLOCK_BYTES) {
            self.blocks.push(self.open);
        }
        self.tail = Some(Tail { from: self.bytes, crc: 0 });
        let bytes: Vec<u8> = self.blocks.iter().flat_map(|sum| sum.to_le_bytes()).collect();
        STANDARD.encode(bytes)
    }

    /// The size of the file, and its tail.
    pub fn ended(&self) -> (u64, Tail) {
        (self.bytes, self.tail.unwrap_or(Tail { from: self.bytes, crc: 0 }))
    }
}

impl Tail {
    /// Whether these are the bytes of the tail.
    pub fn holds(&self, bytes: &[u8]) -> bool {
        crc32c(bytes) == self.crc
    }
}

/// The checksums of the blocks of a file.
#[derive(Debug)]
pub struct Blocks {
    sums: Vec<u32>,
    /// Where the last block ends.
    end: u64,
}

impl Blocks {
    /// Checksums from the footer of a file with a tail that begins at `end`; none if they do not cover all bytes before the tail.
    pub fn decode(text: &str, end: u64) -> Option<Self> {
        let bytes = STANDARD.decode(text).ok()?;
        let (sums, rest) = bytes.as_chunks::<4>();
        let sums: Vec<u32> = sums.iter().map(|sum| u32::from_le_bytes(*sum)).collect();
        (rest.is_empty() && sums.len() as u64 == end.div_ceil(BLOCK_BYTES)).then_some(Self { sums, end })
    }

    /// Memory of the checksums, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.sums.capacity() * size_of::<u32>()
    }

    /// The blocks that `range` touches, as a range of the file; none if the range reaches beyond the last block.
    pub fn around(&self, range: &Range<u64>) -> Option<Range<u64>> {
        let from = range.start - range.start % BLOCK_BYTES;
        let to = range.end.checked_next_multiple_of(BLOCK_BYTES)?.min(self.end);
        (range.end <= self.end).then_some(from..to)
    }

    /// Start of the first damaged block among those of `bytes`, which begin at `from`.
    pub fn find_damage(&self, from: u64, bytes: &[u8]) -> Option<u64> {
        let first = usize::try_from(from / BLOCK_BYTES).unwrap_or(usize::MAX);
        let size = usize::try_from(BLOCK_BYTES).unwrap_or(usize::MAX);
        let found = bytes.chunks(size).enumerate();
        let mut wrong = found.filter(|(at, block)| self.sums.get(first + at) != Some(&crc32c(block)));
        wrong.next().map(|(at, _)| (first as u64 + at as u64) * BLOCK_BYTES)
    }
}

/// `ranges` in order, with touching ones joined.
pub fn joined(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;

    const BLOCK: usize = 16 << 10;

    fn content(bytes: usize) -> Vec<u8> {
        (0..bytes).map(|at| (at * 31 % 251) as u8).collect()
    }

    fn sums(content: &[u8], tail: &[u8], step: usize) -> (FileSums, String) {
        let mut sums = FileSums::default();
        content.chunks(step).for_each(|bytes| sums.add(bytes));
        let blocks = sums.seal();
        sums.add(tail);
        (sums, blocks)
    }

    #[test]
    fn sums_do_not_depend_on_how_bytes_come() {
        for length in [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 7] {
            let content = content(length);
            let (once, blocks) = sums(&content, b"tail", BLOCK * 9);
            for step in [1, 1000, BLOCK] {
                let (often, same) = sums(&content, b"tail", step);
                assert_eq!((often.ended(), &same), (once.ended(), &blocks), "{length} by {step}");
            }
            let (bytes, tail) = once.ended();
            assert_eq!((bytes, tail.from), (length as u64 + 4, length as u64));
            assert!(tail.holds(b"tail") && !tail.holds(b"tajl"));
            assert_eq!(Blocks::decode(&blocks, length as u64).unwrap().find_damage(0, &content), None);
        }
    }

    #[test]
    fn every_flipped_bit_is_found_in_its_block() {
        let mut content = content(2 * BLOCK + 100);
        let blocks = Blocks::decode(&sums(&content, b"", BLOCK).1, content.len() as u64).unwrap();
        for at in (0..content.len()).step_by(997).chain([BLOCK - 1, BLOCK, 2 * BLOCK + 99]) {
            content[at] ^= 1 << (at % 8);
            assert_eq!(blocks.find_damage(0, &content), Some((at / BLOCK * BLOCK) as u64));
            content[at] ^= 1 << (at % 8);
        }
        assert_eq!(blocks.find_damage(BLOCK as u64, &content[BLOCK..]), None);
        assert_eq!(blocks.find_damage(0, &content[BLOCK..]), Some(0), "bytes of another place");
    }

    #[test]
    fn ranges_are_widened_to_blocks_and_joined() {
        let blocks = Blocks::decode(&sums(&content(2 * BLOCK + 100), b"", BLOCK).1, 2 * 16384 + 100).unwrap();
        assert_eq!(blocks.around(&(5..6)), Some(0..16384));
        assert_eq!(blocks.around(&(16384..32769)), Some(16384..32868));
        assert_eq!(blocks.around(&(0..32869)), None, "it reaches into the tail");
        assert!(Blocks::decode("AAAA", 1).is_none() && Blocks::decode("?", 0).is_none());
        assert_eq!(joined(vec![20..30, 0..10, 10..15, 25..27]), [0..15, 20..30]);
    }
}
