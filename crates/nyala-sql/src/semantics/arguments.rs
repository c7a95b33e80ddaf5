//! Arguments of functions that DataFusion takes and PostgreSQL refuses, or gives another meaning.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::functions::unicode::left;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{Expr, ExprSchemable, cast, lit};

use super::{Meaning, Scope};
use crate::functions::{Rint, ValueText, is_bytes, no_function};

/// Functions whose first argument is a text.
const OF_TEXTS: &[&str] = &[
    "character_length",
    "upper",
    "lower",
    "reverse",
    "initcap",
    "btrim",
    "ltrim",
    "rtrim",
    "left",
    "right",
    "lpad",
    "rpad",
    "split_part",
    "translate",
    "repeat",
    "ascii",
];

/// Functions of texts take no numbers and dates, `concat` writes truth values as one letter, and `round` of floating-point
/// numbers rounds halves to the even one.
#[derive(Debug)]
pub struct Arguments;

impl Meaning for Arguments {
    fn name(&self) -> &'static str {
        "arguments"
    }

    fn concerns(&self, expr: &Expr) -> bool {
        match expr {
            Expr::ScalarFunction(call) => {
                matches!(call.func.name(), "concat" | "concat_ws" | "round")
                    || OF_TEXTS.contains(&call.func.name())
            }
            Expr::AggregateFunction(call) => call.func.name() == "string_agg",
            _ => false,
        }
    }

    fn rewrite(&self, expr: Expr, scope: &Scope<'_>) -> Result<Transformed<Expr>> {
        let type_of = |expr: &Expr| expr.get_type(scope.schema).ok();
        match expr {
            Expr::AggregateFunction(call) => {
                if let Some(first) = call.params.args.first().and_then(type_of).filter(is_no_text) {
                    return Err(no_function("string_agg", &[first, DataType::Utf8]).into());
                }
                Ok(Transformed::no(Expr::AggregateFunction(call)))
            }
            Expr::ScalarFunction(call) if call.func.name() == "round" => {
                match (call.args.as_slice(), call.args.first().and_then(type_of)) {
                    ([number], Some(DataType::Float32 | DataType::Float64)) => {
                        Ok(Transformed::yes(Rint::udf().call(vec![number.clone()])))
                    }
                    _ => Ok(Transformed::no(Expr::ScalarFunction(call))),
                }
            }
            Expr::ScalarFunction(call) if OF_TEXTS.contains(&call.func.name()) => {
                if let Some(first) = call.args.first().and_then(type_of).filter(is_no_text) {
                    let types: Vec<DataType> =
                        std::iter::once(first).chain(call.args.iter().skip(1).filter_map(type_of)).collect();
                    let name = call.func.name();
                    let name = if name == "character_length" { "length" } else { name };
                    return Err(no_function(name, &types).into());
                }
                Ok(Transformed::no(Expr::ScalarFunction(call)))
            }
            Expr::ScalarFunction(ScalarFunction { func, args }) => {
                let mut changed = false;
                let args = args.into_iter().map(|argument| match type_of(&argument) {
                    Some(DataType::Boolean) => {
                        changed = true;
                        left().call(vec![cast(argument, DataType::Utf8), lit(1_i64)])
                    }
                    Some(of) if is_bytes(&of) => {
                        changed = true;
                        cast(ValueText::udf().call(vec![argument]), DataType::Utf8)
                    }
                    _ => argument,
                });
                let args = args.collect();
                let expr = Expr::ScalarFunction(ScalarFunction { func, args });
                Ok(if changed { Transformed::yes(expr) } else { Transformed::no(expr) })
            }
            other => Ok(Transformed::no(other)),
        }
    }
}

/// Whether a type is certainly not one that is read as a text.
fn is_no_text(data_type: &DataType) -> bool {
    data_type.is_numeric() || data_type.is_temporal() || *data_type == DataType::Boolean
}
