//! Cubes: their definitions, and the cuboids that their segments have.
//!
//! A cube can change while older segments still answer, so all references of files keep their meaning: the
//! number of a measure is never given twice, and a cuboid records which measures it has.

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
    /// Identifies its columns among all measures, also dropped ones; no cube gives a number twice.
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

/// The definition of a cube, as of its creation or its last change.
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
    /// Its division into segments; none if one segment holds all rows.
    #[serde(default)]
    pub partition: Option<RangePartition>,
    /// Number of times it was altered.
    #[serde(default)]
    pub revision: u32,
    /// Automatic maintenance of its segments, and whether they answer.
    #[serde(default)]
    pub options: CubeOptions,
}

/// Automatic maintenance of a cube's segments, none by default, and whether they answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CubeOptions {
    /// Segments are kept this far back from the end of the newest; none keeps all.
    pub retention: Option<Step>,
    /// Widths to which neighbouring segments are merged, ascending.
    pub auto_merge: Vec<Step>,
    /// Whether missing or stale cuboids are built when files change, or rows of live tables.
    pub auto_refresh: bool,
    /// Number of new rows of a live fact table that are folded at once; none is the engine's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fold_rows: Option<u64>,
    /// Milliseconds after the last build when new and changed rows of live tables are folded, however
    /// few.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fold_after_ms: Option<u64>,
    /// Whether queries are answered from it. If not, it is built and kept all the same.
    pub answers: bool,
}

impl Default for CubeOptions {
    fn default() -> Self {
        Self {
            retention: None,
            auto_merge: Vec::new(),
            auto_refresh: false,
            fold_rows: None,
            fold_after_ms: None,
            answers: true,
        }
    }
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

    /// Whether the cuboid equals one that a build would make now.
    pub fn is_current(&self, cuboid: &CuboidEntry) -> bool {
        !cuboid.repeats && self.has_all_measures(cuboid)
    }

    /// Whether it has the states of every measure.
    pub fn has_all_measures(&self, cuboid: &CuboidEntry) -> bool {
        self.measures.iter().all(|measure| measure.number < cuboid.measures)
    }

    /// Grouping sets without a current cuboid in `segment`.
    pub fn outstanding(&self, segment: &SegmentEntry) -> Vec<DimensionSet> {
        if segment.is_gap() {
            return Vec::new();
        }
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
    /// Its name for users.
    pub name: QualifiedName,
    /// Its definition.
    pub definition: CubeDefinition,
    /// The statement that would create it as it is now, for people.
    pub statement: String,
    /// Segments of every state, oldest first.
    pub segments: Vec<SegmentEntry>,
}

/// New positions of dimensions after some were dropped and others added, by old position. The remaining
/// ones keep their order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DimensionMoves(pub Vec<Option<usize>>);

impl DimensionMoves {
    /// `set` by new positions.
    pub fn of(&self, set: DimensionSet) -> DimensionSet {
        set.iter().filter_map(|before| self.0.get(before).copied().flatten()).collect()
    }

    /// Whether a dimension of `set` was dropped.
    pub fn lose(&self, set: DimensionSet) -> bool {
        self.of(set).len() < set.len()
    }

    /// The cuboids of a segment after its cube got the grouping sets `sets`, in the order of `cuboids`; none
    /// for a cuboid that is no longer needed. A cuboid with the measure `first_dropped_measure`, the
    /// smallest dropped number, has unused columns.
    ///
    /// A cuboid with a dropped dimension stays as one without it, unless there is a better one: queries that
    /// never used the dimension still find it. Reads must merge its rows.
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
    fn cubes_of_older_catalogs_answer() {
        let read = |json: &str| serde_json::from_str::<CubeOptions>(json).unwrap();
        assert_eq!(read("{}"), CubeOptions::default());
        assert!(read(r#"{"retention": null, "auto_merge": [], "auto_refresh": true}"#).answers);
        let off = CubeOptions { answers: false, ..CubeOptions::default() };
        assert_eq!(read(&serde_json::to_string(&off).unwrap()), off);
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
