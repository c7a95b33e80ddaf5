//! ANY and ALL of rows: true if the comparison with some row is, unknown if one is unknown.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison, SetQuantifier};
use datafusion::logical_expr::{Expr, Filter, LogicalPlan, Operator, Subquery, binary_expr, lit, not, when};

use super::super::driver::lower_operator;
use super::lowering::Lowering;
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

    fn some_row(&mut self, expr: Expr, op: Operator, subquery: &Subquery) -> Result<Expr> {
        let schema = self.input.schema();
        let outer = expr.transform_up(|part| match part {
            Expr::Column(column) => {
                let field = Arc::clone(schema.field_from_column(&column)?);
                Ok(Transformed::yes(Expr::OuterReferenceColumn(field, column)))
            }
            other => Ok(Transformed::no(other)),
        })?;
        let compared = binary_expr(outer.data, op, first_column(&subquery.subquery));
        let compared = lower_operator(compared, subquery.subquery.schema(), self.shared.config)?;
        let rows_where = |condition: Expr| {
            let filter = Filter::try_new(condition, Arc::clone(&subquery.subquery))?;
            let subquery = Subquery { subquery: Arc::new(LogicalPlan::Filter(filter)), ..subquery.clone() };
            Ok::<_, datafusion::common::DataFusionError>(Exists { subquery, negated: false })
        };
        let is_true = self.exists(rows_where(compared.clone())?)?;
        let is_unknown = self.exists(rows_where(compared.is_null())?)?;
        let unknown = Expr::Literal(ScalarValue::Boolean(None), None);
        when(is_true, lit(true)).when(is_unknown, unknown).otherwise(lit(false))
    }
}
