//! The state that a table's writer changes. The table's gate guards it and is never held across a disk access.

use std::sync::Arc;

use super::{Index, Location, Version};
use crate::oplog::error::{Damage, OplogError, Result};
use crate::oplog::labels::Labels;
use crate::oplog::meta::TableMeta;
use crate::oplog::unit::{Base, Keys, Unit, UnitView};

/// A table's units and index.
#[derive(Debug)]
pub struct TableState {
    pub meta: Arc<TableMeta>,
    /// Units by slot; locations in the index name slots. A slot is not used again.
    pub units: Vec<Option<Unit>>,
    /// Slot of the unit that grows.
    pub open: Option<u32>,
    pub index: Index,
    /// Damaged places. A table with damage takes no writes and gives no scans.
    pub damage: Vec<Damage>,
    /// Whether damage also hides which rows are dead.
    pub incomplete: bool,
    /// LSN of the last change.
    pub lsn: u64,
    /// Rows that were last written at or before this LSN are known to be dead.
    pub expired: u64,
    /// Whether the keys of all units are in memory.
    pub keys_loaded: bool,
    /// Labels of finished loads. Deleting rows does not remove them.
    pub labels: Labels,
}

impl TableState {
    pub fn new(meta: Arc<TableMeta>, lsn: u64) -> Self {
        let index = Index::default();
        Self {
            meta,
            units: Vec::new(),
            open: None,
            index,
            damage: Vec::new(),
            incomplete: false,
            lsn,
            expired: 0,
            keys_loaded: true,
            labels: Labels::default(),
        }
    }

    pub fn units(&self) -> impl Iterator<Item = &Unit> {
        self.units.iter().flatten()
    }

    pub fn unit(&self, at: Location) -> Option<&Unit> {
        self.units.get(at.slot as usize)?.as_ref()
    }

    /// Rows of the unit that grows.
    pub fn growing_rows(&self) -> u64 {
        let open = self.open.and_then(|slot| self.unit(Location { slot, row: 0 }));
        open.map_or(0, |unit| unit.rows().into())
    }

    /// Adds a unit; gives its slot.
    pub fn add(&mut self, unit: Unit) -> u32 {
        self.units.push(Some(unit));
        self.units.len() as u32 - 1
    }

    /// Notes damage, once for each place.
    pub fn note(&mut self, damage: Damage) {
        if !self.damage.iter().any(|known| known.is_at(&damage)) {
            self.damage.push(damage);
        }
    }

    pub fn check_whole(&self) -> Result<()> {
        match self.damage.first() {
            Some(damage) => Err(OplogError::Damaged(damage.clone())),
            None => Ok(()),
        }
    }

    /// Whether the row at `at` has this hash and this key. A key that is not in memory counts as the same, since all
    /// 64 bits of the hash are; callers read it first, or know from the log that it was.
    pub fn same(&self, at: Location, hash: u64, keys: &Keys, row: usize) -> bool {
        same(&self.units, at, hash, keys, row)
    }

    /// The live row with this key.
    pub fn find(&self, hash: u64, keys: &Keys, row: usize) -> Option<Location> {
        self.index.find(hash, |at| self.same(*at, hash, keys, row))
    }

    /// LSN of a row.
    pub fn version_at(&self, at: Location) -> u64 {
        self.unit(at).map_or(0, |unit| unit.data.lsn(at.row))
    }

    /// Units with rows of these hashes, and without keys in memory.
    pub fn keys_needed<'a>(&self, hashes: impl Iterator<Item = &'a u64>) -> Vec<Arc<Base>> {
        let mut needed: Vec<Arc<Base>> = Vec::new();
        if self.keys_loaded {
            return needed;
        }
        for hash in hashes {
            // The closure looks at every entry with the hash, so that all units with it are found.
            self.index.find(*hash, |at| {
                let unit = self.unit(*at).filter(|unit| unit.hash(at.row) == *hash);
                let base = unit.filter(|unit| unit.key(at.row).is_none());
                if let Some(base) = base.and_then(|unit| unit.data.base.as_ref())
                    && !needed.iter().any(|known| Arc::ptr_eq(known, base))
                {
                    needed.push(base.clone());
                }
                false
            });
        }
        needed
    }

    /// The table as it is now, for readers.
    pub fn version(&mut self) -> Version {
        let units: Vec<Arc<UnitView>> = self.units.iter_mut().flatten().map(Unit::view).collect();
        Version::new(self.meta.clone(), self.lsn, units, self.damage.clone())
    }

    /// Lets no more rows into the growing unit: its frames end at `log_end`.
    pub fn freeze(&mut self, log_end: u64) {
        let open = self.open.take().and_then(|slot| self.units.get_mut(slot as usize)?.as_mut());
        if let Some((_, _, end)) = open.and_then(|unit| unit.log.as_mut()) {
            *end = Some(log_end);
        }
    }
}

pub fn same(units: &[Option<Unit>], at: Location, hash: u64, keys: &Keys, row: usize) -> bool {
    let unit = units.get(at.slot as usize).and_then(Option::as_ref);
    unit.filter(|unit| unit.hash(at.row) == hash)
        .is_some_and(|unit| unit.key(at.row).is_none_or(|(own, own_row)| own.same(own_row, keys, row)))
}

pub fn hash_of(units: &[Option<Unit>], at: &Location) -> u64 {
    let unit = units.get(at.slot as usize).and_then(Option::as_ref);
    unit.map_or(0, |unit| unit.hash(at.row))
}
