//! Replaces aggregations by the second half of one over a cuboid.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use datafusion::common::TableReference;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Aggregate, Distinct, Expr, LogicalPlan, LogicalPlanBuilder};
use nyala_model::{CubeEntry, CuboidEntry, DimensionSet, QualifiedName, SegmentEntry, SegmentState};

use super::answer::{CellPlan, finish};
use super::calls::QueryCalls;
use super::dimensions::column;
use super::joined::{Late, with_late_joins};
use super::matching::{Match, match_cube};
use super::report::{BlockReport, Chosen, Report};
use super::sets::plain_blocks;
use crate::cube::block::{Block, Miss, external_table};
use crate::cube::compile::CompiledCube;
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
        let answer = match &node {
            LogicalPlan::Aggregate(aggregate) => route(aggregate, cubes, report)?,
            LogicalPlan::Distinct(Distinct::All(input)) => match grouped_by_all(input)? {
                Some(aggregate) => route(&aggregate, cubes, report)?.map(with_columns).transpose()?,
                None => None,
            },
            _ => None,
        };
        match answer {
            Some(answer) => Ok(Transformed::new(answer, true, TreeNodeRecursion::Jump)),
            None => Ok(Transformed::no(node)),
        }
    })?;
    Ok(rewritten.data)
}

/// DISTINCT is a grouping by every column, without aggregates.
fn grouped_by_all(input: &Arc<LogicalPlan>) -> datafusion::error::Result<Option<Aggregate>> {
    let columns: Vec<Expr> = input.schema().columns().into_iter().map(Expr::Column).collect();
    if columns.is_empty() {
        return Ok(None);
    }
    Aggregate::try_new(Arc::clone(input), columns, Vec::new()).map(Some)
}

/// An answer with the cuboid it would come from.
struct Candidate<'a> {
    cube: &'a ReadyCube,
    compiled: &'a CompiledCube,
    segment: &'a SegmentEntry,
    cuboid: &'a CuboidEntry,
    matched: Match,
}

/// IN asks its subquery for the expression it gives, which only a projection can tell.
fn with_columns(answer: LogicalPlan) -> Result<LogicalPlan> {
    let columns: Vec<Expr> = answer.schema().columns().into_iter().map(Expr::Column).collect();
    Ok(LogicalPlanBuilder::from(answer).project(columns)?.build()?)
}

/// What a cube would answer: the whole of a plain aggregation, or each grouping set on its own.
struct Answer<'a> {
    cube: &'a ReadyCube,
    parts: Vec<(Candidate<'a>, Option<Late>)>,
}

fn route(aggregate: &Aggregate, cubes: &CubeIndex, report: &mut Report) -> Result<Option<LogicalPlan>> {
    let formed = Block::of(aggregate).and_then(|block| Ok((QueryCalls::of(&block)?, block)));
    let (calls, block) = match formed {
        Ok(formed) => formed,
        Err(miss) => {
            report_unfit(aggregate, cubes, &miss, report);
            return Ok(None);
        }
    };
    let blocks = plain_blocks(&block);
    let mut misses = Vec::new();
    let mut best: Option<Answer<'_>> = None;
    for cube in cubes.candidates(&block) {
        match answer(cube, &blocks) {
            Ok(answer) => {
                let better = best.as_ref().is_none_or(|best| answer.rows() < best.rows());
                let loser = if better { best.replace(answer) } else { Some(answer) };
                if let Some(loser) = loser {
                    let reason = format!("it would read {} rows, more than the chosen one", loser.rows());
                    misses.push((loser.cube.entry.name.to_string(), reason));
                }
            }
            Err(miss) => misses.push((cube.entry.name.to_string(), miss.to_string())),
        }
    }
    let chosen = best.as_ref().map(Answer::describe);
    if chosen.is_some() || !misses.is_empty() {
        report.blocks.push(BlockReport { chosen, misses });
    }
    match best {
        Some(best) => finish(aggregate, &block, calls, best.plan()?).map(Some),
        None => Ok(None),
    }
}

