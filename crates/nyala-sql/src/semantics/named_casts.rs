//! Casts with names, while names tell columns apart: `statement/cast_names.rs` writes them.

use arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::{Meaning, Scope};

/// The function that a cast with a name is written as: the cast, and its type as a text.
pub const NAMED_CAST: &str = "nyala_named_cast";

/// Replaces the calls by their casts, when names are given.
#[derive(Debug)]
pub struct NamedCasts;

impl Meaning for NamedCasts {
    fn name(&self) -> &'static str {
        "named_casts"
    }

    fn concerns(&self, expr: &Expr) -> bool {
        matches!(expr, Expr::ScalarFunction(call) if call.name() == NAMED_CAST)
    }

    fn rewrite(&self, expr: Expr, _: &Scope<'_>) -> Result<Transformed<Expr>> {
        let Expr::ScalarFunction(call) = expr else { return Ok(Transformed::no(expr)) };
        match call.args.into_iter().next() {
            Some(cast) => Ok(Transformed::yes(cast)),
            None => internal_err!("a cast with a name has no value"),
        }
    }
}

/// The function, for the planner.
pub fn named_cast() -> ScalarUDF {
    ScalarUDF::new_from_impl(NamedCast { signature: Signature::any(2, Volatility::Immutable) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct NamedCast {
    signature: Signature,
}

impl ScalarUDFImpl for NamedCast {
    fn name(&self) -> &str {
        NAMED_CAST
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match arguments {
            [cast, _] => Ok(cast.clone()),
            _ => {
                internal_err!("a cast with a name has a value and a type, not {} arguments", arguments.len())
            }
        }
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match arguments.args.into_iter().next() {
            Some(cast) => Ok(cast),
            None => internal_err!("a cast with a name has no value"),
        }
    }

    fn schema_name(&self, arguments: &[Expr]) -> Result<String> {
        match arguments {
            [cast, Expr::Literal(ScalarValue::Utf8(Some(written)), _)] => {
                Ok(format!("{}::{written}", cast.schema_name()))
            }
            _ => internal_err!("a cast with a name has a value and a type"),
        }
    }
}
