//! Conditions are checked before the expressions that they guard.
//!
//! A query with `a / b … WHERE b <> 0`, or a cast of texts that look like numbers, would fail for the other rows.
//! DataFusion computes both sides of an AND for all rows of a batch, and moves projections below filters.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{
    BinaryExpr, Case, Expr, ExprSchemable, Filter, LogicalPlan, Operator, lit, when,
};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_optimizer::optimizer::{
    ConfigOnlyContext, PhysicalOptimizerContext, PhysicalOptimizerRule,
};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::{ProjectionExec, try_embed_projection};
use nyala_sql::cast_facts::always_fits;

use super::overflow::input_schema;
use super::yielding::YieldExec;

/// The function that stands for a value that is not known yet.
pub const PARAMETER: &str = "nyala_parameter";

/// The same plan with filters that compute risky conditions only for rows that pass all others.
pub fn conditions_first(plan: LogicalPlan) -> Result<LogicalPlan> {
    let guarded = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Filter(filter) => guarded(filter),
        other => Ok(Transformed::no(other)),
    })?;
    Ok(guarded.data)
}

fn guarded(filter: Filter) -> Result<Transformed<LogicalPlan>> {
    let schema = filter.input.schema();
    let parts = split_conjunction(&filter.predicate).into_iter();
    let mut parts: Vec<(Option<Risk>, Expr)> = parts.map(|part| (risk(part, schema), part.clone())).collect();
    if parts.iter().all(|(risk, _)| risk.is_none()) {
        return Ok(Transformed::no(LogicalPlan::Filter(filter)));
    }
    for (risk, part) in &mut parts {
        // A volatile condition must be computed only once, and safe ones are computed twice.
        if is_volatile(part) {
            *risk = Some(Risk::OfZero);
        }
    }
    let of = |level: Option<Risk>| {
        conjunction(parts.iter().filter(|(risk, _)| *risk == level).map(|(_, part)| part.clone()))
    };
    let risky = [of(Some(Risk::OfType)), of(Some(Risk::OfZero))].into_iter().flatten();
    let risky = risky.rev().map(Ok).reduce(|then, condition| only_where(condition?, then?)).transpose()?;
    let (safe, Some(risky)) = (of(None), risky) else {
        return Ok(Transformed::no(LogicalPlan::Filter(filter)));
    };
    let predicate = match safe {
        // The safe condition also stays outside the CASE, for rules that look at conditions.
        Some(safe) => safe.clone().and(only_where(safe, risky)?),
        None => risky,
    };
    Ok(Transformed::yes(LogicalPlan::Filter(Filter::try_new(predicate, filter.input)?)))
}

/// Whether an expression has another value each time it is computed. A parameter is declared so, to keep rules from
/// computing it, but has one value for a whole run.
fn is_volatile(expr: &Expr) -> bool {
    let another_each_time = |expr: &Expr| {
        Ok(expr.is_volatile_node() && !matches!(expr, Expr::ScalarFunction(call) if call.name() == PARAMETER))
    };
    expr.exists(another_each_time).unwrap_or(true)
}

/// Only CASE is certain to compute an expression for some rows of a batch only.
fn only_where(condition: Expr, then: Expr) -> Result<Expr> {
    when(condition, then).otherwise(lit(false))
}

/// The kind of value for which an expression fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Risk {
    /// Out of the range of the type, or no value of it.
    OfType,
    /// A divisor of zero: conditions with arithmetic or casts may be there to rule it out.
    OfZero,
}

/// The risk that an expression fails for some rows and not for others: arithmetic of whole numbers and decimals, and
/// casts. Functions are not looked into, and expressions in a CASE are guarded by it.
fn risk(expr: &Expr, schema: &DFSchema) -> Option<Risk> {
    if matches!(expr, Expr::Case(_)) || !expr.any_column_refs() {
        return None;
    }
    let own = match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => match op {
            Operator::Plus | Operator::Minus | Operator::Multiply => {
                (is_exact(left, schema) && is_exact(right, schema)).then_some(Risk::OfType)
            }
            Operator::Divide | Operator::Modulo => {
                (is_exact(right, schema) && right.any_column_refs()).then_some(Risk::OfZero)
            }
            _ => None,
        },
        Expr::Cast(cast) => {
            let from = cast.expr.get_type(schema);
            from.is_ok_and(|from| !always_fits(&from, cast.field.data_type())).then_some(Risk::OfType)
        }
        _ => None,
    };
    let mut highest = own;
    let walked = expr.apply_children(|child| {
        highest = highest.max(risk(child, schema));
        Ok(TreeNodeRecursion::Continue)
    });
    walked.map_or(own, |_| highest)
}

