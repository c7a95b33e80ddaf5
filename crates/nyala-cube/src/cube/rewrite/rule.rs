//! Replaces aggregations by `FinishAggregate` over cuboids.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{Aggregate, Distinct, Expr, LogicalPlan, LogicalPlanBuilder};
use nyala_model::{CubeEntry, QualifiedName};
use nyala_sql::error::Result;

use super::answer::{CellPlan, finish};
use super::calls::QueryCalls;
use super::candidate::{Candidate, consider};
use super::implied::without_implied;
use super::joined::{Late, with_late_joins};
use super::report::{Asked, BlockReport, Chosen, Report};
use super::sets::plain_blocks;
use crate::cube::block::{Block, Miss, table_of};
use crate::cube::compile::CompiledCube;
use crate::cube::coverage::Coverage;
use crate::cube::grouping::distinct_groups;
use crate::cube::live::{LiveVersions, live_tables};
use crate::live::Pins;

/// A cube of the snapshot with its compiled definition, or why it cannot be used.
#[derive(Debug)]
pub struct ReadyCube {
    /// The cube as the catalog has it.
    pub entry: Arc<CubeEntry>,
    /// The cube ready for queries, or why it cannot be used.
    pub compiled: std::result::Result<Arc<CompiledCube>, String>,
    /// Which of its segments may be used.
    pub coverage: Coverage,
}

impl ReadyCube {
    /// The cube as a statement with these `pins` may use it.
    pub fn at(self: &Arc<Self>, pins: &Pins) -> Arc<Self> {
        match &self.compiled {
            Ok(compiled) if !live_tables(compiled).is_empty() => {
                let versions = LiveVersions::of(compiled, pins);
                let coverage = self.coverage.at(&self.entry, compiled, &versions);
                let (entry, compiled) = (Arc::clone(&self.entry), self.compiled.clone());
                Arc::new(Self { entry, compiled, coverage })
            }
            _ => Arc::clone(self),
        }
    }

    /// Whether it reads a live table.
    pub fn reads_live(&self) -> bool {
        self.compiled.as_ref().is_ok_and(|compiled| !live_tables(compiled).is_empty())
    }
}

/// The inputs of routing a plan.
pub struct Routing<'a> {
    /// Cubes of the snapshot.
    pub cubes: &'a CubeIndex,
    /// Context for the evaluation of constants.
    pub simplify: &'a SimplifyContext,
    /// The versions of live tables that the statement reads.
    pub pins: &'a Pins,
}

/// The cubes of one catalog snapshot by fact table, so that a query considers only cubes over its tables.
#[derive(Debug, Default)]
pub struct CubeIndex {
    by_fact: HashMap<QualifiedName, Vec<Arc<ReadyCube>>>,
}

impl CubeIndex {
    /// Files each cube under the table its FROM starts with.
    pub fn new(cubes: impl IntoIterator<Item = Arc<ReadyCube>>) -> Self {
        let mut by_fact: HashMap<QualifiedName, Vec<Arc<ReadyCube>>> = HashMap::new();
        for cube in cubes {
            if let Some(fact) = cube.entry.definition.sources.first() {
                by_fact.entry(fact.clone()).or_default().push(cube);
            }
        }
        Self { by_fact }
    }

    /// Cubes over a fact table that `block` reads.
    fn candidates(&self, block: &Block) -> Vec<&Arc<ReadyCube>> {
        let tables: BTreeSet<&QualifiedName> = block.instances.iter().map(|i| &i.table).collect();
        tables.into_iter().filter_map(|table| self.by_fact.get(table)).flatten().collect()
    }

    /// All cubes.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<ReadyCube>> {
        self.by_fact.values().flatten()
    }

    /// The compiled form of a cube.
    pub fn find(&self, entry: &CubeEntry) -> Option<&Arc<ReadyCube>> {
        let fact = entry.definition.sources.first()?;
        self.by_fact.get(fact)?.iter().find(|cube| cube.entry.id == entry.id)
    }
}

/// Routes every aggregation of `plan` on its own, also in subqueries. An aggregation that no cube answers stays
/// unchanged.
pub fn rewrite(plan: LogicalPlan, routing: &Routing<'_>, report: &mut Report) -> Result<LogicalPlan> {
    let rewritten = plan.transform_down_with_subqueries(|node| {
        let answer = match &node {
            LogicalPlan::Aggregate(aggregate) => {
                let aggregate = grouped_once(aggregate)?;
                route(&aggregate, routing, report)?
            }
            LogicalPlan::Projection(projection) => {
                let needed = without_implied(projection)?;
                return Ok(needed.map_or_else(|| Transformed::no(node), Transformed::yes));
            }
            LogicalPlan::Distinct(Distinct::All(input)) => match grouped_by_all(input)? {
                Some(aggregate) => route(&aggregate, routing, report)?.map(with_columns).transpose()?,
                None => None,
            },
            _ => None,
        };
        match answer {
            Some(answer) => {
                let answer = rewrite_conditions(answer, routing, report)?;
                Ok(Transformed::new(answer, true, TreeNodeRecursion::Jump))
            }
            None => Ok(Transformed::no(node)),
        }
    })?;
    Ok(rewritten.data)
}

/// Routes the aggregations of subqueries that an answer took over with the conditions of its query.
fn rewrite_conditions(
    answer: LogicalPlan,
    routing: &Routing<'_>,
    report: &mut Report,
) -> datafusion::error::Result<LogicalPlan> {
    let rewritten = answer.transform_down(|node| match node {
        LogicalPlan::Filter(_) | LogicalPlan::Join(_) => node.map_subqueries(|subquery| {
            rewrite(subquery, routing, report).map(Transformed::yes).map_err(Into::into)
        }),
        other => Ok(Transformed::no(other)),
    })?;
    Ok(rewritten.data)
}

