//! Keys that are not in memory, compared without reading all of them.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, UInt32Array};
use arrow_select::take::take;

use super::{Location, TableState};
use crate::oplog::error::{OplogError, Result};
use crate::oplog::unit::{Base, Keys};

/// A row with the hash of one of the requested keys, so that it may have that key.
#[derive(Debug)]
pub struct Candidate {
    base: Arc<Base>,
    at: Location,
    /// Index of the key among the requested ones.
    asked: usize,
}

/// Comparisons of requested keys with keys that had to be read.
#[derive(Debug, Default)]
pub struct ColdKeys {
    /// Whether the keys are the same, by slot, row, and index of the requested key.
    same: HashMap<(u32, u32, usize), bool>,
}

impl ColdKeys {
    /// Whether a row has a requested key; true for rows whose keys did not have to be read.
    pub fn is_same(&self, at: Location, asked: usize) -> bool {
        self.same.get(&(at.slot, at.row, asked)).copied().unwrap_or(true)
    }

    /// Rows with keys that must be read for the comparison.
    pub fn unknown(&self, state: &TableState, hashes: &[u64]) -> Vec<Candidate> {
        let mut unknown = Vec::new();
        if state.keys_loaded {
            return unknown;
        }
        for (asked, hash) in hashes.iter().enumerate() {
            // The closure looks at every entry with the hash and never accepts one.
            state.index.find(*hash, |at| {
                let unit = state.unit(*at).filter(|unit| unit.hash(at.row) == *hash);
                let base = unit.filter(|unit| unit.key(at.row).is_none());
                if let Some(base) = base.and_then(|unit| unit.data.base.as_ref())
                    && !self.same.contains_key(&(at.slot, at.row, asked))
                {
                    unknown.push(Candidate { base: base.clone(), at: *at, asked });
                }
                false
            });
        }
        unknown
    }

    /// Reads the keys of these rows and compares them; gives whether all are the same.
    pub fn compare(&mut self, mut candidates: Vec<Candidate>, keys: &Keys) -> Result<bool> {
        let mut all = true;
        candidates.sort_by_key(|candidate| (candidate.at.slot, candidate.at.row));
        for group in candidates.chunk_by(|one, next| one.at.slot == next.at.slot) {
            let Some(first) = group.first() else { continue };
            let rows: Vec<u32> = group.iter().map(|candidate| candidate.at.row).collect();
            let stored = read_keys(&first.base, &rows)?;
            for (row, candidate) in group.iter().enumerate() {
                let same = stored.same(row, keys, candidate.asked);
                all &= same;
                self.same.insert((candidate.at.slot, candidate.at.row, candidate.asked), same);
            }
        }
        Ok(all)
    }
}

/// The keys of some rows.
fn read_keys(base: &Base, rows: &[u32]) -> Result<Keys> {
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(base.schema.key.len());
    for position in &base.schema.key {
        let gathered = base.gather(*position, rows)?;
        let at: UInt32Array = gathered.at.iter().map(|at| *at as u32).collect::<Vec<_>>().into();
        let column = take(&gathered.array, &at, None);
        columns.push(column.map_err(|error| OplogError::invalid(error.to_string()))?);
    }
    Keys::of(&columns).ok_or_else(|| OplogError::invalid("the key columns do not fit"))
}
