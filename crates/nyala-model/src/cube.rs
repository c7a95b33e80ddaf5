//! Cubes: what one is made of, and what its segments hold of that.
//!
//! A cube can change while segments of before go on answering, so everything that files refer to keeps its
//! meaning: the number of a measure is never given twice, and a cuboid records which measures it has.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::catalog::{CuboidEntry, SegmentEntry};
use crate::ids::CubeId;
use crate::lattice::{DimensionSet, Lattice};
use crate::name::QualifiedName;
use crate::range::{RangePartition, Step};

/// A group expression of a cube.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dimension {
    /// Column name in every cuboid.
    pub name: String,
    /// The expression over the base columns, as text for people.
    pub expression: String,
    /// Arrow type, as text for people.
    pub data_type: String,
}

/// One column of an aggregate's intermediate state. Part of the on-disk format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateColumn {
    /// Column name in every cuboid.
    pub name: String,
    /// Arrow type, as text: a segment is refused if the running version would read another.
    pub data_type: String,
}

/// An aggregate call of a cube, stored as state columns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measure {
    /// Tells its columns from those of others, dropped ones included; no cube gives a number twice.
    pub number: u32,
    /// The call over the base columns, as text for people.
    pub expression: String,
    /// Name of the aggregate function.
    pub function: String,
    /// Arrow types of the arguments, as text.
    pub argument_types: Vec<String>,
    /// Whether the call is over distinct arguments.
    pub distinct: bool,
    /// Version of the function's state layout.
    pub state_version: u32,
    /// The state's columns, in the order the function writes them.
    pub states: Vec<StateColumn>,
}

/// What a cube is made of, as worked out when it was created or altered last.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CubeDefinition {
    /// The SELECT of the cube, fully qualified; planning it anew gives the expressions.
    pub select: String,
    /// Tables the SELECT reads, without repetition.
    pub sources: Vec<QualifiedName>,
    /// Group expressions; [`DimensionSet`] counts in this order.
    pub dimensions: Vec<Dimension>,
    /// Aggregate calls, by ascending number.
    pub measures: Vec<Measure>,
    /// The number of the next measure.
    pub next_measure: u32,
    /// Distinct grouping sets, each after all its supersets.
    pub grouping_sets: Vec<DimensionSet>,
    /// How it is divided into segments; none if one segment holds all rows.
    #[serde(default)]
    pub partition: Option<RangePartition>,
    /// How often it was altered.
    #[serde(default)]
    pub revision: u32,
    /// What is done to its segments without being asked.
    #[serde(default)]
    pub options: CubeOptions,
}

/// What is done to a cube's segments without being asked. Nothing by default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CubeOptions {
    /// How far before the end of the newest segment segments are kept; none keeps all.
    pub retention: Option<Step>,
    /// Widths to which neighbouring segments are merged, ascending.
    pub auto_merge: Vec<Step>,
    /// Whether what is missing or stale is built when files change, or rows of live tables.
    pub auto_refresh: bool,
    /// So many new rows of a live fact table are folded without waiting; none is as many as the engine thinks right.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fold_rows: Option<u64>,
    /// New rows and changes of live tables, however few, are folded so long after the last build, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fold_after_ms: Option<u64>,
}

impl CubeDefinition {
    /// The grouping sets as a lattice.
    pub fn lattice(&self) -> Lattice {
        Lattice::new(self.grouping_sets.iter().copied())
    }

    /// Names of the dimensions in `set`, in definition order.
    pub fn dimension_names(&self, set: DimensionSet) -> Vec<&str> {
        set.iter().filter_map(|i| self.dimensions.get(i)).map(|d| d.name.as_str()).collect()
    }

    /// Whether the cuboid is as a build would make it now.
    pub fn is_current(&self, cuboid: &CuboidEntry) -> bool {
        !cuboid.repeats && self.has_all_measures(cuboid)
    }

    /// Whether it has the states of every measure.
    pub fn has_all_measures(&self, cuboid: &CuboidEntry) -> bool {
        self.measures.iter().all(|measure| measure.number < cuboid.measures)
    }

    /// Grouping sets of which `segment` has no cuboid, or one that a build would replace.
    pub fn outstanding(&self, segment: &SegmentEntry) -> Vec<DimensionSet> {
        let current = segment.cuboids.iter().filter(|cuboid| self.is_current(cuboid));
        let current: BTreeSet<DimensionSet> = current.map(|cuboid| cuboid.dimensions).collect();
        self.grouping_sets.iter().filter(|set| !current.contains(set)).copied().collect()
    }

