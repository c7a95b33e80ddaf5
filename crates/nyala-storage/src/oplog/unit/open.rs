//! A unit as its table changes it.

use std::sync::Arc;

use arrow_buffer::ScalarBuffer;

use super::{Base, Chunk, Data, DeadRows, Facts, Keys, LogRange, LsnSet, Lsns, Rows, UnitView, ZoneMap};
use crate::oplog::meta::SchemaVersion;

/// The hash of every row's key.
#[derive(Debug)]
pub enum Hashes {
    Growing(Vec<u64>),
    Read(ScalarBuffer<u64>),
}

impl Hashes {
    pub fn as_slice(&self) -> &[u64] {
        match self {
            Self::Growing(hashes) => hashes,
            Self::Read(hashes) => hashes,
        }
    }
}

/// Rows at fixed positions, with the set of rows that died since.
#[derive(Debug)]
pub struct Unit {
    pub id: u64,
    pub schema: Arc<SchemaVersion>,
    pub hashes: Hashes,
    pub dead: DeadRows,
    pub data: Data,
    /// Keys of rows read from a log without their values, each with the position of its first row.
    replayed: Vec<(u32, Keys)>,
    /// Log, first byte and, when no more rows come, end of the frames with its rows; none once sealed.
    pub log: Option<(u64, u64, Option<u64>)>,
    /// The published view of the unit, until the unit changes.
    view: Option<Arc<UnitView>>,
}

impl Unit {
    pub fn growing(id: u64, schema: Arc<SchemaVersion>, log: (u64, u64)) -> Self {
        Self {
            id,
            schema,
            hashes: Hashes::Growing(Vec::new()),
            dead: DeadRows::default(),
            data: Data::default(),
            replayed: Vec::new(),
            log: Some((log.0, log.1, None)),
            view: None,
        }
    }

    pub fn of_base(id: u64, base: Base, hashes: Hashes, dead: DeadRows) -> Self {
        let schema = base.schema.clone();
        let (data, replayed) = (Data::of_base(base), Vec::new());
        Self { id, schema, hashes, dead, data, replayed, log: None, view: None }
    }

    pub fn rows(&self) -> u32 {
        self.hashes.as_slice().len() as u32
    }

    pub fn live(&self) -> u32 {
        self.rows() - self.dead.count()
    }

    pub fn hash(&self, row: u32) -> u64 {
        self.hashes.as_slice().get(row as usize).copied().unwrap_or_default()
    }

    /// Appends rows with their hashes; gives the position of the first.
    pub fn append(&mut self, chunk: Chunk, hashes: &[u64]) -> u32 {
        let start = self.rows();
        if let Hashes::Growing(own) = &mut self.hashes {
            own.extend_from_slice(hashes);
        }
        self.data.push(start, chunk, &self.schema.key);
        self.view = None;
        start
    }

    /// Appends rows with values that stay in a log, as all values of the unit do; gives the position of the first.
    /// None if the rows cannot be appended to the present ones.
    pub fn append_logged(
        &mut self,
        table: u32,
        (keys, hashes): (&Keys, &[u64]),
        lsns: &Lsns,
        range: &LogRange,
    ) -> Option<u32> {
        let (start, rows) = (self.rows(), hashes.len() as u32);
        match &mut self.data.base {
            Some(base) => Arc::get_mut(base)?.extend(rows, lsns, range.to)?,
            None if self.data.chunks.is_empty() => {
                let (schema, lsns, facts) = (self.schema.clone(), lsns.clone(), Facts::new(lsns, &[]));
                let rows = Rows { table, rows, schema, lsns, facts, zones: ZoneMap::new() };
                self.data = Data::of_base(Base::logged(rows, range.clone()));
            }
            None => return None,
        }
        if let Hashes::Growing(own) = &mut self.hashes {
            own.extend_from_slice(hashes);
        }
        self.replayed.push((start, keys.clone()));
        self.view = None;
        Some(start)
    }

    /// The keys that include a row's key, and its position in them; none if they are not in memory.
    pub fn key(&self, row: u32) -> Option<(&Keys, usize)> {
        self.data.key(row).or_else(|| {
            let at = self.replayed.partition_point(|(start, _)| *start <= row).checked_sub(1)?;
            let (start, keys) = self.replayed.get(at)?;
            Some((keys, (row - start) as usize))
        })
    }

    /// Leaves texts of rows that are dead now out of memory. To be called before the first read of the unit.
    pub fn forget_dead(&self) {
        if let Some(base) = &self.data.base {
            base.forget(&self.dead);
        }
    }

    /// Forgets keys that are in memory twice.
    pub fn forget_replayed(&mut self) {
        if self.data.base.as_ref().is_some_and(|base| base.keys().is_some()) {
            self.replayed = Vec::new();
        }
    }

    /// Marks a row dead; false if it was dead.
    pub fn kill(&mut self, row: u32) -> bool {
        self.view = None;
        self.dead.insert(row)
    }

    /// Replaces the rows by the same rows in files.
    pub fn sealed(&mut self, base: Base) {
        self.data = Data::of_base(base);
        self.replayed = Vec::new();
        self.log = None;
        self.view = None;
    }

    /// Whether a live row of the unit was written at `wanted`. A unit in a log must be read to its end first.
    pub fn has_live(&self, wanted: &LsnSet) -> bool {
        self.data.written(wanted).any(|rows| rows.end - rows.start > self.dead.count_among(rows))
    }

    /// The unit as it is now, for readers.
    pub fn view(&mut self) -> Arc<UnitView> {
        let rows = self.rows();
        let make = || {
            Arc::new(UnitView {
                id: self.id,
                schema: self.schema.clone(),
                rows,
                dead: self.dead.clone(),
                data: self.data.clone(),
            })
        };
        self.view.get_or_insert_with(make).clone()
    }
}