fn is_exact(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|data_type| data_type.is_integer() || data_type.is_decimal())
}

/// Keeps CASE as it is: DataFusion turns a boolean CASE into ANDs and ORs, and computes all sides of these.
#[derive(Debug)]
pub struct KeepCase;

impl OptimizerRule for KeepCase {
    fn name(&self) -> &str {
        "keep_case"
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        plan.transform_down_with_subqueries(|node| {
            if matches!(node, LogicalPlan::Extension(_)) || !has_case(&node)? {
                return Ok(Transformed::no(node));
            }
            let (schema, names) = (input_schema(&node), NamePreserver::new(&node));
            node.map_expressions(|expr| {
                let name = names.save(&expr);
                let kept = expr.transform_down(|expr| Ok(kept(expr, &schema)))?;
                Ok(kept.update_data(|expr| name.restore(expr)))
            })
        })
    }
}

fn has_case(node: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    node.apply_expressions(|expr| {
        found |= expr.exists(|part| Ok(matches!(part, Expr::Case(_))))?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// `CASE WHEN x …` as `CASE true WHEN x …`, which is the same and is left alone, if a side may fail.
fn kept(expr: Expr, schema: &DFSchema) -> Transformed<Expr> {
    match expr {
        Expr::Case(case) if case.expr.is_none() && case_may_fail(&case, schema) => {
            Transformed::yes(Expr::Case(Case { expr: Some(Box::new(lit(true))), ..case }))
        }
        other => Transformed::no(other),
    }
}

fn case_may_fail(case: &Case, schema: &DFSchema) -> bool {
    let sides = case.when_then_expr.iter().map(|(_, then)| then).chain(&case.else_expr);
    sides.clone().any(|side| side.get_type(schema).is_ok_and(|data_type| data_type == DataType::Boolean))
        && sides
            .chain(case.when_then_expr.iter().map(|(when, _)| when))
            .any(|side| risk(side, schema).is_some())
}

type Rule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

/// A rule that moves projections, kept from moving projections that compute something below filters.
#[derive(Debug)]
pub struct BehindFilters(pub Rule);

impl PhysicalOptimizerRule for BehindFilters {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.optimize_with_context(plan, &ConfigOnlyContext::new(options))
    }

    fn optimize_with_context(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        context: &dyn PhysicalOptimizerContext,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let fenced = fence(plan, false)?;
        let done = self.0.optimize_with_context(fenced.data, context)?;
        if !fenced.transformed {
            return Ok(done);
        }
        Ok(done.transform_up(unfence)?.data)
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

/// Puts a fence, which projections are not moved through, above each filter below a projection that computes something.
fn fence(plan: Arc<dyn ExecutionPlan>, computed_above: bool) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let is_fenced = computed_above && plan.is::<FilterExec>();
    let computes = plan.downcast_ref::<ProjectionExec>().map(computes);
    let comes_through = |child: &Arc<dyn ExecutionPlan>| match computes {
        Some(computes) => computes || computed_above,
        // An operator with the columns of its input lets projections through, also if it renames columns.
        None => {
            let columns = |plan: &Arc<dyn ExecutionPlan>| plan.schema().fields().len();
            computed_above && !is_fenced && columns(child) == columns(&plan)
        }
    };
    let mut changed = false;
    let mut children = Vec::new();
    for child in plan.children() {
        let fenced = fence(Arc::clone(child), comes_through(child))?;
        changed |= fenced.transformed;
        children.push(fenced.data);
    }
    let plan = replace_children_if_necessary(plan, children)?;
    if is_fenced {
        return Ok(Transformed::yes(Arc::new(YieldExec::new(plan))));
    }
    Ok(Transformed::new_transformed(plan, changed))
}

/// Removes a fence; no other such operator is in the plan yet. Merges a projection into the filter below it.
fn unfence(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    if let (true, [child]) = (node.is::<YieldExec>(), &node.children()[..]) {
        return Ok(Transformed::yes(Arc::clone(child)));
    }
    let embedded = match node.downcast_ref::<ProjectionExec>() {
        Some(projection) => match projection.input().downcast_ref::<FilterExec>() {
            Some(filter) => try_embed_projection(projection, filter)?,
            None => None,
        },
        None => None,
    };
    Ok(embedded.map_or(Transformed::no(node), Transformed::yes))
}

fn computes(projection: &ProjectionExec) -> bool {
    projection.expr().iter().any(|column| !(column.expr.is::<Column>() || column.expr.is::<Literal>()))
}