/// An aggregation without repeated expressions in GROUP BY: they give only one output column.
fn grouped_once(aggregate: &Aggregate) -> datafusion::error::Result<Cow<'_, Aggregate>> {
    let groups = distinct_groups(aggregate);
    if groups.len() == aggregate.group_expr.len() {
        return Ok(Cow::Borrowed(aggregate));
    }
    let groups = groups.into_iter().cloned().collect();
    let calls = aggregate.aggr_expr.clone();
    Aggregate::try_new(Arc::clone(&aggregate.input), groups, calls).map(Cow::Owned)
}

/// DISTINCT is a grouping by every column, without aggregates.
fn grouped_by_all(input: &Arc<LogicalPlan>) -> datafusion::error::Result<Option<Aggregate>> {
    let columns: Vec<Expr> = input.schema().columns().into_iter().map(Expr::Column).collect();
    if columns.is_empty() {
        return Ok(None);
    }
    Aggregate::try_new(Arc::clone(input), columns, Vec::new()).map(Some)
}

/// IN needs an output expression of its subquery, which only a projection has.
fn with_columns(answer: LogicalPlan) -> Result<LogicalPlan> {
    let columns: Vec<Expr> = answer.schema().columns().into_iter().map(Expr::Column).collect();
    Ok(LogicalPlanBuilder::from(answer).project(columns)?.build()?)
}

/// A cube's answer: to the whole of a plain aggregation, or to each grouping set on its own.
struct Answer<'a> {
    cube: &'a ReadyCube,
    parts: Vec<(Candidate<'a>, Option<Late>)>,
}

fn route(aggregate: &Aggregate, routing: &Routing<'_>, report: &mut Report) -> Result<Option<LogicalPlan>> {
    let formed = Block::of(aggregate).and_then(|block| Ok((QueryCalls::of(&block)?, block)));
    let (calls, block) = match formed {
        Ok(formed) => formed,
        Err(miss) => {
            report_unfit(aggregate, routing.cubes, &miss, report);
            return Ok(None);
        }
    };
    let blocks = plain_blocks(&block);
    let mut misses = Vec::new();
    let mut best: Option<Answer<'_>> = None;
    let cubes = routing.cubes.candidates(&block).into_iter().map(|cube| cube.at(routing.pins));
    let cubes: Vec<Arc<ReadyCube>> = cubes.collect();
    for cube in &cubes {
        match answer(cube, &blocks, routing.simplify) {
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
    let cube = best
        .as_ref()
        .zip(chosen.as_ref())
        .map(|(best, chosen)| (best.cube.entry.id, best.cube.entry.name.clone(), chosen.cuboids.clone()));
    let reason = misses.first().filter(|_| cube.is_none()).map(|(cube, why)| format!("cube `{cube}`: {why}"));
    if chosen.is_some() || !misses.is_empty() {
        report.blocks.push(BlockReport { chosen, misses });
    }
    let answer = match best {
        Some(best) => Some(finish(aggregate, &block, calls, best.plan()?)?),
        None => None,
    };
    report.asked.push(Asked { block, cube, reason });
    Ok(answer)
}

fn answer<'a>(
    cube: &'a ReadyCube,
    blocks: &[Block],
    simplify: &SimplifyContext,
) -> std::result::Result<Answer<'a>, Miss> {
    let compiled = cube.compiled.as_ref().map_err(|reason| Miss::new(reason.clone()))?;
    let parts =
        blocks.iter().map(|block| with_late_joins(compiled, block, |block| consider(cube, block, simplify)));
    Ok(Answer { cube, parts: parts.collect::<std::result::Result<_, _>>()? })
}

impl Answer<'_> {
    fn rows(&self) -> u64 {
        self.parts.iter().map(|(candidate, _)| candidate.rows).fold(0, u64::saturating_add)
    }

    fn describe(&self) -> Chosen {
        let mut joined: Vec<String> = Vec::new();
        for table in self.parts.iter().filter_map(|(_, late)| late.as_ref()).flat_map(Late::tables) {
            if !joined.contains(&table) {
                joined.push(table);
            }
        }
        let mut chosen = Chosen {
            cube: self.cube.entry.name.to_string(),
            cuboids: Vec::new(),
            segments: None,
            joined,
            raw: None,
            lacking: None,
            live: self.cube.reads_live(),
            rows: self.rows(),
        };
        for (candidate, _) in &self.parts {
            candidate.describe(&mut chosen);
        }
        chosen
    }

    fn plan(self) -> Result<CellPlan> {
        let cuboids = self.describe().cuboids.into_iter().map(|names| names.join(", "));
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
            // A nested aggregation is routed on its own.
            LogicalPlan::Aggregate(_) | LogicalPlan::Distinct(_) => return Ok(TreeNodeRecursion::Jump),
            LogicalPlan::TableScan(scan) => {
                let near = table_of(scan).and_then(|table| cubes.by_fact.get(&table)).into_iter();
                for cube in near.flatten() {
                    let line = (cube.entry.name.to_string(), miss.to_string());
                    // Its table may be read more than once.
                    if !misses.contains(&line) {
                        misses.push(line);
                    }
                }
            }
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    });
    if !misses.is_empty() {
        report.blocks.push(BlockReport { chosen: None, misses });
    }
}
