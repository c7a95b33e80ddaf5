//! The file of one block.
//!
//! ```text
//! data      the bytes of the block
//! sums      CRC32C of each 64 KiB of data, 4 bytes each
//! file      16 bytes: the file's id
//! number    8 bytes: the block's number
//! length    4 bytes: bytes of data
//! magic     4 bytes: `NYB1`
//! check     4 bytes: CRC32C of everything from the sums to the magic
//! ```
//! Numbers are little-endian. A small read touches only the chunks around its bytes, and their sums. The reader knows the
//! length of the data from the file's version, so that it reads sums and footer at once.

use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::block::BlockId;

/// Bytes under one checksum.
const CHUNK: usize = 64 << 10;
const FOOTER: usize = 36;
const MAGIC: &[u8; 4] = b"NYB1";

/// Why a block cannot be read from its file.
#[derive(Debug)]
pub enum Unusable {
    /// There is no such file.
    Absent,
    /// The content of the file is not that of the block.
    Damaged,
    /// The system cannot read the file.
    Io(io::Error),
}

impl From<io::Error> for Unusable {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::Absent,
            io::ErrorKind::UnexpectedEof => Self::Damaged,
            _ => Self::Io(error),
        }
    }
}

/// The bytes behind the data, given the checksums of its chunks.
fn tail(block: &BlockId, data_bytes: usize, sums: &[u8]) -> Vec<u8> {
    let mut tail = Vec::with_capacity(sums.len() + FOOTER);
    tail.extend_from_slice(sums);
    tail.extend_from_slice(&block.file.bytes());
    tail.extend_from_slice(&block.number.to_le_bytes());
    tail.extend_from_slice(&u32::try_from(data_bytes).unwrap_or(u32::MAX).to_le_bytes());
    tail.extend_from_slice(MAGIC);
    let check = crc32c::crc32c(&tail);
    tail.extend_from_slice(&check.to_le_bytes());
    tail
}

fn sums_bytes(data_bytes: usize) -> usize {
    data_bytes.div_ceil(CHUNK) * 4
}

/// Size of the file of a block with so many bytes of data.
pub fn file_bytes(data_bytes: usize) -> usize {
    data_bytes + sums_bytes(data_bytes) + FOOTER
}

/// Writes a new file. It is not synced: checksums find what a power cut left unwritten.
pub fn write(to: &Path, block: &BlockId, data: &[u8]) -> io::Result<()> {
    let sums: Vec<u8> = data.chunks(CHUNK).flat_map(|chunk| crc32c::crc32c(chunk).to_le_bytes()).collect();
    let mut file = File::create(to)?;
    file.write_all(data)?;
    file.write_all(&tail(block, data.len(), &sums))
}

/// The chunks around a part of a block that has `data_bytes`.
pub fn around(part: &Range<usize>, data_bytes: usize) -> Range<usize> {
    part.start / CHUNK * CHUNK..(part.end.div_ceil(CHUNK) * CHUNK).min(data_bytes)
}

/// Reads and verifies the chunks of a block from `from` on, a multiple of their size, into `into`.
pub fn read(
    at: &Path,
    block: &BlockId,
    data_bytes: usize,
    from: usize,
    into: &mut [u8],
) -> Result<(), Unusable> {
    let file = File::open(at)?;
    let mut found = vec![0; sums_bytes(data_bytes) + FOOTER];
    file.read_exact_at(&mut found, data_bytes as u64)?;
    let sums = found.get(..sums_bytes(data_bytes)).unwrap_or_default();
    if found != tail(block, data_bytes, sums) {
        return Err(Unusable::Damaged);
    }
    file.read_exact_at(into, from as u64)?;
    let sums = sums.chunks_exact(4).skip(from / CHUNK);
    let same = |(chunk, sum): (&[u8], &[u8])| crc32c::crc32c(chunk).to_le_bytes() == *sum;
    if into.chunks(CHUNK).zip(sums).all(same) { Ok(()) } else { Err(Unusable::Damaged) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use object_store::path::Path as StorePath;

    use super::super::block::FileId;
    use super::*;

    fn block(number: u64) -> BlockId {
        BlockId { file: FileId::of_constant("s3://b", &StorePath::from("a"), 1 << 20), number }
    }

    #[test]
    fn every_flipped_bit_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("x");
        let data: Vec<u8> = (0..CHUNK + 1000).map(|at| (at % 251) as u8).collect();
        write(&at, &block(7), &data).unwrap();
        let whole = std::fs::read(&at).unwrap();
        assert_eq!(whole.len(), file_bytes(data.len()));
        let read_all = |number| {
            let mut found = vec![0; data.len()];
            read(&at, &block(number), data.len(), 0, &mut found).map(|()| found)
        };
        assert_eq!(read_all(7).unwrap(), data);
        assert!(matches!(read_all(8), Err(Unusable::Damaged)), "the file of another block");
        for position in (0..whole.len()).step_by(97).chain(data.len()..whole.len()) {
            let mut flipped = whole.clone();
            flipped[position] ^= 1 << (position % 8);
            std::fs::write(&at, &flipped).unwrap();
            assert!(matches!(read_all(7), Err(Unusable::Damaged)), "{position}");
        }
        std::fs::write(&at, &whole[..data.len()]).unwrap();
        assert!(matches!(read_all(7), Err(Unusable::Damaged)));
        std::fs::remove_file(&at).unwrap();
        assert!(matches!(read_all(7), Err(Unusable::Absent)));
    }

    #[test]
    fn small_reads_touch_the_chunks_around_them() {
        assert_eq!(around(&(0..1), 3 * CHUNK), 0..CHUNK);
        assert_eq!(around(&(CHUNK - 1..CHUNK + 1), 3 * CHUNK), 0..2 * CHUNK);
        assert_eq!(around(&(2 * CHUNK..2 * CHUNK + 5), 2 * CHUNK + 9), 2 * CHUNK..2 * CHUNK + 9);
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("x");
        let mut data = vec![1; 3 * CHUNK];
        write(&at, &block(0), &data).unwrap();
        let mut damaged = std::fs::read(&at).unwrap();
        damaged[0] ^= 1;
        std::fs::write(&at, &damaged).unwrap();
        data.truncate(CHUNK);
        let mut found = vec![0; CHUNK];
        read(&at, &block(0), 3 * CHUNK, CHUNK, &mut found).unwrap();
        assert_eq!(found, data, "damage elsewhere");
        assert!(matches!(read(&at, &block(0), 3 * CHUNK, 0, &mut found), Err(Unusable::Damaged)));
    }
}
