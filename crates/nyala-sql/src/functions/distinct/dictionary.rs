//! Numbers for byte strings, for as long as one aggregation runs.

use datafusion::common::Result;
use datafusion::common::hash_utils::RandomState;
use hashbrown::HashTable;
use std::hash::BuildHasher;

use crate::error::{ErrorKind, QueryError};

/// Gives every different value a number. All groups of an aggregation share it: a value that is in a
/// thousand groups is kept once, and each group is a bitmap of numbers.
#[derive(Debug, Clone, Default)]
pub struct Dictionary {
    numbers: HashTable<Entry>,
    hasher: RandomState,
    /// All values, one after the other.
    bytes: Vec<u8>,
    /// Where the value of each number ends.
    ends: Vec<usize>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    hash: u64,
    number: u32,
}

impl Dictionary {
    /// The number of a value, a new one if it has none.
    pub fn number(&mut self, value: &[u8]) -> Result<u32> {
        let hash = self.hasher.hash_one(value);
        let (bytes, ends) = (&self.bytes, &self.ends);
        let same = |entry: &Entry| entry.hash == hash && value_of(bytes, ends, entry.number) == Some(value);
        if let Some(entry) = self.numbers.find(hash, same) {
            return Ok(entry.number);
        }
        let number = u32::try_from(self.ends.len()).map_err(|_| too_many())?;
        self.bytes.extend_from_slice(value);
        self.ends.push(self.bytes.len());
        self.numbers.insert_unique(hash, Entry { hash, number }, |entry| entry.hash);
        Ok(number)
    }

    /// The value of a number.
    pub fn value(&self, number: u32) -> Option<&[u8]> {
        value_of(&self.bytes, &self.ends, number)
    }

    /// How many values it has.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Bytes that it holds.
    pub fn heap_bytes(&self) -> usize {
        self.numbers.allocation_size() + self.bytes.capacity() + self.ends.capacity() * size_of::<usize>()
    }
}

fn value_of<'a>(bytes: &'a [u8], ends: &[usize], number: u32) -> Option<&'a [u8]> {
    let number = number as usize;
    let start = match number.checked_sub(1) {
        Some(before) => *ends.get(before)?,
        None => 0,
    };
    bytes.get(start..*ends.get(number)?)
}

fn too_many() -> QueryError {
    QueryError::new(ErrorKind::LimitExceeded, "more than 4294967296 distinct values in one aggregation")
        .hint("group more finely, or use `approx_distinct`")
}
