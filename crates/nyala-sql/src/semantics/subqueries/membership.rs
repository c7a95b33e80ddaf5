//! IN and NOT IN as values: unknown if no row has the value, but the value or a row is NULL.
//!
//! Three facts decide: whether a row has the value, whether there is a row, and whether one is NULL. The
//! first fact concerns one value, the others concern all rows, so that no single join finds them all:
//!
//! - **apart**: one join with the counts of the rows, and one with the distinct values. Both stream, but the plan has the subquery
//!   twice, subqueries within it four times, and so on.
//! - **together**: a full join with the distinct values, NULL among them. All of these are in its result, with or without a row of the
//!   outer query, and windows over it count them. The plan has the subquery once, but the windows hold all rows of the outer query
//!   in memory.
//!
//! Rows are joined apart, unless the subquery holds [`MAX_LEVELS`] levels of such subqueries already: so the plan grows with the
//! statement, and not with a power of its depth.

use std::sync::Arc;

use datafusion::common::tree_node::{TreeNodeRecursion, TreeNodeVisitor};
use datafusion::common::{JoinType, Result, ScalarValue};
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::logical_expr::expr::{InSubquery, WindowFunction};
use datafusion::logical_expr::{
    Expr, ExprFunctionExt, LogicalPlan, LogicalPlanBuilder, Subquery, Window, WindowFunctionDefinition, lit,
    not, when,
};

use super::super::guards::is_volatile;
use super::super::varying::computed_once;
use super::dependent::Outer;
use super::lowering::Lowering;
use super::outer_columns::{named, same};
use super::shapes::first_column;
use super::{PREFIX, settled};

/// Most levels of nested subqueries of which a plan has two copies each.
const MAX_LEVELS: usize = 2;

/// The suffix of the column that counts values, which only `apart` makes.
const VALUES: &str = "values";

/// The rows of a subquery for all combinations of outer values.
struct Rows {
    prefix: String,
    outer: Outer,
    plan: LogicalPlan,
    /// The subquery's column, in the type in which it is compared.
    value: Expr,
}

/// The facts that decide, as expressions over the joined input. None of them is ever unknown.
struct Facts {
    has_value: Expr,
    has_no_row: Expr,
    /// Valid only if there is a row.
    has_null: Expr,
}

impl Lowering<'_, '_> {
    /// Lowers IN or NOT IN to an expression.
    pub fn within(&mut self, within: InSubquery) -> Result<Expr> {
        self.changed = true;
        let InSubquery { expr, subquery, negated } = self.compared_as_equal(within)?;
        // A join would compute a volatile expression for each pair of rows.
        let expr = if is_volatile(&expr) { self.as_column(*expr)? } else { *expr };
        let rows = self.rows_of(&subquery)?;
        let facts = match levels(&rows.plan)? < MAX_LEVELS {
            true => self.apart(&expr, rows)?,
            false => self.together(&expr, rows)?,
        };
        let unknown = Expr::Literal(ScalarValue::Boolean(None), None);
        let is_in = when(facts.has_value, lit(true))
            .when(facts.has_no_row, lit(false))
            .when(expr.is_null().or(facts.has_null), unknown)
            .otherwise(lit(false))?;
        Ok(if negated { not(is_in) } else { is_in })
    }

    fn rows_of(&mut self, subquery: &Subquery) -> Result<Rows> {
        let prefix = self.shared.prefix();
        let plan = subquery.subquery.as_ref();
        let outer = self.outer(plan, &prefix)?;
        let value = first_column(plan);
        let plan = settled(outer.depend(plan)?, self.shared)?;
        Ok(Rows { prefix, outer, plan, value })
    }

    fn apart(&mut self, expr: &Expr, rows: Rows) -> Result<Facts> {
        let Rows { prefix, outer, plan, value } = rows;
        // The counts and the distinct values must come from the same rows.
        let plan = computed_once(plan)?;
        let column = |name: &str| format!("{prefix}{name}");
        let groups = outer.columns_in(plan.schema())?;
        let counts = vec![
            count_udaf().call(vec![lit(1_i64)]).alias(column("rows")),
            count_udaf().call(vec![value.clone()]).alias(column(VALUES)),
        ];
        let counted = LogicalPlanBuilder::from(plan.clone()).aggregate(groups.clone(), counts)?.build()?;
        let (rows, known) =
            (named(counted.schema(), &column("rows"))?, named(counted.schema(), &column(VALUES))?);
        self.join(&outer, counted, Vec::new())?;
        let columns = groups.into_iter().chain([value.clone().alias(column("value"))]);
        let values = LogicalPlanBuilder::from(plan)
            .filter(value.is_not_null())?
            .project(columns)?
            .distinct()?
            .build()?;
        let values = outer.renamed(values, "v")?;
        let value = named(values.schema(), &column("value"))?;
        let is_value = same(expr.clone(), value.clone());
        self.join(&outer.with_suffix("v"), values, vec![is_value])?;
        Ok(Facts {
            has_value: value.is_not_null(),
            // A combination of outer values without rows has no count.
            has_no_row: rows.clone().is_null().or(rows.clone().eq(lit(0_i64))),
            has_null: known.lt(rows),
        })
    }

