//! Replaces aggregations by the second half of one over a cuboid.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{Aggregate, LogicalPlan};
use nyala_model::{CubeEntry, QualifiedName};

use super::candidate::{Candidate, consider};
use super::report::{BlockReport, Report};
use crate::cube::block::{Block, Miss, external_table};
use crate::cube::compile::CompiledCube;
use crate::cube::coverage::Coverage;
use crate::error::Result;

/// A cube of the snapshot with its compiled definition, or why it cannot be used.
#[derive(Debug)]
pub(crate) struct ReadyCube {
    pub(crate) entry: Arc<CubeEntry>,
    pub(crate) compiled: std::result::Result<Arc<CompiledCube>, String>,
    /// Which of its segments may be used.
    pub(crate) coverage: Coverage,
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

    /// All cubes.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<ReadyCube>> {
        self.by_fact.values().flatten()
    }

    /// The compiled form of a cube.
    pub(crate) fn find(&self, entry: &CubeEntry) -> Option<&Arc<ReadyCube>> {
        let fact = entry.definition.sources.first()?;
        self.by_fact.get(fact)?.iter().find(|cube| cube.entry.id == entry.id)
    }
}

/// Routes every aggregation of `plan` on its own, those in subqueries included. What no cube answers
/// stays as it was.
pub(crate) fn rewrite(
    plan: LogicalPlan,
    cubes: &CubeIndex,
    simplify: &SimplifyContext,
    report: &mut Report,
) -> Result<LogicalPlan> {
    if cubes.by_fact.is_empty() {
        return Ok(plan);
    }
    let rewritten = plan.transform_down_with_subqueries(|node| {
        let LogicalPlan::Aggregate(aggregate) = &node else {
            return Ok(Transformed::no(node));
        };
        match route(aggregate, cubes, simplify, report)? {
            Some(answer) => Ok(Transformed::new(answer, true, TreeNodeRecursion::Jump)),
            None => Ok(Transformed::no(node)),
        }
    })?;
    Ok(rewritten.data)
}

fn route(
    aggregate: &Aggregate,
    cubes: &CubeIndex,
    simplify: &SimplifyContext,
    report: &mut Report,
) -> Result<Option<LogicalPlan>> {
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
        match consider(cube, &block, simplify) {
            Ok(candidate) => {
                let better = best.as_ref().is_none_or(|b| candidate.rows < b.rows);
                let loser = if better { best.replace(candidate) } else { Some(candidate) };
                if let Some(loser) = loser {
                    let reason = format!("it would read {} rows, more than the chosen one", loser.rows);
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
