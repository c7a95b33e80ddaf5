//! Names of blocks, and which blocks hold a range of bytes.

use std::fmt;
use std::ops::Range;

use object_store::ObjectMeta;
use object_store::path::Path;

/// One version of one file in one store, cut into blocks of one size: a 128-bit digest of all of these.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileId([u8; 16]);

impl FileId {
    /// A file as a listing showed it.
    pub fn of_version(store: &str, meta: &ObjectMeta, block_bytes: u64) -> Self {
        let modified = meta.last_modified.timestamp();
        let tag = meta.e_tag.as_deref().unwrap_or_default();
        Self::of(store, &meta.location, block_bytes, &format!("{} {modified} {tag}", meta.size))
    }

    /// A file that never changes.
    pub fn of_constant(store: &str, path: &Path, block_bytes: u64) -> Self {
        Self::of(store, path, block_bytes, "constant")
    }

    fn of(store: &str, path: &Path, block_bytes: u64, version: &str) -> Self {
        let mut hasher = blake3::Hasher::new();
        for part in [store, path.as_ref(), version] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        hasher.update(&block_bytes.to_le_bytes());
        let mut id = [0; 16];
        hasher.finalize_xof().fill(&mut id);
        Self(id)
    }

    /// The digest.
    pub fn bytes(&self) -> [u8; 16] {
        self.0
    }

    /// The file of a digest.
    pub fn from_bytes(digest: [u8; 16]) -> Self {
        Self(digest)
    }
}

impl fmt::Display for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// One block of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BlockId {
    /// The file.
    pub file: FileId,
    /// The block's number; the first is 0.
    pub number: u64,
}

impl BlockId {
    /// The name of the block's file in the cache.
    pub(super) fn file_name(&self) -> String {
        format!("{}-{:x}", self.file, self.number)
    }

    /// The block with this file name.
    pub(super) fn from_file_name(name: &str) -> Option<Self> {
        let (file, number) = name.split_once('-').filter(|(file, _)| file.len() == 32)?;
        let file = u128::from_str_radix(file, 16).ok()?;
        let id = Self { file: FileId(file.to_be_bytes()), number: u64::from_str_radix(number, 16).ok()? };
        (id.file_name() == name).then_some(id)
    }
}

/// How a file is cut: all blocks have `block_bytes`, except a shorter last one.
#[derive(Debug, Clone, Copy)]
pub struct Cut {
    pub file_bytes: u64,
    pub block_bytes: u64,
}

impl Cut {
    /// Numbers of the blocks that hold `range`, which is not empty.
    pub fn blocks(&self, range: &Range<u64>) -> Range<u64> {
        range.start / self.block_bytes..range.end.div_ceil(self.block_bytes)
    }

    /// The bytes of the file that some consecutive blocks hold.
    pub fn bytes_of(&self, blocks: &Range<u64>) -> Range<u64> {
        let at = |number: u64| number.saturating_mul(self.block_bytes).min(self.file_bytes);
        at(blocks.start)..at(blocks.end)
    }

    /// The part of a block that lies in `range`, as positions within the block.
    pub fn part(&self, number: u64, range: &Range<u64>) -> Range<u64> {
        let block = self.bytes_of(&(number..number + 1));
        let from = range.start.clamp(block.start, block.end);
        let to = range.end.clamp(from, block.end);
        from - block.start..to - block.start
    }
}

/// Runs of consecutive numbers in a sorted list, none longer than `longest`.
pub fn runs(numbers: &[u64], longest: u64) -> Vec<Range<u64>> {
    let mut runs: Vec<Range<u64>> = Vec::new();
    for &number in numbers {
        match runs.last_mut() {
            Some(run) if run.end == number && run.end - run.start < longest.max(1) => run.end = number + 1,
            _ => runs.push(number..number + 1),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_lie_in_blocks() {
        let cut = Cut { file_bytes: 2500, block_bytes: 1000 };
        for (range, blocks) in [(0..1, 0..1), (999..1001, 0..2), (1000..2000, 1..2), (2400..2500, 2..3)] {
            assert_eq!(cut.blocks(&range), blocks, "{range:?}");
        }
        assert_eq!(cut.bytes_of(&(1..3)), 1000..2500);
        assert_eq!(cut.part(2, &(1500..2300)), 0..300);
        assert_eq!(cut.part(1, &(1500..2300)), 500..1000);
    }

    #[test]
    fn consecutive_blocks_are_one_run() {
        assert_eq!(runs(&[1, 2, 3, 5, 6, 9], 2), [1..3, 3..4, 5..7, 9..10]);
        assert_eq!(runs(&[], 2), Vec::<Range<u64>>::new());
    }

    #[test]
    fn names_of_files_are_read_back() {
        let file = FileId::of_constant("s3://b", &Path::from("a/b"), 1 << 20);
        let block = BlockId { file, number: 300 };
        assert_eq!(BlockId::from_file_name(&block.file_name()), Some(block));
        for name in ["", "x-1", "00000000000000000000000000000000-zz", &format!("{file}-0012c")] {
            assert_eq!(BlockId::from_file_name(name), None, "{name}");
        }
    }
}