    fn together(&mut self, expr: &Expr, rows: Rows) -> Result<Facts> {
        let Rows { prefix, outer, plan, value } = rows;
        let column = |name: &str| format!("{prefix}{name}");
        let values = values_of(&outer, plan, value, &column("value"), &column("copies"))?;
        let (value, copies) =
            (named(values.schema(), &column("value"))?, named(values.schema(), &column("copies"))?);
        let mut conditions = outer.belong(values.schema())?;
        conditions.push(same(expr.clone(), value.clone()));
        let input = self.take_input()?;
        let mut columns: Vec<Expr> = input.schema().columns().into_iter().map(Expr::Column).collect();
        columns.push(lit(true).alias(column("here")));
        let joined = LogicalPlanBuilder::from(input)
            .project(columns)?
            .join_on(values, JoinType::Full, conditions)?
            .build()?;
        let is_of_input = named(joined.schema(), &column("here"))?.is_not_null();
        let combination = outer.of_either(joined.schema(), &is_of_input)?;
        let count = |counted: Expr| -> Result<Expr> {
            let count = WindowFunctionDefinition::AggregateUDF(count_udaf());
            Expr::from(WindowFunction::new(count, vec![counted])).partition_by(combination.clone()).build()
        };
        let is_null = copies.clone().is_not_null().and(value.is_null());
        let windows = vec![
            count(copies.clone())?.alias(column("rows")),
            count(when(is_null, lit(1_i64)).end()?)?.alias(column("nulls")),
        ];
        let counted = LogicalPlan::Window(Window::try_new(windows, Arc::new(joined))?);
        let (rows, nulls) =
            (named(counted.schema(), &column("rows"))?, named(counted.schema(), &column("nulls"))?);
        self.set_input(LogicalPlanBuilder::from(counted).filter(is_of_input)?.build()?);
        Ok(Facts {
            // The join matches NULL with NULL, which is no match for IN.
            has_value: expr.clone().is_not_null().and(copies.is_not_null()),
            has_no_row: rows.eq(lit(0_i64)),
            has_null: nulls.gt(lit(0_i64)),
        })
    }
}

/// The distinct values of each combination of outer values, NULL among them, and the number of rows with each.
fn values_of(outer: &Outer, plan: LogicalPlan, value: Expr, name: &str, copies: &str) -> Result<LogicalPlan> {
    let columns = outer.columns_in(plan.schema())?.into_iter().chain([value.alias(name)]);
    let rows = LogicalPlanBuilder::from(plan).project(columns)?.build()?;
    let groups: Vec<Expr> = rows.schema().columns().into_iter().map(Expr::Column).collect();
    let counts = vec![count_udaf().call(vec![lit(1_i64)]).alias(copies)];
    LogicalPlanBuilder::from(rows).aggregate(groups, counts)?.build()
}

/// The deepest nesting of subqueries in a plan that were joined apart.
fn levels(plan: &LogicalPlan) -> Result<usize> {
    let mut levels = Levels { open: 0, most: 0 };
    plan.visit_with_subqueries(&mut levels)?;
    Ok(levels.most)
}

struct Levels {
    /// The nesting around the visited node.
    open: usize,
    most: usize,
}

impl<'n> TreeNodeVisitor<'n> for Levels {
    type Node = LogicalPlan;

    fn f_down(&mut self, node: &'n LogicalPlan) -> Result<TreeNodeRecursion> {
        self.open += usize::from(counts_values(node));
        self.most = self.most.max(self.open);
        Ok(TreeNodeRecursion::Continue)
    }

    fn f_up(&mut self, node: &'n LogicalPlan) -> Result<TreeNodeRecursion> {
        self.open -= usize::from(counts_values(node));
        Ok(TreeNodeRecursion::Continue)
    }
}

/// Whether the node is the count of values that `apart` makes.
fn counts_values(node: &LogicalPlan) -> bool {
    let LogicalPlan::Aggregate(aggregate) = node else { return false };
    let is_count = |expr: &Expr| match expr {
        Expr::Alias(alias) => alias.name.starts_with(PREFIX) && alias.name.ends_with(VALUES),
        _ => false,
    };
    aggregate.aggr_expr.iter().any(is_count)
}
