//! The index of a table, built from the stored hashes of its units.

use std::ops::Range;

use hashbrown::HashTable;

use super::workers::in_parallel;
use crate::oplog::table::{Index, Location, SHARDS, shard_of};
use crate::oplog::unit::Unit;

/// Rows that are sorted by shard at a time, 12 bytes each.
const SORTED_ROWS: usize = 1 << 25;
/// Fewer rows are not worth a thread.
const THREAD_ROWS: usize = 1 << 18;

/// Live rows of a unit by shard, each with its hash.
struct Sorted {
    slot: u32,
    hashes: Vec<u64>,
    rows: Vec<u32>,
    /// Where those of each shard begin, and where the last ones end.
    starts: Vec<usize>,
}

/// An index of all live rows, with room for some of the rows that are expected. Each unit is sorted once, then each
/// shard is filled while it is in the processor's cache.
pub(super) fn build_index(units: &[Option<Unit>], threads: usize, expected: usize) -> Index {
    build(units, threads, expected, SORTED_ROWS)
}

fn build(units: &[Option<Unit>], threads: usize, expected: usize, sorted_rows: usize) -> Index {
    let live: usize = units.iter().flatten().map(|unit| unit.live() as usize).sum();
    let threads = threads.min(1 + live / THREAD_ROWS);
    let more = expected.min(live / 4) / SHARDS;
    let units_by_slot: Vec<(u32, &Unit)> =
        (0..).zip(units).filter_map(|(slot, unit)| Some((slot, unit.as_ref()?))).collect();
    let at_once = SHARDS.div_ceil(live.div_ceil(sorted_rows).max(1));
    let mut shards = Vec::with_capacity(SHARDS);
    for first in (0..SHARDS).step_by(at_once) {
        let wanted = first..SHARDS.min(first + at_once);
        let sorted = in_parallel(threads, &units_by_slot, |(slot, unit)| sort_rows(*slot, unit, &wanted));
        let places: Vec<usize> = (0..wanted.len()).collect();
        shards.extend(in_parallel(threads, &places, |place| fill_shard(units, &sorted, *place, more)));
    }
    Index::of_shards(shards)
}

/// The live rows of a unit that belong to the shards `wanted`.
fn sort_rows(slot: u32, unit: &Unit, wanted: &Range<usize>) -> Sorted {
    let all_live = unit.dead.count() == 0;
    let rows = || {
        let rows = unit.hashes.as_slice().iter().zip(0..);
        let live = rows.filter(|(_, row)| all_live || !unit.dead.contains(*row));
        live.filter_map(|(hash, row)| Some((shard_of(*hash).checked_sub(wanted.start)?, *hash, row)))
    };
    let mut starts = vec![0; wanted.len() + 1];
    for (place, ..) in rows() {
        if let Some(count) = starts.get_mut(place + 1) {
            *count += 1;
        }
    }
    let mut total = 0;
    for start in &mut starts {
        total += *start;
        *start = total;
    }
    let mut sorted = Sorted { slot, hashes: vec![0; total], rows: vec![0; total], starts: starts.clone() };
    // The last one is where the last shard ends, and of no row.
    starts.truncate(wanted.len());
    for (place, hash, row) in rows() {
        let Some(next) = starts.get_mut(place) else { continue };
        if let (Some(known), Some(at)) = (sorted.hashes.get_mut(*next), sorted.rows.get_mut(*next)) {
            (*known, *at) = (hash, row);
        }
        *next += 1;
    }
    sorted
}

fn fill_shard(units: &[Option<Unit>], sorted: &[Sorted], place: usize, more: usize) -> HashTable<Location> {
    let rows_of = |sorted: &Sorted| {
        let (from, to) = (sorted.starts.get(place).copied(), sorted.starts.get(place + 1).copied());
        from.unwrap_or_default()..to.unwrap_or_default()
    };
    let rows: usize = sorted.iter().map(|sorted| rows_of(sorted).len()).sum();
    let mut shard = HashTable::with_capacity(rows + more);
    for sorted in sorted {
        let hashes = sorted.hashes.get(rows_of(sorted)).unwrap_or_default();
        let rows = sorted.rows.get(rows_of(sorted)).unwrap_or_default();
        for (hash, row) in hashes.iter().zip(rows) {
            let at = Location { slot: sorted.slot, row: *row };
            shard.insert_unique(*hash, at, |at| hash_at(units, at));
        }
    }
    shard
}

fn hash_at(units: &[Option<Unit>], at: &Location) -> u64 {
    units.get(at.slot as usize).and_then(Option::as_ref).map_or(0, |unit| unit.hash(at.row))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int64Array};
    use arrow_schema::{DataType, Field, Schema};

    use super::*;
    use crate::oplog::meta::{TableMeta, TableSpec};
    use crate::oplog::unit::{Chunk, Keys, Lsns};
    use crate::oplog::vfs::sim::Rng;

    #[test]
    fn every_live_row_is_found_however_many_are_sorted_at_a_time() {
        let schema = Arc::new(Schema::new(vec![Field::new("k", DataType::Int64, false)]));
        let meta = TableMeta::new(1, &TableSpec::new("t", schema, &["k"])).unwrap();
        let mut rng = Rng(1);
        let mut units: Vec<Option<Unit>> = vec![None];
        for id in 1..5 {
            let keys: ArrayRef = Arc::new((0..700).map(|_| Some(rng.next() as i64)).collect::<Int64Array>());
            let hashes: Vec<u64> = (0..700).map(|_| rng.next()).collect();
            let mut unit = Unit::growing(id, meta.current().unwrap().clone(), (1, 64));
            unit.append(Chunk::new(vec![keys.clone()], Keys::of(&[keys]).unwrap(), Lsns::one(1)), &hashes);
            for row in 0..700 {
                if rng.one_in(id) {
                    unit.kill(row);
                }
            }
            units.push(Some(unit));
        }
        for (threads, sorted_rows) in [(1, 1 << 20), (3, 1000), (2, 10), (1, 1)] {
            let index = build(&units, threads, 100, sorted_rows);
            for (slot, unit) in (0..).zip(&units) {
                let Some(unit) = unit else { continue };
                for row in 0..unit.rows() {
                    let at = Location { slot, row };
                    let found = index.find(unit.hash(row), |known| *known == at);
                    assert_eq!(found.is_some(), !unit.dead.contains(row), "{at:?}, {sorted_rows}");
                }
            }
        }
    }
}
