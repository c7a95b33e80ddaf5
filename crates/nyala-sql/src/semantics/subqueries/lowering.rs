//! Replaces the subqueries of expressions by columns of plans that the input of the expressions is joined to.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, JoinType, Result};
use datafusion::logical_expr::expr::{InSubquery, SetComparison};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Projection};

use super::super::varying::{computed_once, is_volatile_plan, varies};
use super::Shared;
use super::dependent::{Outer, with_row_numbers};
use super::outer_columns::outer_columns;

/// Replaces subqueries in expressions over `input`, which is joined to the subqueries' values.
pub struct Lowering<'a, 'c> {
    pub input: LogicalPlan,
    /// The input before any value was joined to it: combinations of outer values are taken from it.
    base: LogicalPlan,
    /// Whether copies of the base certainly have the same rows.
    is_base_steady: bool,
    pub shared: &'a mut Shared<'c>,
    /// Whether the input has more columns than it had at first.
    pub is_wider: bool,
    pub changed: bool,
    /// Whether DataFusion can join correlated aggregates here.
    pub takes_totals: bool,
}

impl<'a, 'c> Lowering<'a, 'c> {
    pub fn new(input: LogicalPlan, shared: &'a mut Shared<'c>, takes_totals: bool) -> Self {
        let base = input.clone();
        Self { base, is_base_steady: false, input, shared, is_wider: false, changed: false, takes_totals }
    }

    /// Lowers the subqueries of an expression whose exact value is needed, with unknown apart from false.
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

    /// Lowers a value that is compared with the rows of a subquery. It goes into the condition of a join,
    /// where DataFusion joins no correlated aggregates.
    pub fn operand(&mut self, expr: Expr) -> Result<Expr> {
        let takes_totals = std::mem::replace(&mut self.takes_totals, false);
        let value = self.value(expr);
        self.takes_totals = takes_totals;
        value
    }

    /// Adds the value to the input as a column: it is computed once for each row, and no rule makes a constant of it.
    pub fn as_column(&mut self, value: Expr) -> Result<Expr> {
        let name = format!("{}value", self.shared.prefix());
        let input = self.take_input()?;
        let mut columns: Vec<Expr> = input.schema().columns().into_iter().map(Expr::Column).collect();
        columns.push(value.alias(&name));
        self.set_input(LogicalPlan::Projection(Projection::try_new(columns, Arc::new(input))?));
        Ok(Expr::Column(Column::new_unqualified(name)))
    }

    /// The outer columns of a subquery, and their combinations. A subquery that computes `random()` or the
    /// like is computed for each row of the outer query.
    pub fn outer(&mut self, subquery: &LogicalPlan, prefix: &str) -> Result<Outer> {
        let columns = outer_columns(subquery)?;
        if !columns.iter().any(|column| self.input.schema().has_column(column)) {
            return Outer::new(subquery, &self.input, prefix);
        }
        self.steady_base()?;
        if is_volatile_plan(subquery)? {
            let row = Column::new_unqualified(format!("{prefix}row"));
            let numbered = with_row_numbers(self.take_input()?, &row.name)?;
            self.set_input(computed_once(numbered)?);
            return Outer::of_rows(row, subquery, &self.input, prefix);
        }
        // The subquery may use the value of another subquery, which only the wider input has.
        let is_of_base = |column: &Column| {
            self.base.schema().has_column(column) || !self.input.schema().has_column(column)
        };
        if columns.iter().all(is_of_base) {
            return Outer::new(subquery, &self.base, prefix);
        }
        self.input = computed_once(self.take_input()?)?;
        Outer::new(subquery, &self.input, prefix)
    }

    /// Makes sure that all copies of the base, also that in the input, have the same rows.
    fn steady_base(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.is_base_steady, true) || !varies(&self.base)? {
            return Ok(());
        }
        let steady = computed_once(self.base.clone())?;
        let base = std::mem::replace(&mut self.base, steady.clone());
        let input = self.take_input()?.transform_down(|node| {
            Ok(match node == base {
                true => Transformed::new(steady.clone(), true, TreeNodeRecursion::Stop),
                false => Transformed::no(node),
            })
        })?;
        self.input = input.data;
        Ok(())
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

    /// Takes the input, to build a plan over it for [`set_input`](Self::set_input).
    pub fn take_input(&mut self) -> Result<LogicalPlan> {
        Ok(std::mem::replace(&mut self.input, LogicalPlanBuilder::empty(false).build()?))
    }

    /// Sets the input to a plan with the columns of the former one, and more.
    pub fn set_input(&mut self, wider: LogicalPlan) {
        self.input = wider;
        (self.is_wider, self.changed) = (true, true);
    }
}
