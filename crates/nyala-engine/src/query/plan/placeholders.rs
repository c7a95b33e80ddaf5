//! One type for each parameter: the first place where a type is known decides, as in PostgreSQL.
//!
//! ```text
//! WHERE id > $1 AND id < $1 + 5      $1 has the type of `id`, and not that of 5
//! ```

use std::collections::HashMap;

use arrow::datatypes::FieldRef;
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::{Expr, LogicalPlan};

/// The types that parameters get first, and whether they get others somewhere.
#[derive(Default)]
struct Known {
    first: HashMap<String, FieldRef>,
    differ: bool,
}

/// Gives parameters of several types the first of them.
pub fn one_type_each(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut known = Known::default();
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                if let Expr::Placeholder(Placeholder { id, field: Some(field) }) = part {
                    let first = known.first.entry(id.clone()).or_insert_with(|| field.clone());
                    known.differ |= first.data_type() != field.data_type();
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    if !known.differ {
        return Ok(plan);
    }
    let rewritten = plan.transform_up_with_subqueries(|node| {
        let changed =
            node.map_expressions(|expr| expr.transform_up(|part| Ok(of_first(part, &known.first))))?;
        changed.map_data(|node| node.recompute_schema())
    })?;
    Ok(rewritten.data)
}

fn of_first(part: Expr, first: &HashMap<String, FieldRef>) -> Transformed<Expr> {
    match part {
        Expr::Placeholder(Placeholder { id, field }) => match first.get(&id) {
            Some(known) if Some(known) != field.as_ref() => {
                let field = Some(known.clone());
                Transformed::yes(Expr::Placeholder(Placeholder { id, field }))
            }
            _ => Transformed::no(Expr::Placeholder(Placeholder { id, field })),
        },
        other => Transformed::no(other),
    }
}
