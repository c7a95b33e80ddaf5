//! Decides which segments are made in one pass over their rows.

use nyala_model::{KeySet, SegmentRange};

use super::wanted::Work;
use crate::cube::rewrite::ReadyCube;

/// Rows that one pass reads at most, unless the segments lie in the same files: no segment of a pass can be
/// used before it has ended.
pub const MAX_ROWS: u64 = 100_000_000;
/// Rows that are worth a pass of their own on another node.
const MIN_UNIT_ROWS: u64 = 1 << 18;
/// Passes into which the rows of a job are divided for each node: the node that ends last is then not far behind the others.
const UNITS_OF_NODE: u64 = 3;
/// Segments that one pass makes at most.
const MAX_SEGMENTS: usize = 1_000;

/// Largest number of rows of one pass, if so many nodes share the work.
pub fn unit_rows(cube: &ReadyCube, works: &[Work], nodes: usize) -> u64 {
    let rows = rows_of(cube, &works.iter().collect::<Vec<_>>());
    (rows / (UNITS_OF_NODE * nodes.max(1) as u64)).clamp(MIN_UNIT_ROWS, MAX_ROWS)
}

/// Groups of work for one pass each, of at most `max_rows` rows, in the order of execution.
pub fn groups(cube: &ReadyCube, works: Vec<Work>, max_rows: u64) -> Vec<Vec<Work>> {
    let mut groups: Vec<Vec<Work>> = Vec::new();
    for work in works {
        match groups.last_mut() {
            Some(group) if group.len() < MAX_SEGMENTS && fits(cube, group, &work, max_rows) => {
                group.push(work)
            }
            _ => groups.push(vec![work]),
        }
    }
    groups
}

fn fits(cube: &ReadyCube, group: &[Work], next: &Work, max_rows: u64) -> bool {
    // Segments of a live table read disjoint rows, so one pass saves no reads.
    let shared = |work: &Work| {
        matches!(work, Work::Build(SegmentRange::Whole | SegmentRange::Keys(_) | SegmentRange::Nulls))
    };
    if !group.iter().chain([next]).all(shared) {
        return false;
    }
    let before: Vec<&Work> = group.iter().collect();
    let with: Vec<&Work> = group.iter().chain([next]).collect();
    let (before, with) = (rows_of(cube, &before), rows_of(cube, &with));
    with <= max_rows || with - before <= rows_of(cube, &[next]) / 2
}

fn rows_of(cube: &ReadyCube, works: &[&Work]) -> u64 {
    let keys = works.iter().fold(KeySet::default(), |all, work| match work.range() {
        SegmentRange::Keys(range) => all.union(&range.into()),
        SegmentRange::Whole | SegmentRange::Nulls | SegmentRange::Written(_) => all,
    });
    let nulls = works.iter().any(|work| work.range() == SegmentRange::Nulls);
    cube.coverage.rows(&keys, nulls)
}
