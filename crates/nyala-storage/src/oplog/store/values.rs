//! Values into memory, in the background.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::budget::MemoryUse;
use super::inner::Inner;
use super::progress::Phase;
use super::workers::hand_out;
use crate::oplog::error::{Damage, LostRows, OplogError};
use crate::oplog::table::SharedTable;
use crate::oplog::unit::{Base, Resident, Unit};

/// A table, and its rows in files.
type Place = (Arc<SharedTable>, Arc<Base>);

impl Inner {
    /// Reads columns that are not in memory: first all keys, so that writes need not wait for them, then, if `values`,
    /// all others. A table with damaged files reports the damage from then on.
    pub fn load_all(&self, values: bool) {
        let bases: Vec<Place> = self.all_tables().iter().flat_map(bases_of).collect();
        hand_out(self.options.recovery_threads.min(bases.len()), bases.iter(), |(table, base)| {
            let key = base.schema.key.iter().try_for_each(|position| base.preload(*position));
            note_damage(table, base, key.and_then(|()| base.load_keys().map(drop)));
        });
        for table in self.all_tables() {
            table.change(|state| {
                let loaded = |unit: &Unit| unit.data.base.as_ref().is_none_or(|base| base.keys().is_some());
                let all = state.units().all(loaded);
                state.keys_loaded = all;
                state.units.iter_mut().flatten().for_each(Unit::forget_replayed);
            });
        }
        if values && !bases.is_empty() {
            self.load_values(&bases, self.options.value_threads());
        }
        self.progress.enter(Phase::Ready);
    }

    fn load_values(&self, bases: &[Place], threads: usize) {
        let reading = AtomicU64::new(0);
        let columns = bases.iter().flat_map(|(table, base)| {
            base.reads().into_iter().map(move |(position, bytes)| (table, base, position, bytes))
        });
        let columns = columns.take_while(|_| !self.queue.is_closed());
        let columns = columns.filter(|(.., bytes)| {
            let room = self.has_room(reading.load(Relaxed) + bytes);
            reading.fetch_add(if room { *bytes } else { 0 }, Relaxed);
            room
        });
        hand_out(threads, columns, |(table, base, position, bytes)| {
            note_damage(table, base, base.preload(position));
            reading.fetch_sub(bytes, Relaxed);
            self.progress.bytes_done.fetch_add(bytes, Relaxed);
        });
    }
}

impl Inner {
    /// Records damage found by readers in their tables.
    pub fn note_found_damage(&self) {
        for (table, base) in self.all_tables().iter().flat_map(bases_of) {
            if let Some(damage) = base.damage() {
                note_damage(&table, &base, Err(OplogError::Damaged(damage.clone())));
            }
        }
    }

    fn resident(&self) -> Vec<Resident> {
        let bases = self.all_tables().into_iter().flat_map(|table| bases_of(&table));
        bases.flat_map(|(_, base)| base.resident()).collect()
    }

    fn has_room(&self, bytes: u64) -> bool {
        let limit = self.value_limit();
        let resident = || self.resident().iter().map(|column| column.bytes).sum::<u64>();
        limit == u64::MAX || resident() + bytes <= limit
    }

    /// Bytes of values that may be in memory: the smaller of the store's limit and its share of the budget.
    fn value_limit(&self) -> u64 {
        let own = if self.options.value_bytes == 0 { u64::MAX } else { self.options.value_bytes };
        match &self.environment.budget {
            Some(budget) => own.min(budget.share(self.store, self.memory_use())),
            None => own,
        }
    }

    fn memory_use(&self) -> MemoryUse {
        let tables = self.all_tables();
        let all: u64 = tables.iter().map(|table| table.memory_bytes()).sum();
        let resident: u64 = self.resident().iter().map(|column| column.bytes).sum();
        let values = tables.iter().flat_map(bases_of).map(|(_, base)| base.value_bytes()).sum();
        MemoryUse { fixed: all.saturating_sub(resident), values }
    }

    /// Drops values from memory until they are within the limit.
    pub fn keep_budget(&self) {
        let limit = self.value_limit();
        if limit == u64::MAX {
            return;
        }
        let mut columns = self.resident();
        columns.sort_by_key(|column| column.read);
        let mut bytes: u64 = columns.iter().map(|column| column.bytes).sum();
        for column in columns {
            if bytes <= limit {
                return;
            }
            column.base.evict(column.position);
            bytes -= column.bytes;
        }
    }
}

fn bases_of(table: &Arc<SharedTable>) -> Vec<Place> {
    let version = table.version();
    let bases = version.units().iter().filter_map(|unit| unit.data.base.clone());
    bases.map(|base| (table.clone(), base)).collect()
}

/// Records damage from reading a base in its table, and logs other errors.
pub fn note_damage(table: &Arc<SharedTable>, base: &Base, read: Result<(), OplogError>) {
    match read {
        Err(OplogError::Damaged(damage)) => {
            if table.version().damage().iter().any(|known| known.is_at(&damage)) {
                return;
            }
            let lost = LostRows::new(&table.meta(), base.rows(), &base.facts);
            let damage = Damage { rows: Some(Box::new(lost)), ..damage };
            tracing::error!(table = %table.meta().name, %damage, "a table's file is damaged");
            table.change(|state| state.note(damage));
        }
        Err(error) => {
            tracing::warn!(%error, "values could not be read; they will be when they are asked for");
        }
        Ok(()) => {}
    }
}
