//! Elements of arrays, and texts that stand for arrays as PostgreSQL's clients write them: `{a,"b c",NULL}`.

use crate::error::{ErrorKind, QueryError};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DataFusionError, Result as PlanResult, ScalarValue};
use datafusion::logical_expr::{Expr, lit, when};
use nyala_model::array_text::array_elements;

use super::{Meaning, Scope};
use crate::functions::Has;

/// `x = ANY(list)` is unknown where an element that is NULL could be the value, and element numbers below 1
/// name no element: DataFusion counts them from the end.
#[derive(Debug)]
pub struct ListsOfPostgres;

impl Meaning for ListsOfPostgres {
    fn name(&self) -> &'static str {
        "lists_of_postgres"
    }

    fn concerns(&self, expr: &Expr) -> bool {
        matches!(expr, Expr::ScalarFunction(call) if matches!(call.name(), "array_has" | "array_element"))
    }

    fn rewrite(&self, expr: Expr, _: &Scope<'_>) -> PlanResult<Transformed<Expr>> {
        let Expr::ScalarFunction(mut call) = expr else { return Ok(Transformed::no(expr)) };
        if let Some(has) = Has::over(&call.func) {
            return Ok(Transformed::yes(has.call(call.args)));
        }
        let is_known = |number: &Expr| matches!(number, Expr::Literal(..) | Expr::Case(_));
        match call.args.get_mut(1) {
            Some(number) if call.func.name() == "array_element" && !is_known(number) => {
                let inner = std::mem::take(number);
                *number = when(inner.clone().gt(lit(0_i64)), inner).end()?;
                Ok(Transformed::yes(Expr::ScalarFunction(call)))
            }
            _ => Ok(Transformed::no(Expr::ScalarFunction(call))),
        }
    }
}

/// The array that `value` stands for, if it is a text and `data_type` is one of arrays.
pub fn array_of_text(
    value: &ScalarValue,
    data_type: &DataType,
) -> Option<std::result::Result<ScalarValue, QueryError>> {
    let (DataType::List(item) | DataType::LargeList(item)) = data_type else { return None };
    let text = value.try_as_str().flatten()?;
    let Some(elements) = array_elements(text) else {
        let message = format!("`{text}` does not stand for an array");
        return Some(Err(QueryError::new(ErrorKind::Data, message)
            .hint("write its elements between braces, as in `{a,b}`, or ARRAY['a', 'b']")));
    };
    let values = elements.into_iter().map(|element| ScalarValue::Utf8(element).cast_to(item.data_type()));
    let array = values.collect::<Result<Vec<ScalarValue>, DataFusionError>>().and_then(|values| {
        ScalarValue::List(ScalarValue::new_list_nullable(&values, item.data_type())).cast_to(data_type)
    });
    Some(array.map_err(QueryError::from))
}
