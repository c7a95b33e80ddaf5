//! `x = ANY(list)`, which is unknown if no element is equal and one is NULL.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::functions_nested::array_has::array_has_udf;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

use super::call_rows::CallRows;
use super::list_texts::usual;

/// DataFusion's function, which is false where an element that is NULL could be the value.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Has(Arc<ScalarUDF>);

impl Has {
    /// Replaces DataFusion's `array_has`; none if `function` is another one.
    pub fn over(function: &Arc<ScalarUDF>) -> Option<Arc<ScalarUDF>> {
        let is_it = function.name() == "array_has" && !function.inner().is::<Self>();
        is_it.then(|| Arc::new(ScalarUDF::from(Self(array_has_udf()))))
    }
}

impl ScalarUDFImpl for Has {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn aliases(&self) -> &[String] {
        self.0.aliases()
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.0.return_type(types)
    }

    fn simplify(&self, arguments: Vec<Expr>, context: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.0.simplify(arguments, context)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = CallRows::of(&arguments);
        let (lists, values) = match arguments.args.as_slice() {
            [lists, values] if !lists.data_type().is_null() => {
                (lists.to_array(rows.count())?, values.to_array(rows.count())?)
            }
            _ => return self.0.invoke_with_args(arguments),
        };
        let found = self.0.invoke_with_args(arguments)?.to_array(rows.count())?;
        rows.value(Arc::new(known(&lists, &values, found.as_boolean())?))
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.0.documentation()
    }
}

/// Whether values are in lists, or NULL where this is unknown. An empty list has no value, not even NULL.
fn known(lists: &ArrayRef, values: &ArrayRef, found: &BooleanArray) -> Result<BooleanArray> {
    let lists = usual(lists)?;
    let elements = lists.values();
    let nulls = elements.logical_nulls();
    let has_null = |row: usize| {
        let range = lists.value_offsets().get(row..row + 2)?;
        let &[first, end] = range else { return None };
        let (first, end) = (usize::try_from(first).ok()?, usize::try_from(end).ok()?);
        Some((first == end, nulls.as_ref().is_some_and(|nulls| (first..end).any(|at| nulls.is_null(at)))))
    };
    let answer = |row: usize| {
        if lists.is_null(row) {
            return None;
        }
        let (is_empty, has_null) = has_null(row)?;
        match () {
            () if is_empty => Some(false),
            () if values.is_null(row) => None,
            () if found.is_valid(row) && found.value(row) => Some(true),
            () => (!has_null).then_some(false),
        }
    };
    Ok((0..lists.len()).map(answer).collect())
}
