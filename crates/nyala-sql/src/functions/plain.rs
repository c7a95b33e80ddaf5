//! Functions that compute one value of a row's arguments, each given by its name, its types and a computation.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::common::Result;
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::call_rows::CallRows;
use crate::error::{ErrorKind, QueryError};

/// The types that arguments are cast to; none if there is no such function.
type Coerce = fn(&[DataType]) -> Option<Vec<DataType>>;
/// The type of the result.
type Returns = fn(&[DataType]) -> DataType;
type Compute = fn(&Call<'_>) -> Result<ArrayRef>;

/// A function that is given by its parts.
#[derive(Debug)]
pub struct Plain {
    name: &'static str,
    signature: Signature,
    coerce: Coerce,
    returns: Returns,
    compute: Compute,
}

/// The arguments of all rows of a batch.
pub struct Call<'a> {
    /// A column for each argument.
    pub arrays: &'a [ArrayRef],
    /// The settings of the session.
    pub config: &'a ConfigOptions,
}

impl Plain {
    pub fn udf(name: &'static str, coerce: Coerce, returns: Returns, compute: Compute) -> Arc<ScalarUDF> {
        let signature = Signature::user_defined(Volatility::Immutable);
        Arc::new(ScalarUDF::from(Self { name, signature, coerce, returns, compute }))
    }
}

impl PartialEq for Plain {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Plain {}

impl Hash for Plain {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for Plain {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        (self.coerce)(types).ok_or_else(|| no_function(self.name, types).into())
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok((self.returns)(types))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = CallRows::of(&arguments);
        let arrays = rows.columns(&arguments.args)?;
        let call = Call { arrays: &arrays, config: &arguments.config_options };
        rows.value((self.compute)(&call)?)
    }
}

impl Call<'_> {
    /// Rows of the batch.
    pub fn rows(&self) -> usize {
        self.arrays.first().map_or(1, |array| array.len())
    }

    /// The argument as texts; NULLs if there is none.
    pub fn texts(&self, argument: usize) -> Result<StringViewArray> {
        Ok(match self.arrays.get(argument) {
            Some(array) => cast(array, &DataType::Utf8View)?.as_string_view().clone(),
            None => StringViewArray::new_null(self.rows()),
        })
    }

    /// A whole number of a row; `otherwise` if there is no such argument.
    pub fn integers(&self, argument: usize, otherwise: i64) -> Result<Vec<Option<i64>>> {
        Ok(match self.arrays.get(argument) {
            Some(array) => cast(array, &DataType::Int64)?.as_primitive::<Int64Type>().iter().collect(),
            None => vec![Some(otherwise); self.rows()],
        })
    }
}

/// The error for a call with arguments that no function of the name takes.
pub fn no_function(name: &str, types: &[DataType]) -> QueryError {
    let types: Vec<String> = types.iter().map(super::type_name).collect();
    QueryError::new(
        ErrorKind::UndefinedObject,
        format!("function {name}({}) does not exist", types.join(", ")),
    )
    .sqlstate("42883")
    .hint("no function matches the given name and argument types: cast the arguments")
}

/// Whether a type is read as a text: also that of NULL and of a parameter.
pub fn is_text(data_type: &DataType) -> bool {
    data_type.is_string() || *data_type == DataType::Null
}

/// Whether a type is read as a whole number: also that of NULL.
pub fn is_whole(data_type: &DataType) -> bool {
    data_type.is_integer() || *data_type == DataType::Null
}
