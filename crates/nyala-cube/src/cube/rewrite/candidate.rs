//! An answer that a cube could give: its cuboids, and the rows to read from the tables.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use datafusion::common::TableReference;
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{LogicalPlan, LogicalPlanBuilder, Union};
use nyala_model::{CuboidEntry, DimensionSet, KeyRange, KeySet, SegmentEntry, SegmentRange};
use nyala_sql::error::Result;

use super::dimensions::column;
use super::levels::{Gap, Levels, Pick};
use super::lookup::ReadyCube;
use super::matching::Match;
use super::ranges::Asked;
use super::raw::{RawRows, raw_states};
use super::report::Chosen;
use crate::cube::block::{Block, Miss};
use crate::cube::compile::CompiledCube;
use crate::cube::coverage::Coverage;
use crate::cube::partition::PartitionColumn;
use crate::scan::{CuboidPart, CuboidTable};

/// A complete answer, not yet a plan.
pub struct Candidate<'a> {
    pub cube: &'a ReadyCube,
    compiled: &'a CompiledCube,
    parts: Vec<Part<'a>>,
    raw: Option<(RawRows, LogicalPlan)>,
    /// Cuboids or measures that a segment lacks and a build would add.
    lacking: Option<String>,
    /// Cells and rows that are read at most.
    pub rows: u64,
}

/// Cells of one cuboid, from all segments that are read in the same way.
struct Part<'a> {
    matched: Arc<Match>,
    dimensions: DimensionSet,
    /// The measures below this number are in all of its files.
    measures: u32,
    segments: Vec<(&'a SegmentEntry, &'a CuboidEntry)>,
}

/// The cheapest complete answer of `cube`.
///
/// If all rows of a segment fulfil the query's conditions on the partition column, no check of them is needed,
/// and a cuboid without that column can serve. If only some rows of a segment are wanted, a cuboid with the
/// column serves, or else those rows are read from the tables.
pub fn consider<'a>(
    cube: &'a ReadyCube,
    block: &Block,
    simplify: &SimplifyContext,
) -> std::result::Result<Candidate<'a>, Miss> {
    let compiled = cube.compiled.as_ref().map_err(|reason| Miss::new(reason.clone()))?;
    let usable: Vec<&SegmentEntry> = cube.coverage.usable(&cube.entry).collect();
    if usable.is_empty() {
        let advice = cube.coverage.first_advice();
        return Err(Miss::new(advice.unwrap_or_else(|| "it has not been built; run BUILD CUBE".to_owned())));
    }
    let asked = asked(cube, block, simplify);
    let mut levels = Levels::of((&cube.entry, compiled), droppable(&usable), block, &asked)?;
    let mut choice = Choice::default();
    let (mut missing, mut lacking) = (None, None);
    for segment in usable {
        if segment.is_gap() {
            choice.cover(segment);
            continue;
        }
        let Some(whole) = whole(segment, &asked) else { continue };
        match levels.pick(segment, whole) {
            Ok(pick) => choice.add(segment, pick, whole),
            Err(Gap::Miss(miss)) => missing = missing.or(Some(miss)),
            Err(Gap::Lacking(what)) => lacking = lacking.or(Some(format!("{what}; run BUILD CUBE"))),
        }
    }
    let missing = missing.or_else(|| lacking.clone().map(Miss::new));
    let raw = choice.left(&asked, cube);
    if choice.parts.is_empty() {
        match (missing, &raw) {
            (Some(miss), _) => return Err(miss),
            (None, Some(_)) => return Err(Miss::new(uncovered(cube))),
            // The query asks for no existing row: the tables give the empty answer.
            (None, None) => return Err(Miss::new("no segment has rows that the query asks for")),
        }
    }
    let parts: Vec<Part<'_>> = choice.parts.into_values().collect();
    let mut rows = choice.rows;
    let raw = match (raw, parts.first()) {
        (Some(raw), Some(part)) => {
            rows = rows.saturating_add(cube.coverage.rows(&raw.keys, raw.nulls));
            let states = raw_states(block, part.matched.fact, compiled.partition.as_ref(), &raw);
            Some((raw, states.map_err(|error| Miss::new(error.to_string()))?))
        }
        _ => None,
    };
    Ok(Candidate { cube, compiled, parts, raw, rows, lacking })
}

