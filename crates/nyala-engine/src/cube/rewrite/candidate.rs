//! An answer that a cube could give: cells of which cuboids, and which rows besides.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use datafusion::common::{Column, TableReference};
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Aggregate, Expr, Extension, LogicalPlan, LogicalPlanBuilder, Union};
use nyala_model::{CuboidEntry, DimensionSet, KeySet, SegmentEntry, SegmentRange};

use super::matching::{Match, match_cube};
use super::ranges::Asked;
use super::raw::{RawRows, raw_states};
use super::report::Chosen;
use super::rule::ReadyCube;
use crate::cube::block::{Block, Miss};
use crate::cube::compile::{CompiledCube, CompiledMeasure};
use crate::cube::finish::FinishAggregate;
use crate::error::Result;
use crate::scan::{CuboidPart, CuboidTable};

/// A complete answer, not yet a plan.
pub(super) struct Candidate<'a> {
    pub(super) cube: &'a ReadyCube,
    compiled: &'a CompiledCube,
    block: &'a Block,
    parts: Vec<Part<'a>>,
    raw: Option<RawRows>,
    /// Cells and rows that are read at most.
    pub(super) rows: u64,
}

/// Cells of one cuboid, from all segments that are read in the same way.
struct Part<'a> {
    matched: Match,
    dimensions: DimensionSet,
    segments: Vec<(&'a SegmentEntry, &'a CuboidEntry)>,
}

/// The cheapest complete answer of `cube`.
///
/// A segment whose every row fulfils the query's conditions on the partition column needs no check of
/// them, so that a cuboid without that column can serve. A segment that only some rows of are wanted
/// from serves through a cuboid that has the column, or else those rows are read from the tables.
pub(super) fn consider<'a>(
    cube: &'a ReadyCube,
    block: &'a Block,
    simplify: &SimplifyContext,
) -> std::result::Result<Candidate<'a>, Miss> {
    let compiled = cube.compiled.as_ref().map_err(|reason| Miss::new(reason.clone()))?;
    let usable: Vec<&SegmentEntry> = cube.coverage.usable(&cube.entry).collect();
    if usable.is_empty() {
        return Err(Miss::new(match cube.coverage.first_reason() {
            Some(reason) => format!("{reason}; run BUILD CUBE"),
            None => "it has not been built; run BUILD CUBE".to_owned(),
        }));
    }
    let asked = asked(cube, compiled, block, simplify);
    let droppable = droppable(&usable);
    let checked = match_cube(compiled, &droppable, block);
    let unchecked = (!asked.predicates.is_empty())
        .then(|| match_cube(compiled, &droppable, &without(block, &asked.predicates)));
    let unchecked = match unchecked {
        Some(Err(miss)) => return Err(checked.err().unwrap_or(miss)),
        Some(Ok(matched)) => Some(matched),
        None => None,
    };
    let mut choice = Choice { parts: BTreeMap::new(), keys: KeySet::default(), nulls: false, rows: 0 };
    let mut missing = None;
    for segment in usable {
        let Some(whole) = whole(segment, &asked) else { continue };
        let matched = match (&unchecked, &checked) {
            (Some(matched), _) if whole => matched,
            (_, Ok(matched)) => matched,
            (_, Err(miss)) => {
                missing = missing.or_else(|| Some(miss.clone()));
                continue;
            }
        };
        match cheapest(segment, matched) {
            Some(cuboid) => choice.add(segment, cuboid, matched, whole),
            None => {
                let needed = cube.entry.definition.dimension_names(matched.needed).join(", ");
                missing = missing.or_else(|| Some(Miss::new(format!("no cuboid has all of ({needed})"))));
            }
        }
    }
    let raw = choice.left(&asked, cube);
    if choice.parts.is_empty() {
        match (missing, &raw) {
            (Some(miss), _) => return Err(miss),
            (None, Some(_)) => return Err(Miss::new(uncovered(cube))),
            // Nothing is asked for that exists: any cuboid of the first segment gives the empty answer.
            (None, None) => return Err(Miss::new("no segment has rows that the query asks for")),
        }
    }
    let raw_rows = raw.as_ref().map_or(0, |raw| cube.coverage.rows(&raw.keys, raw.nulls));
    let rows = choice.rows.saturating_add(raw_rows);
    let parts = choice.parts.into_values().collect();
    Ok(Candidate { cube, compiled, block, parts, raw, rows })
}

