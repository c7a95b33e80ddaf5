//! A lower bound of the rows that a cube reads.

use nyala_model::{CubeEntry, DimensionSet, SegmentEntry, SegmentState};

use super::cubes::ReadyCube;
use crate::cube::rewrite::candidate::whole;
use crate::cube::rewrite::ranges::Asked;

/// A lower bound of the rows that an answer of `cube` reads from cuboids over `sets`.
///
/// If all segments have the same cuboids, one of them serves in all segments of which all rows are asked for, or in
/// none. Else it is only known that some segment serves.
pub fn least_rows(cube: &ReadyCube, sets: &[DimensionSet], asked: &Asked) -> u64 {
    let wanted = cube.coverage.usable(&cube.entry);
    let wanted = wanted.filter_map(|segment| Some((whole(segment, asked)?, smallest(segment, sets)?)));
    let (all, some): (Vec<_>, Vec<_>) = wanted.partition(|(whole, _)| *whole);
    let rows = |segments: &[(bool, u64)]| segments.iter().map(|(_, rows)| *rows).collect::<Vec<u64>>();
    let (all, some) = (rows(&all), rows(&some));
    if is_uniform(&cube.entry) && !all.is_empty() {
        return all.into_iter().fold(0, u64::saturating_add);
    }
    all.into_iter().chain(some).min().unwrap_or_default()
}

fn smallest(segment: &SegmentEntry, sets: &[DimensionSet]) -> Option<u64> {
    let fitting = segment.cuboids.iter().filter(|cuboid| sets.contains(&cuboid.dimensions));
    fitting.map(|cuboid| cuboid.rows).min()
}

/// Whether all segments with rows have the same cuboids with the same measures.
fn is_uniform(entry: &CubeEntry) -> bool {
    let segments = entry.segments.iter();
    let mut segments = segments.filter(|s| s.state != SegmentState::Building && !s.is_gap());
    let Some(first) = segments.next() else { return true };
    segments.all(|segment| {
        let mut pairs = segment.cuboids.iter().zip(&first.cuboids);
        segment.cuboids.len() == first.cuboids.len()
            && pairs.all(|(one, other)| (one.dimensions, one.measures) == (other.dimensions, other.measures))
    })
}