/// The rows of the cube's fact table that the query asks for.
pub fn asked(cube: &ReadyCube, block: &Block, simplify: &SimplifyContext) -> Asked {
    let column = cube.compiled.as_ref().ok().and_then(|compiled| compiled.partition.as_ref());
    let Some(column) = column else { return Asked::all() };
    match fact_instance(cube, block) {
        Some(fact) => Asked::of(block, fact, column, simplify),
        None => Asked::all(),
    }
}

/// The one occurrence of the cube's fact table in the query; none if there are several.
fn fact_instance(cube: &ReadyCube, block: &Block) -> Option<usize> {
    let fact = cube.entry.definition.sources.first()?;
    let mut found = (0..block.instances.len())
        .filter(|i| block.instances.get(*i).is_some_and(|instance| instance.table == *fact));
    let first = found.next()?;
    found.next().is_none().then_some(first)
}

/// Tables that may be left out in every segment.
fn droppable(segments: &[&SegmentEntry]) -> BTreeSet<usize> {
    let mut each = segments.iter().map(|s| s.droppable_joins.iter().copied().collect::<BTreeSet<_>>());
    let first = each.next().unwrap_or_default();
    each.fold(first, |common, other| common.intersection(&other).copied().collect())
}

/// Whether all rows of a segment are asked for; none if no row is.
pub fn whole(segment: &SegmentEntry, asked: &Asked) -> Option<bool> {
    match (segment.range, segment.key_bounds) {
        (SegmentRange::Whole | SegmentRange::Written(_), _) => Some(asked.predicates.is_empty()),
        (SegmentRange::Nulls, _) => asked.nulls.then_some(true),
        // The segment holds no rows, so its range needs no read of the tables.
        (SegmentRange::Keys(_), None) => Some(true),
        (SegmentRange::Keys(_), Some((first, last))) => {
            let keys = KeySet::between(first, last);
            let shared = keys.intersect(&asked.keys);
            (!shared.is_empty()).then(|| asked.keys.covers(&keys))
        }
    }
}

fn show_raw(column: &PartitionColumn, raw: &RawRows, coverage: &Coverage) -> String {
    let mut shown = column.show_keys(&raw.keys.intersect(&coverage.data));
    if raw.nulls && coverage.nulls {
        shown = if shown.is_empty() { "null".to_owned() } else { format!("{shown} and null") };
    }
    format!("{} {shown}", column.division.column)
}

/// The rows of a live table that are read, by when they were written.
fn show_written(lsns: &KeySet, coverage: &Coverage) -> String {
    let last = coverage.written().map_or(0, |version| version.lsn());
    let there = lsns.intersect(&KeySet::between(1, i64::try_from(last).unwrap_or(i64::MAX)));
    let spans: Vec<String> = there.spans().map(|(first, last)| format!("{first} to {last}")).collect();
    format!("{} rows written at {}", coverage.rows(lsns, false), spans.join(" and "))
}

fn uncovered(cube: &ReadyCube) -> String {
    match cube.coverage.first_advice() {
        Some(advice) => format!("no segment covers what the query asks for: {advice}"),
        None => "no segment covers what the query asks for; run BUILD CUBE".to_owned(),
    }
}

/// The cuboids chosen so far.
#[derive(Default)]
struct Choice<'a> {
    /// The key: whether range conditions are left out, the cuboid's dimensions, its measures, and the level of the match.
    parts: BTreeMap<(bool, DimensionSet, u32, u32), Part<'a>>,
    /// The keys that are answered, if not all are.
    ranges: Vec<KeyRange>,
    all: bool,
    nulls: bool,
    rows: u64,
}

impl<'a> Choice<'a> {
    fn add(&mut self, segment: &'a SegmentEntry, pick: Pick<'a>, whole: bool) {
        let Pick { cuboid, matched, level } = pick;
        self.cover(segment);
        self.rows = self.rows.saturating_add(cuboid.rows);
        let (dimensions, measures) = (cuboid.dimensions, cuboid.measures);
        let part = self.parts.entry((whole, dimensions, measures, level)).or_insert_with(|| Part {
            matched,
            dimensions,
            measures,
            segments: Vec::new(),
        });
        part.segments.push((segment, cuboid));
    }

    /// Counts the rows of a segment as answered.
    fn cover(&mut self, segment: &SegmentEntry) {
        match segment.range {
            SegmentRange::Whole => (self.all, self.nulls) = (true, true),
            SegmentRange::Nulls => self.nulls = true,
            SegmentRange::Keys(range) | SegmentRange::Written(range) => self.ranges.push(range),
        }
    }