fn asked(cube: &ReadyCube, compiled: &CompiledCube, block: &Block, simplify: &SimplifyContext) -> Asked {
    let Some(column) = &compiled.partition else { return Asked::all() };
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

fn without(block: &Block, predicates: &[usize]) -> Block {
    let kept = block.predicates.iter().enumerate().filter(|(i, _)| !predicates.contains(i));
    Block { predicates: kept.map(|(_, predicate)| predicate.clone()).collect(), ..block.clone() }
}

/// Whether all rows of a segment are asked for; none if no row is.
fn whole(segment: &SegmentEntry, asked: &Asked) -> Option<bool> {
    match (segment.range, segment.key_bounds) {
        (SegmentRange::Whole, _) => Some(asked.predicates.is_empty()),
        (SegmentRange::Nulls, _) => asked.nulls.then_some(true),
        // It holds no rows, which is worth knowing: nothing has to be read for its range.
        (SegmentRange::Keys(_), None) => Some(true),
        (SegmentRange::Keys(_), Some((first, last))) => {
            let keys = KeySet::between(first, last);
            let shared = keys.intersect(&asked.keys);
            (!shared.is_empty()).then(|| asked.keys.covers(&keys))
        }
    }
}

fn cheapest<'a>(segment: &'a SegmentEntry, matched: &Match) -> Option<&'a CuboidEntry> {
    let fitting = segment.cuboids.iter().filter(|c| c.dimensions.is_superset(matched.needed));
    fitting.min_by_key(|c| (c.rows, c.bytes, c.dimensions))
}

fn uncovered(cube: &ReadyCube) -> String {
    match cube.coverage.first_reason() {
        Some(reason) => format!("no segment covers what the query asks for: {reason}; run BUILD CUBE"),
        None => "no segment covers what the query asks for; run BUILD CUBE".to_owned(),
    }
}

/// What has been chosen so far.
struct Choice<'a> {
    /// By whether range conditions are left out, and by cuboid.
    parts: BTreeMap<(bool, DimensionSet), Part<'a>>,
    keys: KeySet,
    nulls: bool,
    rows: u64,
}

impl<'a> Choice<'a> {
    fn add(&mut self, segment: &'a SegmentEntry, cuboid: &'a CuboidEntry, matched: &Match, whole: bool) {
        match segment.range {
            SegmentRange::Whole => {
                self.keys = KeySet::all();
                self.nulls = true;
            }
            SegmentRange::Nulls => self.nulls = true,
            SegmentRange::Keys(range) => self.keys = self.keys.union(&range.into()),
        }
        self.rows = self.rows.saturating_add(cuboid.rows);
        let dimensions = cuboid.dimensions;
        let part = self.parts.entry((whole, dimensions)).or_insert_with(|| Part {
            matched: matched.clone(),
            dimensions,
            segments: Vec::new(),
        });
        part.segments.push((segment, cuboid));
    }

    /// Rows that are asked for, may exist, and are in no chosen segment.
    fn left(&self, asked: &Asked, cube: &ReadyCube) -> Option<RawRows> {
        let keys = asked.keys.subtract(&self.keys);
        let nulls = asked.nulls && !self.nulls;
        let some = !keys.intersect(&cube.coverage.data).is_empty() || (nulls && cube.coverage.nulls);
        some.then_some(RawRows { keys, nulls })
    }
}