fn answer<'a>(cube: &'a ReadyCube, blocks: &[Block]) -> std::result::Result<Answer<'a>, Miss> {
    let compiled = cube.compiled.as_ref().map_err(|reason| Miss::new(reason.clone()))?;
    let parts = blocks.iter().map(|block| with_late_joins(compiled, block, |block| consider(cube, block)));
    Ok(Answer { cube, parts: parts.collect::<std::result::Result<_, _>>()? })
}

impl Answer<'_> {
    fn rows(&self) -> u64 {
        self.parts.iter().map(|(candidate, _)| candidate.cuboid.rows).sum()
    }

    fn describe(&self) -> Chosen {
        let mut joined: Vec<String> = Vec::new();
        for table in self.parts.iter().filter_map(|(_, late)| late.as_ref()).flat_map(Late::tables) {
            if !joined.contains(&table) {
                joined.push(table);
            }
        }
        Chosen {
            cube: self.cube.entry.name.to_string(),
            cuboids: self.parts.iter().map(|(candidate, _)| candidate.dimension_names()).collect(),
            joined,
            rows: self.rows(),
        }
    }

    fn plan(self) -> Result<CellPlan> {
        let cuboids = self.parts.iter().map(|(candidate, _)| candidate.dimension_names().join(", "));
        let label = format!("{} ({})", self.cube.entry.name, cuboids.collect::<Vec<_>>().join("), ("));
        let estimated_states = self.rows();
        let unique = matches!(self.parts.as_slice(), [(candidate, None)] if candidate.has_the_groups());
        let inputs = self.parts.into_iter().map(|(candidate, late)| match late {
            Some(late) => late.plan(candidate.input()?),
            None => candidate.input(),
        });
        Ok(CellPlan { inputs: inputs.collect::<Result<_>>()?, unique, estimated_states, label })
    }
}

/// An aggregation that is no join of tables is worth a line only if it reads a cube's fact table.
fn report_unfit(aggregate: &Aggregate, cubes: &CubeIndex, miss: &Miss, report: &mut Report) {
    let mut misses = Vec::new();
    // The closure never fails, so the walk cannot either.
    let _ = LogicalPlan::apply_with_subqueries(&aggregate.input, |node| {
        match node {
            // It is looked at on its own.
            LogicalPlan::Aggregate(_) | LogicalPlan::Distinct(_) => return Ok(TreeNodeRecursion::Jump),
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
    let fitting = fitting.filter(|c| !(matched.of_rows && c.dimensions.is_empty()));
    let cuboid = fitting.min_by_key(|c| (c.rows, c.bytes, c.dimensions)).ok_or_else(|| {
        let needed = cube.entry.definition.dimension_names(matched.needed).join(", ");
        Miss::new(match needed.as_str() {
            "" => "its grand total may stand for no row at all, and it has nothing else".to_owned(),
            needed => format!("no cuboid has all of ({needed})"),
        })
    })?;
    Ok(Candidate { cube, compiled, segment, cuboid, matched })
}

impl Candidate<'_> {
    fn dimension_names(&self) -> Vec<String> {
        let names = self.cube.entry.definition.dimension_names(self.cuboid.dimensions);
        names.into_iter().map(str::to_owned).collect()
    }

    /// Whether each cell is one group of the query: the groups are the cuboid's dimensions, and one segment
    /// has all cells. The grand total is left out, since it must be there even if no cell is.
    fn has_the_groups(&self) -> bool {
        let grouped = self.matched.group.iter().map(|group| {
            let dimensions = self.compiled.dimensions.iter();
            dimensions.enumerate().find(|(_, dimension)| column(dimension) == *group).map(|(i, _)| i)
        });
        let grouped = grouped.collect::<Option<Vec<usize>>>();
        grouped.is_some_and(|all| {
            !all.is_empty() && all.into_iter().collect::<DimensionSet>() == self.cuboid.dimensions
        })
    }

    /// Group columns and states, to be merged.
    fn input(self) -> Result<LogicalPlan> {
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
        Ok(builder.project(self.matched.columns())?.build()?)
    }
}
