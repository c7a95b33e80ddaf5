//! Replaces aggregations by `FinishAggregate` over cuboids.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{Aggregate, Distinct, Expr, LogicalPlan, LogicalPlanBuilder};
use nyala_model::QualifiedName;
use nyala_sql::error::Result;

use super::answer::{CellPlan, finish};
use super::candidate::{Candidate, consider};
use super::form::Form;
use super::implied::without_implied;
use super::joined::{Late, with_late_joins};
use super::lookup::{CubeIndex, Likely, ReadyCube, likely};
use super::report::{Asked, BlockReport, Chosen, Report};
use crate::cube::block::{Miss, table_of};
use crate::cube::grouping::distinct_groups;
use crate::live::Pins;

/// The inputs of routing a plan.
pub struct Routing<'a> {
    /// Cubes of the snapshot.
    pub cubes: &'a CubeIndex,
    /// Context for the evaluation of constants.
    pub simplify: &'a SimplifyContext,
    /// The versions of live tables that the statement reads.
    pub pins: &'a Pins,
    /// Whether the reason of each cube that does not answer is wanted, and not only of one.
    pub explains: bool,
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
            // Conditions and subqueries of the query that the answer took over are routed too.
            Some(answer) => Ok(Transformed::yes(answer)),
            None => Ok(Transformed::no(node)),
        }
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
    form: &'a Form,
    parts: Vec<(Candidate<'a>, Option<Late>)>,
}

fn route(aggregate: &Aggregate, routing: &Routing<'_>, report: &mut Report) -> Result<Option<LogicalPlan>> {
    let forms = match Form::all(aggregate) {
        Ok(forms) => forms,
        Err(miss) => {
            report_unfit(aggregate, routing, &miss, report);
            return Ok(None);
        }
    };
    let [written, ..] = forms.as_slice() else { return Ok(None) };
    if let Some(miss) = &written.block.not_for_cubes
        && routing.cubes.over(&written.block).is_empty()
    {
        report_unfit(aggregate, routing, miss, report);
        return Ok(None);
    }
    let likely = likely(routing.cubes, &written.plain, routing.pins, routing.simplify);
    let best = cheapest(&likely, &forms, routing.simplify);
    let misses = misses(&forms, best.as_ref(), routing);
    let chosen = best.as_ref().map(Answer::describe);
    let cube = best
        .as_ref()
        .zip(chosen.as_ref())
        .map(|(best, chosen)| (best.cube.entry.id, best.cube.entry.name.clone(), chosen.cuboids.clone()));
    let reason = misses.first().filter(|_| cube.is_none()).map(|(cube, why)| format!("cube `{cube}`: {why}"));
    if chosen.is_some() || !misses.is_empty() {
        report.blocks.push(BlockReport { chosen, misses });
    }
    let answer = best.map(|best| {
        let Form { block, calls, .. } = best.form;
        finish(aggregate, block, calls.clone(), best.plan()?)
    });
    let answer = answer.transpose()?;
    let block = forms.into_iter().next().map(|written| written.block);
    report.asked.extend(block.map(|block| Asked { block, cube, reason }));
    Ok(answer)
}