impl Candidate<'_> {
    /// What it reads, for EXPLAIN.
    pub(super) fn describe(&self) -> Chosen {
        let names = |dimensions| self.cube.entry.definition.dimension_names(dimensions).join(", ");
        let mut cuboids: Vec<String> = Vec::new();
        for part in &self.parts {
            let name = names(part.dimensions);
            if !cuboids.contains(&name) {
                cuboids.push(name);
            }
        }
        let raw = self.raw.as_ref().zip(self.compiled.partition.as_ref()).map(|(raw, column)| {
            let coverage = &self.cube.coverage;
            let mut shown = column.show_keys(&raw.keys.intersect(&coverage.data));
            if raw.nulls && coverage.nulls {
                shown = if shown.is_empty() { "null".to_owned() } else { format!("{shown} and null") };
            }
            format!("{} {shown}", column.division.column)
        });
        Chosen {
            cube: self.cube.entry.name.to_string(),
            cuboids,
            segments: self.parts.iter().map(|part| part.segments.len()).sum(),
            partitioned: self.compiled.partition.is_some(),
            raw,
            rows: self.rows,
        }
    }

    /// The valid plan that takes the aggregation's place, with exactly its output columns.
    pub(super) fn plan(self, aggregate: &Aggregate) -> Result<LogicalPlan> {
        let mut inputs = Vec::new();
        for part in &self.parts {
            inputs.push(Arc::new(self.cells(part)?));
        }
        if let (Some(raw), Some(column)) = (&self.raw, &self.compiled.partition) {
            let fact = self.parts.first().map_or(0, |part| part.matched.fact);
            inputs.push(Arc::new(raw_states(self.block, fact, column, raw, &self.measures())?));
        }
        let input = match <[_; 1]>::try_from(inputs) {
            Ok([single]) => single,
            Err(several) => Arc::new(LogicalPlan::Union(Union::try_new_with_loose_types(several)?)),
        };
        let node = FinishAggregate {
            input,
            groups: self.block.group.len(),
            aggregates: self.measures().into_iter().map(|measure| measure.call.clone()).collect(),
            flat: Arc::clone(&self.compiled.flat_schema),
            schema: Arc::clone(&aggregate.schema),
            estimated_states: self.rows,
            label: self.describe().source(),
        };
        Ok(LogicalPlan::Extension(Extension { node: Arc::new(node) }))
    }

    /// Cells of a cuboid, in the columns `g0…`, then `s0_0…`.
    fn cells(&self, part: &Part<'_>) -> Result<LogicalPlan> {
        let schema = self.compiled.cuboid_schema(part.dimensions);
        let files = part.segments.iter().map(|(segment, cuboid)| CuboidPart {
            folder: segment.location.clone(),
            cuboid: (*cuboid).clone(),
        });
        let table = CuboidTable::new(files.collect(), schema);
        let name = TableReference::partial(
            self.cube.entry.name.schema.clone(),
            format!("{}/{:x}", self.cube.entry.name.name, part.dimensions.bits()),
        );
        let mut builder = LogicalPlanBuilder::scan(name, provider_as_source(Arc::new(table)), None)?;
        if let Some(condition) = conjunction(part.matched.residual.iter().cloned()) {
            builder = builder.filter(condition)?;
        }
        Ok(builder.project(self.columns(&part.matched))?.build()?)
    }

    /// Group columns first, then the states of each aggregate, all under names of their own.
    fn columns(&self, matched: &Match) -> Vec<Expr> {
        let groups = matched.group.iter().enumerate().map(|(i, expr)| expr.clone().alias(format!("g{i}")));
        let states = self.measures().into_iter().enumerate().flat_map(|(i, measure)| {
            measure.states.iter().enumerate().map(move |(k, field)| {
                Expr::Column(Column::new_unqualified(field.name())).alias(format!("s{i}_{k}"))
            })
        });
        groups.chain(states).collect()
    }

    /// The measures that hold the states of the query's aggregates.
    fn measures(&self) -> Vec<&CompiledMeasure> {
        let matched = self.parts.first().map(|part| part.matched.measures.as_slice()).unwrap_or_default();
        matched.iter().filter_map(|i| self.compiled.measures.get(*i)).collect()
    }
}
