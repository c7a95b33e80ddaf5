//! Matches with older segments, built before the cube got its latest cuboids and measures.
//!
//! ```text
//! cube        (a, b) (a) (c)      sum(x) count(*) max(y)
//! segment 1   (a, b) (a)          sum(x) count(*)             c and max(y) came later
//! segment 2   (a, b) (a) (c)      sum(x) count(*) max(y)
//! ```
//!
//! A query is matched with the cube as it is, and for segments that lack a measure it then reads also with the
//! cube as it was: an average may come from sum and count before it has states of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nyala_model::{CubeEntry, CuboidEntry, DimensionSet, SegmentEntry};

use super::matching::{Match, match_cube};
use super::ranges::Asked;
use super::show::show;
use crate::cube::block::{Block, Miss};
use crate::cube::compile::CompiledCube;
use crate::cube::partition::show_range;

/// Matches of one query with one cube, at the levels that its segments have.
pub struct Levels<'a> {
    entry: &'a CubeEntry,
    compiled: &'a CompiledCube,
    droppable: BTreeSet<usize>,
    block: &'a Block,
    asked: &'a Asked,
    now: Matches,
    /// Matches with older states of the cube, by the number of the first measure that was added later.
    before: BTreeMap<u32, Option<Matches>>,
}

/// A query against one state of the cube.
struct Matches {
    /// The match with all conditions of the query.
    checked: Result<Arc<Match>, Miss>,
    /// The match without the conditions on the partition column, for segments in which all rows fulfil them.
    unchecked: Option<Arc<Match>>,
}

/// A cuboid that serves for a segment.
pub struct Pick<'s> {
    pub cuboid: &'s CuboidEntry,
    pub matched: Arc<Match>,
    /// The measures below this number are used.
    pub level: u32,
}

/// Why a segment cannot answer.
pub enum Gap {
    /// The current cube could not answer either.
    Miss(Miss),
    /// The next build adds the missing cuboid or measure.
    Lacking(String),
}

impl<'a> Levels<'a> {
    /// Matches the query with the cube as it is now.
    pub fn of(
        (entry, compiled): (&'a CubeEntry, &'a CompiledCube),
        droppable: BTreeSet<usize>,
        block: &'a Block,
        asked: &'a Asked,
    ) -> Result<Self, Miss> {
        let now = Matches::of(compiled, &droppable, block, asked)?;
        Ok(Self { entry, compiled, droppable, block, asked, now, before: BTreeMap::new() })
    }

    /// The smallest cuboid of `segment` that serves. `whole`: the query asks for all of its rows.
    pub fn pick<'s>(&mut self, segment: &'s SegmentEntry, whole: bool) -> Result<Pick<'s>, Gap> {
        let matched = self.now.of_segment(whole).map_err(Gap::Miss)?;
        if let Some(cuboid) = smallest(segment, &matched) {
            return Ok(Pick { cuboid, matched, level: u32::MAX });
        }
        let lacks = |level: &u32| self.compiled.measures.iter().any(|measure| measure.number >= *level);
        let levels: BTreeSet<u32> = segment.cuboids.iter().map(|c| c.measures).filter(lacks).collect();
        for level in levels.into_iter().rev() {
            let Some(matched) = self.before(level).and_then(|before| before.of_segment(whole).ok()) else {
                continue;
            };
            if let Some(cuboid) = smallest(segment, &matched) {
                return Ok(Pick { cuboid, matched, level });
            }
        }
        Err(self.gap(segment, &matched))
    }

    fn before(&mut self, level: u32) -> Option<&Matches> {
        let Self { compiled, droppable, block, asked, .. } = self;
        let matches = || Matches::of(&compiled.before(level), droppable, block, asked).ok();
        self.before.entry(level).or_insert_with(matches).as_ref()
    }

    fn gap(&self, segment: &SegmentEntry, matched: &Match) -> Gap {
        let fits = |dimensions: DimensionSet| fits(dimensions, matched);
        let definition = &self.entry.definition;
        let names = definition.dimension_names(matched.needed).join(", ");
        let place = || show_range(definition.partition.as_ref(), segment.range);
        if let Some(cuboid) = segment.cuboids.iter().find(|cuboid| fits(cuboid.dimensions)) {
            let late = |number: &u32| *number >= cuboid.measures && matched.measures.contains(number);
            let late = self.compiled.measures.iter().find(|measure| late(&measure.number));
            let late = late.map(|measure| show(self.compiled, &measure.expression)).unwrap_or_default();
            return Gap::Lacking(format!("{late} was added after segment {} was built", place()));
        }
        if definition.grouping_sets.iter().any(|set| fits(*set)) {
            return Gap::Lacking(format!("segment {} has no cuboid with all of ({names}) yet", place()));
        }
        Gap::Miss(Miss::new(match names.as_str() {
            "" => "its grand total may stand for no row at all, and it has nothing else".to_owned(),
            names => format!("no cuboid has all of ({names})"),
        }))
    }
}

impl Matches {
    fn of(
        compiled: &CompiledCube,
        droppable: &BTreeSet<usize>,
        block: &Block,
        asked: &Asked,
    ) -> Result<Self, Miss> {
        let checked = match_cube(compiled, droppable, block).map(Arc::new);
        let unchecked = (!asked.predicates.is_empty())
            .then(|| match_cube(compiled, droppable, &without(block, &asked.predicates)));
        let unchecked = match unchecked {
            Some(Err(miss)) => return Err(checked.err().unwrap_or(miss)),
            Some(Ok(matched)) => Some(Arc::new(matched)),
            None => None,
        };
        Ok(Self { checked, unchecked })
    }

    fn of_segment(&self, whole: bool) -> Result<Arc<Match>, Miss> {
        match (&self.unchecked, &self.checked) {
            (Some(matched), _) if whole => Ok(Arc::clone(matched)),
            (_, checked) => checked.clone(),
        }
    }
}

fn without(block: &Block, predicates: &[usize]) -> Block {
    let kept = block.predicates.iter().enumerate().filter(|(i, _)| !predicates.contains(i));
    Block { predicates: kept.map(|(_, predicate)| predicate.clone()).collect(), ..block.clone() }
}

fn smallest<'s>(segment: &'s SegmentEntry, matched: &Match) -> Option<&'s CuboidEntry> {
    let has_measures = |cuboid: &CuboidEntry| matched.measures.iter().all(|number| *number < cuboid.measures);
    let fitting = segment.cuboids.iter().filter(|c| fits(c.dimensions, matched) && has_measures(c));
    fitting.min_by_key(|c| (c.rows, c.bytes, c.dimensions))
}

fn fits(dimensions: DimensionSet, matched: &Match) -> bool {
    dimensions.is_superset(matched.needed) && !(matched.of_rows && dimensions.is_empty())
}
