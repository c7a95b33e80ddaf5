//! The index of a table, built from the stored hashes of its units.

use std::ops::Range;

use super::workers::in_parallel;
use crate::oplog::space::Space;
use crate::oplog::table::{Index, Location, PARTS, SHARDS, Shard, Tag, shard_of};
use crate::oplog::unit::Unit;

/// Rows that are sorted by shard at a time, 8 bytes each.
const SORTED_ROWS: usize = 1 << 25;
/// A thread is worth its start for at least so many rows.
const THREAD_ROWS: usize = 1 << 18;

/// Live rows of a unit by shard and part of it, each with the tag of its hash.
pub struct Sorted {
    slot: u32,
    /// Entries of eight bytes: tag and row.
    entries: Space,
    /// The end of each part among the entries.
    ends: Vec<usize>,
}

impl Sorted {
    /// The rows of a part, counted from the first part sorted.
    fn of_part(&self, place: usize) -> impl ExactSizeIterator<Item = u64> {
        let end = |place: usize| self.ends.get(place).copied().unwrap_or_default();
        let (entries, _) = self.entries.as_slice().as_chunks::<{ size_of::<u64>() }>();
        let part = entries.get(place.checked_sub(1).map_or(0, end)..end(place)).unwrap_or_default();
        part.iter().map(|entry| u64::from_ne_bytes(*entry))
    }
}

/// Sorts a unit of a store with so many live rows as soon as its hashes are there, while other units are still being
/// read. None if the store has more rows than are sorted at a time.
pub fn sort_ahead(unit: &Unit, live: u64) -> Option<Sorted> {
    (live <= SORTED_ROWS as u64).then(|| sort_rows(0, unit, &(0..SHARDS)))
}

/// An index of all live rows, with room for some of the expected rows. Each unit is sorted once, then each shard is
/// filled while it is in the processor's cache. `ahead` has the already sorted units, by slot.
pub fn build_index(
    units: &[Option<Unit>],
    ahead: Vec<Option<Sorted>>,
    threads: usize,
    expected: usize,
) -> Index {
    let ahead: Option<Vec<Sorted>> = ahead.into_iter().collect();
    match ahead {
        Some(ahead) if ahead.len() == units.len() => {
            let sorted = (0..).zip(ahead).map(|(slot, sorted)| Sorted { slot, ..sorted });
            let sorted: Vec<Sorted> = sorted.collect();
            Index::of_shards(fill(units, &sorted, SHARDS, threads_for(units, threads), expected))
        }
        _ => build(units, threads, expected, SORTED_ROWS),
    }
}

fn build(units: &[Option<Unit>], threads: usize, expected: usize, sorted_rows: usize) -> Index {
    let (live, threads) = (live_rows(units), threads_for(units, threads));
    let units_by_slot: Vec<(u32, &Unit)> =
        (0..).zip(units).filter_map(|(slot, unit)| Some((slot, unit.as_ref()?))).collect();
    let at_once = SHARDS.div_ceil(live.div_ceil(sorted_rows).max(1));
    let mut shards = Vec::with_capacity(SHARDS);
    for first in (0..SHARDS).step_by(at_once) {
        let wanted = first..SHARDS.min(first + at_once);
        let sorted = in_parallel(threads, &units_by_slot, |(slot, unit)| sort_rows(*slot, unit, &wanted));
        shards.extend(fill(units, &sorted, wanted.len(), threads, expected));
    }
    Index::of_shards(shards)
}

fn live_rows(units: &[Option<Unit>]) -> usize {
    units.iter().flatten().map(|unit| unit.live() as usize).sum()
}

fn threads_for(units: &[Option<Unit>], threads: usize) -> usize {
    threads.min(1 + live_rows(units) / THREAD_ROWS)
}

