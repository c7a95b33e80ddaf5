//! Parameters of a physical plan: their values are given later.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result, ScalarValue, exec_err, internal_datafusion_err, internal_err};
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
    lit,
};
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use nyala_cube::scan::Values;

use nyala_sql::semantics::PARAMETER;

/// A function that stands for a parameter: DataFusion has no physical expression for one.
///
/// It is volatile, so that no rule evaluates it early.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Parameter {
    /// Number of the parameter, from 0.
    position: usize,
    data_type: DataType,
    signature: Signature,
}

impl ScalarUDFImpl for Parameter {
    fn name(&self) -> &str {
        PARAMETER
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(self.data_type.clone())
    }

    fn invoke_with_args(&self, _arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        exec_err!("parameter ${} was not given a value", self.position + 1)
    }
}

/// Replaces parameters by calls.
///
/// # Errors
/// A parameter without a type, or one outside a condition: its value may decide more than the rows read.
pub fn open(plan: LogicalPlan) -> Result<LogicalPlan> {
    let opened = plan.transform_down_with_subqueries(|node| {
        let is_condition = matches!(node, LogicalPlan::Filter(_) | LogicalPlan::TableScan(_));
        node.map_expressions(|expr| {
            expr.transform_up(|expr| match expr {
                Expr::Placeholder(_) if !is_condition => {
                    internal_err!("a parameter is no part of a condition")
                }
                Expr::Placeholder(placeholder) => Ok(Transformed::yes(call(&placeholder)?)),
                other => Ok(Transformed::no(other)),
            })
        })
    })?;
    Ok(opened.data)
}

fn call(placeholder: &Placeholder) -> Result<Expr> {
    let number = placeholder.id.trim_start_matches('$').parse::<usize>().ok();
    let position = number.and_then(|number| number.checked_sub(1));
    let (Some(position), Some(field)) = (position, &placeholder.field) else {
        return internal_err!("parameter `{}` has no type or number", placeholder.id);
    };
    let parameter = Parameter {
        position,
        data_type: field.data_type().clone(),
        // The name alone does not tell two parameters apart; an argument does.
        signature: Signature::any(1, Volatility::Volatile),
    };
    Ok(ScalarUDF::new_from_impl(parameter).call(vec![lit(position as u64)]))
}

/// The values of parameters, `$1` first.
pub struct Given<'a>(pub &'a [ScalarValue]);

impl Values for Given<'_> {
    fn value_of(&self, expr: &dyn PhysicalExpr) -> Option<&ScalarValue> {
        self.0.get(parameter(expr)?.position)
    }

    fn put_into(&self, expr: &Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(closed(expr, self.0)?.unwrap_or_else(|| Arc::clone(expr)))
    }
}

fn parameter(expr: &dyn PhysicalExpr) -> Option<&Parameter> {
    expr.downcast_ref::<ScalarFunctionExpr>()?.fun().inner().downcast_ref()
}

/// The expression with values in the place of its parameters; none if it has no parameters. It walks the tree itself because it runs for
/// each run of a ready plan, and DataFusion's walk makes more lists of children for every node.
fn closed(expr: &Arc<dyn PhysicalExpr>, values: &[ScalarValue]) -> Result<Option<Arc<dyn PhysicalExpr>>> {
    if let Some(parameter) = parameter(expr.as_ref()) {
        let value = values.get(parameter.position);
        let value = value
            .ok_or_else(|| internal_datafusion_err!("parameter ${} has no value", parameter.position + 1))?;
        return Ok(Some(Arc::new(Literal::new(value.clone()))));
    }
    let children = expr.children();
    let mut changed: Vec<Arc<dyn PhysicalExpr>> = Vec::new();
    for (at, child) in children.iter().enumerate() {
        match closed(child, values)? {
            Some(child) => {
                // The children before it stay as they are.
                changed.extend(children.iter().take(at).skip(changed.len()).map(|child| Arc::clone(child)));
                changed.push(child);
            }
            None if changed.is_empty() => {}
            None => changed.push(Arc::clone(child)),
        }
    }
    if changed.is_empty() {
        return Ok(None);
    }
    Arc::clone(expr).with_new_children(changed).map(Some)
}