/// The answer that reads fewest rows, and of these the one of the first cube. The search ends when all other cubes
/// read more.
fn cheapest<'a>(likely: &'a [Likely], forms: &'a [Form], simplify: &SimplifyContext) -> Option<Answer<'a>> {
    let mut best: Option<((u64, usize), Answer<'_>)> = None;
    for Likely { cube, least } in likely {
        if best.as_ref().is_some_and(|(cost, _)| least > cost) {
            break;
        }
        let Ok(answer) = answer(cube, forms, simplify) else { continue };
        let cost = (answer.rows(), least.1);
        if best.as_ref().is_none_or(|(known, _)| cost < *known) {
            best = Some((cost, answer));
        }
    }
    best.map(|(_, answer)| answer)
}

/// Cubes that do not answer, each with its reason: all of them, or the first if none answers.
fn misses(forms: &[Form], best: Option<&Answer<'_>>, routing: &Routing<'_>) -> Vec<(String, String)> {
    let enough = match (routing.explains, best) {
        (true, _) => usize::MAX,
        (false, Some(_)) => 0,
        (false, None) => 1,
    };
    let over = forms.first().map(|form| routing.cubes.over(&form.block)).unwrap_or_default();
    let cubes = over.into_iter().flat_map(|(_, index)| index.cubes());
    let others = cubes.filter(|cube| best.is_none_or(|best| best.cube.entry.id != cube.entry.id));
    let reason = |cube: &Arc<ReadyCube>| {
        let cube = cube.at(routing.pins);
        (cube.entry.name.to_string(), why_not(&cube, answer(&cube, forms, routing.simplify), best))
    };
    others.take(enough).map(reason).collect()
}

/// Why a cube with this answer is not used. Switching it on is only advised if it would be chosen then.
fn why_not(
    cube: &ReadyCube,
    answer: std::result::Result<Answer<'_>, Miss>,
    best: Option<&Answer<'_>>,
) -> String {
    match answer {
        Err(miss) => unfit(cube, &miss),
        Ok(loser) if cube.answers() => loser.why_not_chosen(best),
        Ok(chosen) if best.is_none_or(|best| chosen.rows() < best.rows()) => {
            format!("it is switched off; run {}", cube.switch_on())
        }
        Ok(loser) => format!("it is switched off, and {}", loser.why_not_chosen(best)),
    }
}

/// Why a cube that cannot answer, for the reason `miss`, is not used.
fn unfit(cube: &ReadyCube, miss: &Miss) -> String {
    if cube.answers() {
        miss.to_string()
    } else {
        format!("it is switched off, and could not answer: {miss}")
    }
}

/// The answer of a cube to the first form that it can answer, or why it cannot answer the query as it is written. A cube that is
/// switched off is treated like any other.
fn answer<'a>(
    cube: &'a ReadyCube,
    forms: &'a [Form],
    simplify: &SimplifyContext,
) -> std::result::Result<Answer<'a>, Miss> {
    let compiled = cube.compiled.as_ref().map_err(|reason| Miss::new(reason.clone()))?;
    let mut first = None;
    for form in forms {
        let parts = form
            .plain
            .iter()
            .map(|block| with_late_joins(compiled, block, |block| consider(cube, block, simplify)));
        match parts.collect::<std::result::Result<_, _>>() {
            Ok(parts) => return Ok(Answer { cube, form, parts }),
            Err(miss) => first = first.or(Some(miss)),
        }
    }
    Err(first.unwrap_or_else(|| Miss::new("it has no aggregation")))
}

impl Answer<'_> {
    fn why_not_chosen(&self, best: Option<&Self>) -> String {
        let (own, best) = (self.rows(), best.map(Self::rows));
        let compared = match best.map(|best| own.cmp(&best)) {
            Some(Ordering::Greater) => "more than",
            Some(Ordering::Equal) => "as many as",
            Some(Ordering::Less) | None => "fewer than",
        };
        format!("it would read {own} rows, {compared} the chosen one")
    }

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
fn report_unfit(aggregate: &Aggregate, routing: &Routing<'_>, miss: &Miss, report: &mut Report) {
    let mut facts: BTreeSet<QualifiedName> = BTreeSet::new();
    // The closure never fails, so the walk cannot either.
    let _ = LogicalPlan::apply_with_subqueries(&aggregate.input, |node| {
        match node {
            // A nested aggregation is routed on its own.
            LogicalPlan::Aggregate(_) | LogicalPlan::Distinct(_) => return Ok(TreeNodeRecursion::Jump),
            LogicalPlan::TableScan(scan) => facts.extend(table_of(scan)),
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    });
    let cubes = facts.iter().flat_map(|table| routing.cubes.over_table(table));
    let lines = cubes.map(|cube| (cube.entry.name.to_string(), unfit(cube, miss)));
    let misses: Vec<(String, String)> = lines.take(if routing.explains { usize::MAX } else { 1 }).collect();
    if !misses.is_empty() {
        report.blocks.push(BlockReport { chosen: None, misses });
    }
}