    /// Rows that are asked for, may exist, and are in no chosen segment.
    fn left(&self, asked: &Asked, cube: &ReadyCube) -> Option<RawRows> {
        let held = if self.all { KeySet::all() } else { self.ranges.iter().copied().collect() };
        let keys = asked.keys.subtract(&held);
        let nulls = asked.nulls && !self.nulls;
        cube.coverage.may_have(&keys, nulls).then_some(RawRows { keys, nulls })
    }
}

impl Candidate<'_> {
    /// Adds the cuboids, segments and rows it reads to the line of EXPLAIN.
    pub fn describe(&self, chosen: &mut Chosen) {
        for part in &self.parts {
            let names = self.cube.entry.definition.dimension_names(part.dimensions);
            let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
            if !chosen.cuboids.contains(&names) {
                chosen.cuboids.push(names);
            }
        }
        let coverage = &self.cube.coverage;
        if self.compiled.partition.is_none() && coverage.written().is_none() {
            return;
        }
        let segments = self.parts.iter().map(|part| part.segments.len()).sum();
        chosen.segments = chosen.segments.max(Some(segments));
        if let Some((raw, _)) = &self.raw {
            chosen.raw = Some(match &self.compiled.partition {
                Some(column) => show_raw(column, raw, coverage),
                None => show_written(&raw.keys, coverage),
            });
        }
        chosen.lacking = chosen.lacking.take().or_else(|| self.lacking.clone());
    }

    /// Whether each cell is one group of the query: the groups are the cuboid's dimensions, and one segment
    /// has all cells. The grand total is left out, since it must be there even if no cell is.
    pub fn has_the_groups(&self) -> bool {
        let ([part], None) = (self.parts.as_slice(), &self.raw) else { return false };
        let [(_, cuboid)] = part.segments.as_slice() else { return false };
        let grouped = part.matched.group.iter().map(|group| {
            let dimensions = self.compiled.dimensions.iter();
            dimensions.enumerate().find(|(_, dimension)| column(dimension) == *group).map(|(i, _)| i)
        });
        let grouped = grouped.collect::<Option<Vec<usize>>>();
        !cuboid.repeats
            && grouped.is_some_and(|all| {
                !all.is_empty() && all.into_iter().collect::<DimensionSet>() == part.dimensions
            })
    }

    /// Group columns and states, to be merged.
    pub fn input(self) -> Result<LogicalPlan> {
        let cells = self.parts.iter().map(|part| self.cells(part)).collect::<Result<Vec<_>>>()?;
        let inputs = cells.into_iter().chain(self.raw.into_iter().map(|(_, states)| states));
        let inputs: Vec<Arc<LogicalPlan>> = inputs.map(Arc::new).collect();
        Ok(match <[_; 1]>::try_from(inputs) {
            Ok([single]) => Arc::unwrap_or_clone(single),
            Err(several) => LogicalPlan::Union(Union::try_new_with_loose_types(several)?),
        })
    }

    /// Cells of a cuboid, in the columns `g0…`, then `s0_0…`.
    fn cells(&self, part: &Part<'_>) -> Result<LogicalPlan> {
        let schema = self.compiled.cuboid_schema_before(part.dimensions, part.measures);
        let files = part.segments.iter().map(|(segment, cuboid)| CuboidPart {
            folder: segment.location.clone(),
            cuboid: (*cuboid).clone(),
        });
        let table = CuboidTable::new(files.collect(), schema);
        let source = provider_as_source(Arc::new(table));
        let mut builder = LogicalPlanBuilder::scan(self.scan_name(part), source, None)?;
        if let Some(condition) = conjunction(part.matched.residual.iter().cloned()) {
            builder = builder.filter(condition)?;
        }
        Ok(builder.project(part.matched.columns())?.build()?)
    }

    /// A name made of the files that are read: DataFusion tells scans apart by their names only, so that two
    /// subqueries over different segments would be taken for one.
    fn scan_name(&self, part: &Part<'_>) -> TableReference {
        let mut files = DefaultHasher::new();
        for (segment, cuboid) in &part.segments {
            segment.location.hash(&mut files);
            // The path of its first file is unique to a cuboid.
            cuboid.files.first().map(|file| &file.name).hash(&mut files);
        }
        let cube = &self.cube.entry.name;
        let name = format!("{}/{:x}/{:016x}", cube.name, part.dimensions.bits(), files.finish());
        TableReference::partial(cube.schema.clone(), name)
    }
}
