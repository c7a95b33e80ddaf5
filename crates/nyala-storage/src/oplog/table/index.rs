//! The key index: from the hash of a key to the location of its row.
//!
//! Entries are eight bytes each and hold no key and no hash: both are read from the unit that a location points to.
//! Hash tables are given half of a hash, so that an index is built from eight bytes a row, too.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

/// Where a row is: the unit's slot in its table and the row's position in the unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Location {
    pub(crate) slot: u32,
    pub(crate) row: u32,
}

/// Shards are small, so that growing one takes little time, and apart, so that they can be filled in
/// parallel.
pub const SHARDS: usize = 256;

/// The shard of a hash. Its bits are not among those of a tag.
#[inline]
pub fn shard_of(hash: u64) -> usize {
    (hash >> 40) as usize % SHARDS
}

/// The part of a hash that hash tables get. These are the bits that hashbrown uses: the highest 7 bits, and of the others the
/// lowest 25, enough for eight billion rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tag(u32);

const LOW_BITS: u32 = 25;

/// Parts of a shard's table. Filling one part after the other touches little memory at a time.
pub const PARTS: usize = 4;
/// Low bits of a tag within a part. They choose the place where a search begins: a part has 16,384 places side by side, 150 kB.
const PART_BITS: u32 = 14;

impl Tag {
    #[inline]
    pub fn of(hash: u64) -> Self {
        Self((hash >> 32) as u32 >> LOW_BITS << LOW_BITS | hash as u32 & ((1 << LOW_BITS) - 1))
    }

    /// The tag as a hash of 64 bits, for a hash table.
    #[inline]
    fn spread(self) -> u64 {
        u64::from(self.0) << 32 | u64::from(self.0 & ((1 << LOW_BITS) - 1))
    }

    /// The part of the shard's table that the tag lies in, if the table has more places than one part.
    #[inline]
    pub fn part(self) -> usize {
        (self.0 >> PART_BITS) as usize % PARTS
    }

    /// An entry for sorted lists: the tag, then a row's position.
    #[inline]
    pub fn with_row(self, row: u32) -> u64 {
        u64::from(self.0) << 32 | u64::from(row)
    }

    /// Tag and row of an entry that [`Self::with_row`] made.
    #[inline]
    pub fn and_row(entry: u64) -> (Self, u32) {
        (Self((entry >> 32) as u32), entry as u32)
    }
}

/// A part of the index.
#[derive(Debug)]
pub struct Shard(HashTable<Location>);

impl Shard {
    pub fn with_capacity(rows: usize) -> Self {
        Self(HashTable::with_capacity(rows))
    }

    /// Adds a row with a key that is not in the shard; `hash_of` is called if the shard must grow.
    #[inline]
    pub fn add(&mut self, tag: Tag, at: Location, hash_of: impl Fn(&Location) -> u64) {
        self.0.insert_unique(tag.spread(), at, |at| Tag::of(hash_of(at)).spread());
    }
}

#[derive(Debug)]
pub struct Index {
    shards: Vec<Shard>,
}

impl Default for Index {
    fn default() -> Self {
        Self { shards: (0..SHARDS).map(|_| Shard::with_capacity(0)).collect() }
    }
}

impl Index {
    /// Bytes in memory.
    pub fn bytes(&self) -> u64 {
        self.shards.iter().map(|shard| shard.0.allocation_size() as u64).sum()
    }

    /// An index of shards that were filled before.
    pub fn of_shards(shards: Vec<Shard>) -> Self {
        Self { shards }
    }

    pub fn find(&self, hash: u64, same: impl FnMut(&Location) -> bool) -> Option<Location> {
        self.shards.get(shard_of(hash))?.0.find(Tag::of(hash).spread(), same).copied()
    }

    /// Points a key to `to`; gives its previous location.
    pub fn set(
        &mut self,
        hash: u64,
        to: Location,
        same: impl FnMut(&Location) -> bool,
        hash_of: impl Fn(&Location) -> u64,
    ) -> Option<Location> {
        let shard = self.shards.get_mut(shard_of(hash))?;
        match shard.0.entry(Tag::of(hash).spread(), same, |at| Tag::of(hash_of(at)).spread()) {
            Entry::Occupied(mut found) => Some(std::mem::replace(found.get_mut(), to)),
            Entry::Vacant(free) => {
                free.insert(to);
                None
            }
        }
    }

    /// Points the entry for `from` to `to`, if there is one.
    pub fn redirect(&mut self, hash: u64, from: Location, to: Location) {
        let shard = self.shards.get_mut(shard_of(hash));
        if let Some(found) =
            shard.and_then(|shard| shard.0.find_mut(Tag::of(hash).spread(), |at| *at == from))
        {
            *found = to;
        }
    }

    pub fn remove(&mut self, hash: u64, same: impl FnMut(&Location) -> bool) -> Option<Location> {
        let shard = self.shards.get_mut(shard_of(hash))?;
        let found = shard.0.find_entry(Tag::of(hash).spread(), same).ok()?;
        Some(found.remove().0)
    }
}
