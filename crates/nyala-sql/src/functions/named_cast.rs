//! A cast with a name of its own, while names tell columns apart.

use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

pub use crate::statement::NAMED_CAST;

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
