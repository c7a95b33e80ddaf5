//! Which segments are made in one pass over their rows.

use nyala_model::{KeySet, SegmentRange};

use super::wanted::Work;
use crate::cube::rewrite::ReadyCube;

/// Rows that one pass reads at most, unless the segments lie in the same files: no segment of a pass can be
/// used before it has ended.
const MAX_ROWS: u64 = 100_000_000;
/// Segments that one pass makes at most.
const MAX_SEGMENTS: usize = 1_000;

/// Groups of work for one pass each, in the order of execution.
pub fn groups(cube: &ReadyCube, works: Vec<Work>) -> Vec<Vec<Work>> {
    let mut groups: Vec<Vec<Work>> = Vec::new();
    for work in works {
        match groups.last_mut() {
            Some(group) if group.len() < MAX_SEGMENTS && fits(cube, group, &work) => group.push(work),
            _ => groups.push(vec![work]),
        }
    }
    groups
}

fn fits(cube: &ReadyCube, group: &[Work], next: &Work) -> bool {
    // Segments of a live table read disjoint rows, so one pass saves no reads.
    let shared = |work: &Work| {
        matches!(work, Work::Build(SegmentRange::Whole | SegmentRange::Keys(_) | SegmentRange::Nulls))
    };
    if !group.iter().chain([next]).all(shared) {
        return false;
    }
    let rows = |works: &[&Work]| {
        let keys = works.iter().fold(KeySet::default(), |all, work| match work.range() {
            SegmentRange::Keys(range) => all.union(&range.into()),
            SegmentRange::Whole | SegmentRange::Nulls | SegmentRange::Written(_) => all,
        });
        let nulls = works.iter().any(|work| work.range() == SegmentRange::Nulls);
        cube.coverage.rows(&keys, nulls)
    };
    let before: Vec<&Work> = group.iter().collect();
    let with: Vec<&Work> = group.iter().chain([next]).collect();
    let (before, with) = (rows(&before), rows(&with));
    with <= MAX_ROWS || with - before <= rows(&[next]) / 2
}
