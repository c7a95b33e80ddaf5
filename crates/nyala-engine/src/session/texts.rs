//! Constant texts that stand for other values than a cast would make of them.

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Cast, Expr, LogicalPlan, TryCast};
use datafusion::optimizer::AnalyzerRule;

use super::arrays::array_of_text;
use super::bytes::bytes_of_text;

/// Reads constant texts as PostgreSQL does where bytes or arrays are wanted. A cast takes the bytes of the text itself, and makes an
/// array of it that has one element.
#[derive(Debug)]
pub struct ConstantTexts;

impl AnalyzerRule for ConstantTexts {
    fn name(&self) -> &str {
        "constant_texts"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let read = plan.transform_up_with_subqueries(|node| {
            let names = NamePreserver::new(&node);
            let read = node.map_expressions(|expr| {
                let name = names.save(&expr);
                Ok(expr.transform_up(value_of)?.update_data(|expr| name.restore(expr)))
            })?;
            if read.transformed { read.map_data(LogicalPlan::recompute_schema) } else { Ok(read) }
        })?;
        Ok(read.data)
    }
}

fn value_of(expr: Expr) -> Result<Transformed<Expr>> {
    let (text, data_type) = match &expr {
        Expr::Cast(Cast { expr, field }) | Expr::TryCast(TryCast { expr, field }) => {
            (expr, field.data_type())
        }
        _ => return Ok(Transformed::no(expr)),
    };
    let Expr::Literal(text, _) = text.as_ref() else { return Ok(Transformed::no(expr)) };
    let read = bytes_of_text(text, data_type).or_else(|| array_of_text(text, data_type));
    let value = match (read, &expr) {
        (None, _) => return Ok(Transformed::no(expr)),
        (Some(Ok(value)), _) => value,
        (Some(Err(_)), Expr::TryCast(_)) => ScalarValue::try_new_null(data_type)?,
        (Some(Err(error)), _) => return Err(error.into()),
    };
    Ok(Transformed::yes(Expr::Literal(value, None)))
}