    /// Whether the cells are the same, so that only options differ.
    pub fn same_cells(&self, other: &Self) -> bool {
        self.select == other.select
            && self.dimensions == other.dimensions
            && self.measures == other.measures
            && self.grouping_sets == other.grouping_sets
    }
}

/// A cube with the segments built so far.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CubeEntry {
    /// Identity.
    pub id: CubeId,
    /// Where users find it.
    pub name: QualifiedName,
    /// What it is made of.
    pub definition: CubeDefinition,
    /// The statement that would create it as it is now, for people.
    pub statement: String,
    /// Segments, oldest first, whatever their state.
    pub segments: Vec<SegmentEntry>,
}

/// Where each dimension of a cube is after some were dropped and others added: by its position before, its
/// position now. Those that stay keep their order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DimensionMoves(pub Vec<Option<usize>>);

impl DimensionMoves {
    /// `set` by the positions of now.
    pub fn of(&self, set: DimensionSet) -> DimensionSet {
        set.iter().filter_map(|before| self.0.get(before).copied().flatten()).collect()
    }

    /// Whether a dimension of `set` was dropped.
    pub fn lose(&self, set: DimensionSet) -> bool {
        self.of(set).len() < set.len()
    }

    /// What becomes of the cuboids of a segment whose cube has the grouping sets `sets` now, in their order:
    /// none where it is not needed any more. Of the measures that were dropped the one with the smallest
    /// number tells which files have columns too many.
    ///
    /// A cuboid with a dropped dimension stays as one without it, whose rows have to be merged when they
    /// are read, unless there is a better one: queries that never asked for the dimension go on.
    pub fn carry(
        &self,
        cuboids: &[CuboidEntry],
        sets: &[DimensionSet],
        first_dropped_measure: Option<u32>,
    ) -> Vec<Option<CuboidEntry>> {
        let narrower = |cuboid: &CuboidEntry| {
            self.lose(cuboid.dimensions) || first_dropped_measure.is_some_and(|first| first < cuboid.measures)
        };
        let moved: Vec<CuboidEntry> = cuboids
            .iter()
            .map(|cuboid| CuboidEntry {
                dimensions: self.of(cuboid.dimensions),
                repeats: cuboid.repeats || self.lose(cuboid.dimensions),
                wider: cuboid.wider || narrower(cuboid),
                ..cuboid.clone()
            })
            .collect();
        let mut best: BTreeMap<DimensionSet, (bool, u64, usize)> = BTreeMap::new();
        for (at, cuboid) in moved.iter().enumerate().filter(|(_, cuboid)| sets.contains(&cuboid.dimensions)) {
            let rank = (cuboid.repeats, cuboid.rows, at);
            best.entry(cuboid.dimensions).and_modify(|best| *best = rank.min(*best)).or_insert(rank);
        }
        let kept = |(at, cuboid): (usize, CuboidEntry)| {
            best.get(&cuboid.dimensions).is_some_and(|best| best.2 == at).then_some(cuboid)
        };
        moved.into_iter().enumerate().map(kept).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(dimensions: &[usize]) -> DimensionSet {
        dimensions.iter().copied().collect()
    }

    fn cuboid(dimensions: &[usize], rows: u64) -> CuboidEntry {
        CuboidEntry {
            dimensions: set(dimensions),
            rows,
            bytes: 0,
            measures: 1,
            repeats: false,
            wider: false,
            files: vec![],
        }
    }

    #[test]
    fn a_cuboid_outlives_the_dimension_it_loses() {
        let moves = DimensionMoves(vec![Some(0), None, Some(1)]);
        let before = [cuboid(&[0, 1, 2], 90), cuboid(&[0, 1], 20), cuboid(&[1, 2], 30), cuboid(&[2], 7)];
        let sets = [set(&[0, 1]), set(&[0]), set(&[1])];
        let after = moves.carry(&before, &sets, None);
        let kept: Vec<_> = after.iter().map(|c| c.as_ref().map(|c| (c.dimensions, c.repeats))).collect();
        assert_eq!(
            kept,
            [Some((set(&[0, 1]), true)), Some((set(&[0]), true)), None, Some((set(&[1]), false))]
        );
    }

    #[test]
    fn a_cuboid_that_is_no_grouping_set_any_more_goes() {
        let moves = DimensionMoves(vec![Some(0), Some(1)]);
        let after = moves.carry(&[cuboid(&[0, 1], 9), cuboid(&[0], 3)], &[set(&[0])], Some(1));
        assert_eq!(after, [None, Some(cuboid(&[0], 3))]);
    }
}
