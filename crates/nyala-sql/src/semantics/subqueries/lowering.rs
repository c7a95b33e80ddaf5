//! Replaces the subqueries of expressions by columns of plans that the input of the expressions is joined to.

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, JoinType, Result};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};

use super::Shared;
use super::dependent::{Outer, outer_columns};

/// Replaces subqueries in expressions over `input`, which is joined to their values.
pub struct Lowering<'a, 'c> {
    pub input: LogicalPlan,
    /// The input before it was joined to any value: a combination of outer values is found there.
    base: LogicalPlan,
    pub shared: &'a mut Shared<'c>,
    pub joins: usize,
    pub changed: bool,
    /// Whether DataFusion joins totals here.
    pub takes_totals: bool,
}

impl<'a, 'c> Lowering<'a, 'c> {
    pub fn new(input: LogicalPlan, shared: &'a mut Shared<'c>, takes_totals: bool) -> Self {
        Self { base: input.clone(), input, shared, joins: 0, changed: false, takes_totals }
    }

    /// An expression whose value is needed.
    pub fn value(&mut self, expr: Expr) -> Result<Expr> {
        let lowered = expr.transform_up(|part| match part {
            Expr::Exists(exists) => Ok(Transformed::yes(self.exists(exists)?)),
            Expr::InSubquery(within) => Ok(Transformed::yes(self.within(within)?)),
            Expr::SetComparison(comparison) => Ok(Transformed::yes(self.comparison(comparison)?)),
            Expr::ScalarSubquery(subquery) => {
                let value = self.scalar(subquery)?;
                Ok(Transformed::yes(value))
            }
            other => Ok(Transformed::no(other)),
        })?;
        Ok(lowered.data)
    }

    /// The plan that has the outer columns of a subquery. The value of one subquery may be compared with the rows of another.
    pub fn asked(&self, subquery: &LogicalPlan) -> Result<&LogicalPlan> {
        let is_of = |column: &Column| {
            self.base.schema().has_column(column) || !self.input.schema().has_column(column)
        };
        let columns = outer_columns(subquery)?;
        Ok(if columns.iter().all(is_of) { &self.base } else { &self.input })
    }

    /// Joins the input to a plan with at most one row for each combination of outer values.
    pub fn join(&mut self, outer: &Outer, values: LogicalPlan, more: Vec<Expr>) -> Result<()> {
        let mut belong = outer.belong(values.schema())?;
        belong.extend(more);
        let builder = LogicalPlanBuilder::from(self.take_input()?);
        let joined = match belong.is_empty() {
            true => builder.cross_join(values)?.build()?,
            false => builder.join_on(values, JoinType::Left, belong)?.build()?,
        };
        self.set_input(joined);
        Ok(())
    }

    /// The input, for a join that [`set_input`](Self::set_input) puts in its place.
    pub fn take_input(&mut self) -> Result<LogicalPlan> {
        Ok(std::mem::replace(&mut self.input, LogicalPlanBuilder::empty(false).build()?))
    }

    /// Takes the input joined to the values of a subquery in the place of the input.
    pub fn set_input(&mut self, joined: LogicalPlan) {
        self.input = joined;
        (self.joins, self.changed) = (self.joins + 1, true);
    }
}
