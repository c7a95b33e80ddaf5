//! The function that gives the codes of values.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::{Result, exec_datafusion_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExpressionPlacement, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use nyala_sql::functions::CallRows;

use super::dictionary::Dictionary;

/// The codes of `values`; where they are a column, taken as `early` as possible or once rows are joined.
pub fn code_of(values: Expr, dictionary: &Arc<Dictionary>, early: bool) -> Expr {
    // Within the life of its dictionary it always gives the same code for the same value.
    let signature = Signature::any(1, Volatility::Immutable);
    ScalarUDF::from(Code { dictionary: Arc::clone(dictionary), early, signature }).call(vec![values])
}

#[derive(Debug)]
struct Code {
    dictionary: Arc<Dictionary>,
    early: bool,
    signature: Signature,
}

impl PartialEq for Code {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.dictionary, &other.dictionary)
    }
}

impl Eq for Code {}

impl Hash for Code {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.dictionary).hash(state);
    }
}

impl ScalarUDFImpl for Code {
    fn name(&self) -> &'static str {
        "code"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::UInt32)
    }

    /// A computed dimension stays where it is, because an outer join gives it nulls to compute with.
    fn placement(&self, arguments: &[ExpressionPlacement]) -> ExpressionPlacement {
        match arguments {
            [ExpressionPlacement::Column] if self.early => ExpressionPlacement::MoveTowardsLeafNodes,
            _ => ExpressionPlacement::KeepInPlace,
        }
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = CallRows::of(&arguments);
        let columns = rows.columns(&arguments.args)?;
        let column = columns.first().ok_or_else(|| exec_datafusion_err!("`code` has no argument"))?;
        rows.value(Arc::new(self.dictionary.codes(column)?))
    }
}
