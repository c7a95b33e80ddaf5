//! The number of rows that a call is computed for: one if all its arguments are constants, and then its value is a constant too.

use arrow::array::ArrayRef;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs};

/// The rows of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallRows {
    /// All arguments are constants.
    Constant,
    /// As many rows as the batch has.
    Batch(usize),
}

impl CallRows {
    /// The rows of a call with these arguments.
    pub fn of(arguments: &ScalarFunctionArgs) -> Self {
        match arguments.args.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_))) {
            true => Self::Constant,
            false => Self::Batch(arguments.number_rows),
        }
    }

    /// The number of rows.
    pub fn count(self) -> usize {
        match self {
            Self::Constant => 1,
            Self::Batch(rows) => rows,
        }
    }

    /// The arguments as columns of these rows.
    pub fn columns(self, arguments: &[ColumnarValue]) -> Result<Vec<ArrayRef>> {
        arguments.iter().map(|argument| argument.to_array(self.count())).collect()
    }

    /// The value of the call, from a column that was computed over these rows.
    pub fn value(self, computed: ArrayRef) -> Result<ColumnarValue> {
        Ok(match self {
            Self::Constant => ColumnarValue::Scalar(ScalarValue::try_from_array(&computed, 0)?),
            Self::Batch(_) => ColumnarValue::Array(computed),
        })
    }
}
