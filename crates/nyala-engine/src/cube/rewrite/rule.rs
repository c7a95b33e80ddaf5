//! Replaces aggregations by the second half of one over a cuboid.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Column, TableReference};
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Aggregate, Expr, Extension, LogicalPlan, LogicalPlanBuilder};
use nyala_model::{CubeEntry, CuboidEntry, QualifiedName, SegmentEntry, SegmentState};

use super::matching::{Match, match_cube};
use super::report::{BlockReport, Chosen, Report};
use crate::cube::block::{Block, Miss, external_table};
use crate::cube::compile::CompiledCube;
use crate::cube::finish::FinishAggregate;
use crate::error::Result;
use crate::scan::CuboidTable;

/// A cube of the snapshot with its compiled definition, or why it cannot be used.
#[derive(Debug)]
pub(crate) struct ReadyCube {
    pub(crate) entry: Arc<CubeEntry>,
    pub(crate) compiled: std::result::Result<Arc<CompiledCube>, String>,
}

/// The cubes of one catalog snapshot by fact table, so that a query meets only those that could matter.
#[derive(Debug, Default)]
pub(crate) struct CubeIndex {
    by_fact: HashMap<QualifiedName, Vec<Arc<ReadyCube>>>,
}

impl CubeIndex {
    /// Files each cube under the table its FROM starts with.
    pub(crate) fn new(cubes: impl IntoIterator<Item = Arc<ReadyCube>>) -> Self {
        let mut by_fact: HashMap<QualifiedName, Vec<Arc<ReadyCube>>> = HashMap::new();
        for cube in cubes {
            if let Some(fact) = cube.entry.definition.sources.first() {
                by_fact.entry(fact.clone()).or_default().push(cube);
            }
        }
        Self { by_fact }
    }

    /// Cubes whose fact table `block` reads.
    fn candidates(&self, block: &Block) -> Vec<&Arc<ReadyCube>> {
        let tables: BTreeSet<&QualifiedName> = block.instances.iter().map(|i| &i.table).collect();
        tables.into_iter().filter_map(|table| self.by_fact.get(table)).flatten().collect()
    }

    /// The compiled form of a cube.
    pub(crate) fn find(&self, entry: &CubeEntry) -> Option<&Arc<ReadyCube>> {
        let fact = entry.definition.sources.first()?;
        self.by_fact.get(fact)?.iter().find(|cube| cube.entry.id == entry.id)
    }
}

/// Routes every aggregation of `plan` on its own, those in subqueries included. What no cube answers
/// stays as it was.
pub(crate) fn rewrite(plan: LogicalPlan, cubes: &CubeIndex, report: &mut Report) -> Result<LogicalPlan> {
    if cubes.by_fact.is_empty() {
        return Ok(plan);
    }
    let rewritten = plan.transform_down_with_subqueries(|node| {
        let LogicalPlan::Aggregate(aggregate) = &node else {
            return Ok(Transformed::no(node));
        };
        match route(aggregate, cubes, report)? {
            Some(answer) => Ok(Transformed::new(answer, true, TreeNodeRecursion::Jump)),
            None => Ok(Transformed::no(node)),
        }
    })?;
    Ok(rewritten.data)
}

/// An answer with the cuboid it would come from.
struct Candidate<'a> {
    cube: &'a ReadyCube,
    compiled: &'a CompiledCube,
    segment: &'a SegmentEntry,
    cuboid: &'a CuboidEntry,
    matched: Match,
}

fn route(aggregate: &Aggregate, cubes: &CubeIndex, report: &mut Report) -> Result<Option<LogicalPlan>> {
    let block = match Block::of(aggregate) {
        Ok(block) => block,
        Err(miss) => {
            report_unfit(aggregate, cubes, &miss, report);
            return Ok(None);
        }
    };
    let mut misses = Vec::new();
    let mut best: Option<Candidate<'_>> = None;
    for cube in cubes.candidates(&block) {
        match consider(cube, &block) {
            Ok(candidate) => {
                let better = best.as_ref().is_none_or(|b| candidate.cuboid.rows < b.cuboid.rows);
                let loser = if better { best.replace(candidate) } else { Some(candidate) };
                if let Some(loser) = loser {
                    let reason =
                        format!("it would read {} rows, more than the chosen one", loser.cuboid.rows);
                    misses.push((loser.cube.entry.name.to_string(), reason));
                }
            }
            Err(miss) => misses.push((cube.entry.name.to_string(), miss.to_string())),
        }
    }
    let chosen = best.as_ref().map(Candidate::describe);
    if chosen.is_some() || !misses.is_empty() {
        report.blocks.push(BlockReport { chosen, misses });
    }
    best.map(|candidate| candidate.plan(aggregate)).transpose()
}

