//! The arguments of bitmap functions.

use arrow::datatypes::DataType;
use datafusion::common::{DataFusionError, Result};

use crate::error::{ErrorKind, QueryError};

/// A kind of argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Argument {
    /// A bitmap, as the bytes that a function of this module made.
    Bitmap,
    /// A number that is stored in bitmaps.
    Integer,
    /// Text.
    Text,
}

impl Argument {
    /// The type that an argument is cast to, so that the function has to know only one.
    pub fn coerce(self, function: &str, given: &DataType) -> Result<DataType> {
        use DataType::{Binary, BinaryView, Dictionary, LargeBinary, LargeUtf8, Null, Utf8, Utf8View};
        match (self, given) {
            (_, Dictionary(_, values)) => self.coerce(function, values),
            (Self::Bitmap, Binary | LargeBinary | BinaryView | Null) => Ok(LargeBinary),
            (Self::Integer, Null) => Ok(DataType::Int64),
            (Self::Integer, integer) if integer.is_integer() => Ok(DataType::Int64),
            (Self::Text, Utf8 | LargeUtf8 | Utf8View | Null) => Ok(LargeUtf8),
            (wanted, given) => Err(wanted.refuse(function, given)),
        }
    }

    fn refuse(self, function: &str, given: &DataType) -> DataFusionError {
        let (takes, hint) = match self {
            Self::Bitmap => ("bitmaps", "`to_bitmap(x)` and `bitmap_agg(x)` make bitmaps of integers"),
            Self::Integer => ("integers", "cast it, or count the values with `bitmap_distinct(x)`"),
            Self::Text => ("text", "such as '1,2,3'"),
        };
        let message = format!("`{function}` takes {takes}, not `{given}`");
        QueryError::new(ErrorKind::InvalidText, message).hint(hint).into()
    }
}

/// The error for a wrong number of arguments.
pub fn wrong_count(function: &str, takes: &str, given: usize) -> DataFusionError {
    let message = format!("`{function}` takes {takes}, not {given} arguments");
    QueryError::new(ErrorKind::InvalidText, message).into()
}
