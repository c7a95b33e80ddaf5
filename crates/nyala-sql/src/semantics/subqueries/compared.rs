//! Gives the sides of IN the types that `=` compares them in.
//!
//! DataFusion chooses the type of both sides of IN without the meanings that a comparison has: a decimal for a decimal and a floating-point
//! number, a single for a whole number and a single. It compares intervals month by month, and takes the time of a clock for one in UTC.
//!
//! Distinct rows must be distinct in the type that is compared: several bigints, or decimals, may be one floating-point number, and a row
//! of the outer query would be joined to each of them.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::expr::InSubquery;
use datafusion::logical_expr::type_coercion::binary::comparison_coercion;
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, Projection, Subquery, binary_expr,
};

use super::super::driver::lower_operator;
use super::lowering::Lowering;

/// The name of the subquery's column in a comparison with it. Other columns that are made here have a number in their names.
const ROW: &str = "__outer_row";

impl Lowering<'_, '_> {
    /// IN with both sides converted to the one type in which `=` compares them. Without such a type it stays as it is: DataFusion refuses it.
    pub fn compared_as_equal(&mut self, within: InSubquery) -> Result<InSubquery> {
        let rows = Arc::clone(&within.subquery.subquery);
        let Ok([column]) = <[Column; 1]>::try_from(rows.schema().columns()) else { return Ok(within) };
        let Some(field) = rows.schema().fields().first() else { return Ok(within) };
        let field = field.as_ref().clone().with_name(ROW);
        let mut schema = DFSchema::clone(self.input.schema());
        schema.merge(&DFSchema::from_unqualified_fields(vec![field].into(), HashMap::new())?);
        let row = Expr::Column(Column::new_unqualified(ROW));
        let equal = binary_expr((*within.expr).clone(), Operator::Eq, row.clone());
        let equal = lower_operator(equal, &schema, self.shared.config)?;
        let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = equal else {
            return Ok(within);
        };
        let Some((value, cell)) = of_one_type(*left, *right, &schema)? else { return Ok(within) };
        if value == *within.expr && cell == row {
            return Ok(within);
        }
        self.changed = true;
        let InSubquery { subquery, negated, .. } = within;
        let subquery = if cell == row { subquery } else { with_cell(subquery, &column, cell)? };
        Ok(InSubquery { expr: Box::new(value), subquery, negated })
    }
}

/// Both sides in the type that DataFusion compares them in; none if it refuses to.
fn of_one_type(left: Expr, right: Expr, schema: &DFSchema) -> Result<Option<(Expr, Expr)>> {
    let (Ok(one), Ok(other)) = (left.get_type(schema), right.get_type(schema)) else { return Ok(None) };
    let Some(common) = comparison_coercion(&one, &other) else { return Ok(None) };
    Ok(Some((left.cast_to(&common, schema)?, right.cast_to(&common, schema)?)))
}

/// The subquery with its column replaced by `cell`, which is computed from it, under the same name.
fn with_cell(subquery: Subquery, column: &Column, cell: Expr) -> Result<Subquery> {
    let cell = cell.transform_up(|part| match part {
        Expr::Column(named) if named.name == ROW => Ok(Transformed::yes(Expr::Column(column.clone()))),
        other => Ok(Transformed::no(other)),
    })?;
    let cell = cell.data.alias_qualified(column.relation.clone(), &column.name);
    let plan = Projection::try_new(vec![cell], Arc::clone(&subquery.subquery))?;
    Ok(Subquery { subquery: Arc::new(LogicalPlan::Projection(plan)), ..subquery })
}
