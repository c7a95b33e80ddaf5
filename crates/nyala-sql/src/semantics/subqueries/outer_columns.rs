//! Columns of an outer query that a subquery uses.

use std::sync::Arc;

use arrow::datatypes::FieldRef;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::{Expr, LogicalPlan, Operator, Subquery, binary_expr};

/// The condition that two values are equal, or both NULL.
pub fn same(one: Expr, other: Expr) -> Expr {
    binary_expr(one, Operator::IsNotDistinctFrom, other)
}

/// The column of this name, with any qualifier.
pub fn named(schema: &DFSchema, name: &str) -> Result<Expr> {
    let (qualifier, field) = schema.qualified_field_with_unqualified_name(name)?;
    Ok(Expr::Column(Column::new(qualifier.cloned(), field.name())))
}

/// The outer columns that a plan uses, also in its subqueries.
pub fn outer_columns(plan: &LogicalPlan) -> Result<Vec<Column>> {
    let mut columns = Vec::new();
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                if let Expr::OuterReferenceColumn(_, column) = expr {
                    columns.push(column.clone());
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(columns)
}

/// The subquery with some of its outer columns replaced, maybe by columns of other types.
pub fn asking_for(
    subquery: &Subquery,
    column_of: &impl Fn(&Column) -> Option<(FieldRef, Column)>,
) -> Result<Subquery> {
    let rename = |expr: Expr| match expr {
        Expr::OuterReferenceColumn(field, column) => match column_of(&column) {
            Some((field, column)) => Transformed::yes(Expr::OuterReferenceColumn(field, column)),
            None => Transformed::no(Expr::OuterReferenceColumn(field, column)),
        },
        other => Transformed::no(other),
    };
    let plan = subquery.subquery.as_ref().clone().transform_up_with_subqueries(|node| {
        node.map_expressions(|expr| {
            let expr = expr.transform_up(|expr| {
                let mut renamed = rename(expr);
                if let Some(within) = subquery_of(&mut renamed.data) {
                    within.outer_ref_columns =
                        within.outer_ref_columns.drain(..).map(|asked| rename(asked).data).collect();
                }
                Ok(renamed)
            })?;
            Ok(expr)
        })
    })?;
    Ok(Subquery {
        outer_ref_columns: subquery
            .outer_ref_columns
            .iter()
            .map(|asked| rename(asked.clone()).data)
            .collect(),
        subquery: Arc::new(plan.data),
        spans: subquery.spans.clone(),
    })
}

/// The subquery in an expression, if it is one with a subquery.
pub fn subquery_of(expr: &mut Expr) -> Option<&mut Subquery> {
    match expr {
        Expr::Exists(exists) => Some(&mut exists.subquery),
        Expr::InSubquery(within) => Some(&mut within.subquery),
        Expr::SetComparison(comparison) => Some(&mut comparison.subquery),
        Expr::ScalarSubquery(subquery) => Some(subquery),
        _ => None,
    }
}
