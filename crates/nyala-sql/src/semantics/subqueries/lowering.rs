//! Replaces the subqueries of expressions by columns of plans that the input of the expressions is joined to.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, JoinType, Result};
use datafusion::logical_expr::expr::{InSubquery, SetComparison};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Projection};

use super::Shared;
use super::dependent::Outer;
use super::outer_columns::outer_columns;

/// Replaces subqueries in expressions over `input`, which is joined to their values.
pub struct Lowering<'a, 'c> {
    pub input: LogicalPlan,
    /// The input before it was joined to any value: a combination of outer values is found there.
    base: LogicalPlan,
    pub shared: &'a mut Shared<'c>,
    /// Whether the input has more columns than it had at first.
    pub is_wider: bool,
    pub changed: bool,
    /// Whether DataFusion joins totals here.
    pub takes_totals: bool,
}

impl<'a, 'c> Lowering<'a, 'c> {
    pub fn new(input: LogicalPlan, shared: &'a mut Shared<'c>, takes_totals: bool) -> Self {
        Self { base: input.clone(), input, shared, is_wider: false, changed: false, takes_totals }
    }

    /// An expression whose value is needed.
    pub fn value(&mut self, expr: Expr) -> Result<Expr> {
        let lowered = expr.transform_down(|part| {
            let value = match part {
                Expr::Exists(exists) => self.exists(exists)?,
                Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
                    let expr = Box::new(self.operand(*expr)?);
                    self.within(InSubquery { expr, subquery, negated })?
                }
                Expr::SetComparison(SetComparison { expr, subquery, op, quantifier }) => {
                    let expr = Box::new(self.operand(*expr)?);
                    self.comparison(SetComparison { expr, subquery, op, quantifier })?
                }
                Expr::ScalarSubquery(subquery) => self.scalar(subquery)?,
                other => return Ok(Transformed::no(other)),
            };
            Ok(Transformed::new(value, true, TreeNodeRecursion::Jump))
        })?;
        Ok(lowered.data)
    }

    /// A value that is compared with the rows of a subquery. It comes into the condition of a join, where DataFusion joins no totals.
    pub fn operand(&mut self, expr: Expr) -> Result<Expr> {
        let takes_totals = std::mem::replace(&mut self.takes_totals, false);
        let value = self.value(expr);
        self.takes_totals = takes_totals;
        value
    }

    /// The value as a column of the input: it is computed once for each row, and no rule makes a constant of it.
    pub fn as_column(&mut self, value: Expr) -> Result<Expr> {
        let name = format!("{}value", self.shared.prefix());
        let input = self.take_input()?;
        let mut columns: Vec<Expr> = input.schema().columns().into_iter().map(Expr::Column).collect();
        columns.push(value.alias(&name));
        self.set_input(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(input))?));
        Ok(Expr::Column(Column::new_unqualified(name)))
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

    /// The input, for a plan over it that [`set_input`](Self::set_input) puts in its place.
    pub fn take_input(&mut self) -> Result<LogicalPlan> {
        Ok(std::mem::replace(&mut self.input, LogicalPlanBuilder::empty(false).build()?))
    }

    /// Takes a plan with the columns of the input, and more, in the place of the input.
    pub fn set_input(&mut self, wider: LogicalPlan) {
        self.input = wider;
        (self.is_wider, self.changed) = (true, true);
    }
}