/// An aggregation that is no join of tables is worth a line only if it reads a cube's fact table.
fn report_unfit(aggregate: &Aggregate, cubes: &CubeIndex, miss: &Miss, report: &mut Report) {
    let mut misses = Vec::new();
    // The closure never fails, so the walk cannot either.
    let _ = LogicalPlan::apply_with_subqueries(&aggregate.input, |node| {
        match node {
            LogicalPlan::Aggregate(_) => return Ok(TreeNodeRecursion::Stop),
            LogicalPlan::TableScan(scan) => {
                let near = external_table(scan).and_then(|table| cubes.by_fact.get(&table)).into_iter();
                misses.extend(near.flatten().map(|cube| (cube.entry.name.to_string(), miss.to_string())));
            }
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    });
    if !misses.is_empty() {
        report.blocks.push(BlockReport { chosen: None, misses });
    }
}

fn consider<'a>(cube: &'a ReadyCube, block: &Block) -> std::result::Result<Candidate<'a>, Miss> {
    let compiled = cube.compiled.as_ref().map_err(|reason| Miss::new(reason.clone()))?;
    let segment = cube
        .entry
        .segments
        .iter()
        .find(|segment| segment.state == SegmentState::Ready)
        .ok_or_else(|| Miss::new("it has not been built; run BUILD CUBE"))?;
    let droppable = segment.droppable_joins.iter().copied().collect();
    let matched = match_cube(compiled, &droppable, block)?;
    let fitting = segment.cuboids.iter().filter(|c| c.dimensions.is_superset(matched.needed));
    let cuboid = fitting.min_by_key(|c| (c.rows, c.bytes, c.dimensions)).ok_or_else(|| {
        let needed = cube.entry.definition.dimension_names(matched.needed).join(", ");
        Miss::new(format!("no cuboid has all of ({needed})"))
    })?;
    Ok(Candidate { cube, compiled, segment, cuboid, matched })
}

impl Candidate<'_> {
    fn dimension_names(&self) -> Vec<String> {
        let names = self.cube.entry.definition.dimension_names(self.cuboid.dimensions);
        names.into_iter().map(str::to_owned).collect()
    }

    fn describe(&self) -> Chosen {
        Chosen {
            cube: self.cube.entry.name.to_string(),
            dimensions: self.dimension_names(),
            rows: self.cuboid.rows,
        }
    }

    /// The valid plan that takes the aggregation's place, with exactly its output columns.
    fn plan(self, aggregate: &Aggregate) -> Result<LogicalPlan> {
        let label = format!("{} ({})", self.cube.entry.name, self.dimension_names().join(", "));
        let schema = self.compiled.cuboid_schema(self.cuboid.dimensions);
        let table = CuboidTable::new(self.cuboid.clone(), self.segment.location.clone(), schema);
        let name = TableReference::partial(
            self.cube.entry.name.schema.clone(),
            format!("{}/{:x}", self.cube.entry.name.name, self.cuboid.dimensions.bits()),
        );
        let mut builder = LogicalPlanBuilder::scan(name, provider_as_source(Arc::new(table)), None)?;
        if let Some(condition) = conjunction(self.matched.residual.iter().cloned()) {
            builder = builder.filter(condition)?;
        }
        let input = builder.project(self.input_columns())?.build()?;
        let node = FinishAggregate {
            input: Arc::new(input),
            groups: self.matched.group.len(),
            aggregates: self.calls(),
            flat: Arc::clone(&self.compiled.flat_schema),
            schema: Arc::clone(&aggregate.schema),
            estimated_states: self.cuboid.rows,
            label,
        };
        Ok(LogicalPlan::Extension(Extension { node: Arc::new(node) }))
    }

    /// Group columns first, then the states of each aggregate, all under names of their own.
    fn input_columns(&self) -> Vec<Expr> {
        let groups =
            self.matched.group.iter().enumerate().map(|(i, expr)| expr.clone().alias(format!("g{i}")));
        let states = self.matched.measures.iter().enumerate().flat_map(|(i, measure)| {
            let states =
                self.compiled.measures.get(*measure).map(|m| m.states.as_slice()).unwrap_or_default();
            states.iter().enumerate().map(move |(k, field)| {
                Expr::Column(Column::new_unqualified(field.name())).alias(format!("s{i}_{k}"))
            })
        });
        groups.chain(states).collect()
    }

    fn calls(&self) -> Vec<crate::cube::measure::MeasureCall> {
        let measures = self.matched.measures.iter().filter_map(|i| self.compiled.measures.get(*i));
        measures.map(|measure| measure.call.clone()).collect()
    }
}
