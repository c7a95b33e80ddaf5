//! Subqueries in the conditions of filters, where an unknown condition counts as false.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison, SetQuantifier};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, Filter, LogicalPlan, LogicalPlanBuilder, Operator, Subquery, lit, not,
};

use super::super::guards::is_volatile;
use super::Shared;
use super::lowering::Lowering;
use super::shapes::{is_of_one_row, is_plain_column, joins_by_conditions, without_limit};
use super::single::or_null;

/// A filter treats unknown as false, so that IN need not distinguish the two below AND and OR.
pub fn lower_filter(filter: Filter, shared: &mut Shared<'_>) -> Result<Transformed<LogicalPlan>> {
    let columns = filter.input.schema().columns();
    let input = Arc::unwrap_or_clone(filter.input);
    let mut lowering = Lowering::new(input, shared, true);
    let parts = split_conjunction_owned(filter.predicate).into_iter();
    let parts = parts.map(|part| lowering.condition(part, true)).collect::<Result<Vec<_>>>()?;
    let predicate = conjunction(parts).unwrap_or_else(|| lit(true));
    let Lowering { input, is_wider, changed, .. } = lowering;
    let filtered = LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(input))?);
    let plan = match is_wider {
        false => filtered,
        true => LogicalPlanBuilder::from(filtered).project(columns.into_iter().map(Expr::Column))?.build()?,
    };
    Ok(match changed {
        true => Transformed::yes(plan),
        false => Transformed::no(plan),
    })
}

impl Lowering<'_, '_> {
    /// A condition of a filter, for which unknown counts as false. `is_whole` says that the filter drops all
    /// rows for which the condition is not true.
    fn condition(&mut self, expr: Expr, is_whole: bool) -> Result<Expr> {
        match expr {
            Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) => {
                let is_whole = is_whole && op == Operator::And;
                let (left, right) = (self.condition(*left, is_whole)?, self.condition(*right, is_whole)?);
                Ok(Expr::BinaryExpr(BinaryExpr { left: Box::new(left), op, right: Box::new(right) }))
            }
            Expr::Not(inner) if matches!(*inner, Expr::Exists(_) | Expr::InSubquery(_)) => {
                let negated = match *inner {
                    Expr::Exists(Exists { subquery, negated }) => {
                        Expr::Exists(Exists { subquery, negated: !negated })
                    }
                    Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
                        Expr::InSubquery(InSubquery { expr, subquery, negated: !negated })
                    }
                    other => not(other),
                };
                self.changed = true;
                self.condition(negated, is_whole)
            }
            Expr::Exists(exists) if !is_of_one_row(&exists.subquery.subquery) => {
                let subquery = Subquery {
                    subquery: Arc::new(without_limit(&exists.subquery.subquery)),
                    ..exists.subquery
                };
                let exists = Exists { subquery, negated: exists.negated };
                match joins_by_conditions(&exists.subquery)? {
                    true => Ok(Expr::Exists(exists)),
                    false => self.exists(exists),
                }
            }
            Expr::InSubquery(within) => self.membership(within, is_whole),
            Expr::SetComparison(SetComparison {
                expr,
                subquery,
                op: Operator::Eq,
                quantifier: SetQuantifier::Any,
            }) => {
                self.changed = true;
                self.condition(Expr::InSubquery(InSubquery { expr, subquery, negated: false }), is_whole)
            }
            other => self.value(other),
        }
    }

    /// IN and NOT IN as a condition: left to DataFusion, if its join has their meaning.
    fn membership(&mut self, within: InSubquery, is_whole: bool) -> Result<Expr> {
        let InSubquery { expr, subquery, negated } = within;
        let expr = Box::new(self.operand(*expr)?);
        let within = self.compared_as_equal(InSubquery { expr, subquery, negated })?;
        let rows = within.subquery.subquery.schema();
        let may_be_null = rows.fields().iter().any(|field| field.is_nullable())
            || within.expr.nullable(self.input.schema()).unwrap_or(true);
        let asks_outside = !within.subquery.outer_ref_columns.is_empty();
        // An anti-join that handles NULL compares one column of each side.
        let is_anti_join = is_whole && !asks_outside && within.expr.any_column_refs();
        let knows_null = within.negated && may_be_null;
        let is_right = !knows_null || is_anti_join;
        if !is_right || !joins_by_conditions(&within.subquery)? {
            return self.within(within);
        }
        // DataFusion 55 decides by the columns of both sides alone whether its anti-join must handle NULL, and keeps rows whose
        // expression is NULL over columns that are never NULL (<https://github.com/apache/datafusion/issues/25024>; no release has
        // the fix yet). It decides after constants are folded: an expression that may be NULL here may not be then, or may have no
        // column left and is then compared without NULL, too. So the expression becomes a column itself, and `or_null` keeps cubes
        // from putting the expression in the place of the column again. A volatile expression is computed once for each row.
        if !is_volatile(&within.expr) && (!knows_null || is_plain_column(&within.expr, &self.input)) {
            return Ok(Expr::InSubquery(within));
        }
        let InSubquery { expr, subquery, negated } = within;
        let expr = Box::new(self.as_column(or_null(*expr))?);
        Ok(Expr::InSubquery(InSubquery { expr, subquery, negated }))
    }
}
