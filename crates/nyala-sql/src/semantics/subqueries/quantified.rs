//! ANY and ALL of rows: ANY is true if the comparison with some row is true, and otherwise unknown if one is unknown.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{ExprSchema, Result, ScalarValue};
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::logical_expr::expr::{InSubquery, SetComparison, SetQuantifier};
use datafusion::logical_expr::{
    Expr, LogicalPlan, LogicalPlanBuilder, Operator, Projection, Subquery, binary_expr, lit, not, when,
};

use super::super::driver::lower_operator;
use super::lowering::Lowering;
use super::outer_columns::named;
use super::settled;
use super::shapes::first_column;

impl Lowering<'_, '_> {
    pub fn comparison(&mut self, comparison: SetComparison) -> Result<Expr> {
        let SetComparison { expr, subquery, op, quantifier } = comparison;
        match (op, &quantifier) {
            (Operator::Eq, SetQuantifier::Any) => self.within(InSubquery { expr, subquery, negated: false }),
            (Operator::NotEq, SetQuantifier::All) => {
                self.within(InSubquery { expr, subquery, negated: true })
            }
            _ => {
                let all = quantifier == SetQuantifier::All;
                let Some(op) = (if all { op.negate() } else { Some(op) }) else {
                    return Ok(Expr::SetComparison(SetComparison { expr, subquery, op, quantifier }));
                };
                let any = self.some_row(*expr, op, &subquery)?;
                Ok(if all { not(any) } else { any })
            }
        }
    }

    /// Whether the comparison is true for some row. The compared value becomes an outer value of the
    /// subquery, so that the true and the unknown comparisons are counted for each distinct value.
    fn some_row(&mut self, expr: Expr, op: Operator, subquery: &Subquery) -> Result<Expr> {
        let prefix = self.shared.prefix();
        let (trues, unknowns) = (format!("{prefix}trues"), format!("{prefix}unknowns"));
        let compared = self.compared(expr, op, subquery, &format!("{prefix}answer"))?;
        let outer = self.outer(&compared, &prefix)?;
        let answers = settled(outer.depend(&compared)?, self.shared)?;
        let answer = named(answers.schema(), &format!("{prefix}answer"))?;
        let count = |condition: Expr| -> Result<Expr> {
            Ok(count_udaf().call(vec![when(condition, lit(1_i64)).end()?]))
        };
        let counts = vec![count(answer.clone())?.alias(&trues), count(answer.is_null())?.alias(&unknowns)];
        let groups = outer.columns_in(answers.schema())?;
        let counted = LogicalPlanBuilder::from(answers).aggregate(groups, counts)?.build()?;
        let (trues, unknowns) = (named(counted.schema(), &trues)?, named(counted.schema(), &unknowns)?);
        self.join(&outer, counted, Vec::new())?;
        let unknown = Expr::Literal(ScalarValue::Boolean(None), None);
        // Both counts are NULL for values without a row.
        when(trues.gt(lit(0_i64)), lit(true)).when(unknowns.gt(lit(0_i64)), unknown).otherwise(lit(false))
    }

    /// The rows of the subquery, each compared with a value of the outer query, as a plan with one column `name`.
    fn compared(&self, expr: Expr, op: Operator, subquery: &Subquery, name: &str) -> Result<LogicalPlan> {
        let schema = self.input.schema();
        let outer = expr.transform_up(|part| match part {
            Expr::Column(column) => {
                let field = Arc::clone(schema.field_from_column(&column)?);
                Ok(Transformed::yes(Expr::OuterReferenceColumn(field, column)))
            }
            other => Ok(Transformed::no(other)),
        })?;
        let rows = &subquery.subquery;
        let compared = binary_expr(outer.data, op, first_column(rows));
        let compared = lower_operator(compared, rows.schema(), self.shared.config)?;
        let answers = Projection::try_new(vec![compared.alias(name)], Arc::clone(rows))?;
        Ok(LogicalPlan::Projection(answers))
    }
}
