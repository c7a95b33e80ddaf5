//! The key index: from hash to where the row is.
//!
//! Entries hold no key and no hash, eight bytes each. Both are asked of the unit that a location points to.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

/// Where a row is: the unit's slot in its table and the row's position in the unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Location {
    pub(crate) slot: u32,
    pub(crate) row: u32,
}

/// Shards are small, so that growing one takes little time, and apart, so that they can be filled in
/// parallel.
pub(crate) const SHARDS: usize = 256;

/// The shard of a hash. Its bits are not among those that the tables use: the lowest and the highest 7.
#[inline]
pub(crate) fn shard_of(hash: u64) -> usize {
    (hash >> 40) as usize % SHARDS
}

#[derive(Debug)]
pub(crate) struct Index {
    shards: Vec<HashTable<Location>>,
}

impl Default for Index {
    fn default() -> Self {
        Self { shards: (0..SHARDS).map(|_| HashTable::new()).collect() }
    }
}

impl Index {
    /// Bytes in memory.
    pub(crate) fn bytes(&self) -> u64 {
        self.shards.iter().map(|shard| shard.allocation_size() as u64).sum()
    }

    /// Of shards that were filled elsewhere.
    pub(crate) fn of_shards(shards: Vec<HashTable<Location>>) -> Self {
        Self { shards }
    }

    pub(crate) fn find(&self, hash: u64, same: impl FnMut(&Location) -> bool) -> Option<Location> {
        self.shards.get(shard_of(hash))?.find(hash, same).copied()
    }

    /// Points a key to `to`; gives where it pointed.
    pub(crate) fn set(
        &mut self,
        hash: u64,
        to: Location,
        same: impl FnMut(&Location) -> bool,
        hash_of: impl Fn(&Location) -> u64,
    ) -> Option<Location> {
        match self.shards.get_mut(shard_of(hash))?.entry(hash, same, hash_of) {
            Entry::Occupied(mut found) => Some(std::mem::replace(found.get_mut(), to)),
            Entry::Vacant(free) => {
                free.insert(to);
                None
            }
        }
    }

    /// Points the entry for `from` to `to`, if there is one.
    pub(crate) fn redirect(&mut self, hash: u64, from: Location, to: Location) {
        let shard = self.shards.get_mut(shard_of(hash));
        if let Some(found) = shard.and_then(|shard| shard.find_mut(hash, |at| *at == from)) {
            *found = to;
        }
    }

    pub(crate) fn remove(&mut self, hash: u64, same: impl FnMut(&Location) -> bool) -> Option<Location> {
        let found = self.shards.get_mut(shard_of(hash))?.find_entry(hash, same).ok()?;
        Some(found.remove().0)
    }
}