/// Fills the sorted shards.
fn fill(
    units: &[Option<Unit>],
    sorted: &[Sorted],
    shards: usize,
    threads: usize,
    expected: usize,
) -> Vec<Shard> {
    let more = expected.min(live_rows(units) / 4) / SHARDS;
    let places: Vec<usize> = (0..shards).collect();
    in_parallel(threads, &places, |place| fill_shard(units, sorted, *place, more))
}

/// The live rows of a unit that belong to the shards `wanted`.
fn sort_rows(slot: u32, unit: &Unit, wanted: &Range<usize>) -> Sorted {
    let mut next = vec![0_usize; wanted.len() * PARTS];
    each_row(unit, wanted, |place, _, _| {
        if let Some(count) = next.get_mut(place) {
            *count += 1;
        }
    });
    let mut total = 0;
    for next in &mut next {
        (*next, total) = (total, total + *next);
    }
    let mut space = Space::brief(total * size_of::<u64>());
    let (entries, _) = space.as_mut_slice().as_chunks_mut::<{ size_of::<u64>() }>();
    each_row(unit, wanted, |place, tag, row| {
        let Some(next) = next.get_mut(place) else { return };
        if let Some(entry) = entries.get_mut(*next) {
            *entry = tag.with_row(row).to_ne_bytes();
        }
        *next += 1;
    });
    // Each part is full now, so that its next free place is its end.
    Sorted { slot, entries: space, ends: next }
}

/// Calls `row` with part, tag and position of each row. Parts are counted from the first of `wanted`; rows of other shards get
/// numbers beyond the wanted parts.
#[inline]
fn each_row(unit: &Unit, wanted: &Range<usize>, mut row: impl FnMut(usize, Tag, u32)) {
    let rows = unit.hashes.as_slice().iter().zip(0..);
    let mut row = |hash: u64, at: u32| {
        let tag = Tag::of(hash);
        row(shard_of(hash).wrapping_sub(wanted.start).wrapping_mul(PARTS).wrapping_add(tag.part()), tag, at);
    };
    if unit.dead.count() == 0 {
        rows.for_each(|(hash, at)| row(*hash, at));
    } else {
        rows.filter(|(_, at)| !unit.dead.contains(*at)).for_each(|(hash, at)| row(*hash, at));
    }
}

fn fill_shard(units: &[Option<Unit>], sorted: &[Sorted], shard: usize, more: usize) -> Shard {
    let parts = shard * PARTS..(shard + 1) * PARTS;
    let rows: usize =
        parts.clone().flat_map(|part| sorted.iter().map(move |unit| unit.of_part(part).len())).sum();
    let mut shard = Shard::with_capacity(rows + more);
    for part in parts {
        for unit in sorted {
            for entry in unit.of_part(part) {
                let (tag, row) = Tag::and_row(entry);
                shard.add(tag, Location { slot: unit.slot, row }, |at| hash_at(units, at));
            }
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
        let check = |units: &[Option<Unit>], index: Index, how: usize| {
            for (slot, unit) in (0..).zip(units) {
                let Some(unit) = unit else { continue };
                for row in 0..unit.rows() {
                    let at = Location { slot, row };
                    let found = index.find(unit.hash(row), |known| *known == at);
                    assert_eq!(found.is_some(), !unit.dead.contains(row), "{at:?}, {how}");
                }
            }
        };
        for (threads, sorted_rows) in [(1, 1 << 20), (3, 1000), (2, 10), (1, 1)] {
            check(&units, build(&units, threads, 100, sorted_rows), sorted_rows);
        }
        units.remove(0);
        let ahead = |live| units.iter().flatten().map(|unit| sort_ahead(unit, live)).collect::<Vec<_>>();
        assert!(ahead(1 << 32).iter().all(Option::is_none), "they are too many to be sorted at a time");
        assert!(ahead(2800).iter().all(Option::is_some));
        check(&units, build_index(&units, ahead(2800), 2, 100), 0);
        check(&units, build_index(&units, ahead(1 << 32), 2, 100), 1);
    }
}
