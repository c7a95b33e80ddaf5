//! Functions of bitmaps that are no aggregates, as a table.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::arguments::{Argument, wrong_count};
use super::operations::Operation;
use crate::functions::call_rows::CallRows;

use Argument::{Bitmap, Integer, Text};
use DataType::{Boolean, Int64, LargeBinary, LargeUtf8};

/// Every scalar function of bitmaps.
pub fn scalars() -> Vec<Arc<ScalarUDF>> {
    TABLE.iter().map(|row| Arc::new(ScalarUDF::from(BitmapFunction::new(row)))).collect()
}

/// Name, other names, argument types, whether the last may repeat, result type, operation.
type Row = (&'static str, &'static [&'static str], &'static [Argument], bool, DataType, Operation);

const TABLE: &[Row] = &[
    ("bitmap_empty", &[], &[], false, LargeBinary, Operation::Empty),
    ("to_bitmap", &[], &[Integer], false, LargeBinary, Operation::OfInteger),
    ("bitmap_from_string", &[], &[Text], false, LargeBinary, Operation::OfText),
    ("bitmap_to_string", &[], &[Bitmap], false, LargeUtf8, Operation::ToText),
    ("bitmap_count", &[], &[Bitmap], false, Int64, Operation::Count),
    ("bitmap_min", &[], &[Bitmap], false, Int64, Operation::Min),
    ("bitmap_max", &[], &[Bitmap], false, Int64, Operation::Max),
    ("bitmap_and", &[], &[Bitmap, Bitmap], true, LargeBinary, Operation::And),
    ("bitmap_or", &[], &[Bitmap, Bitmap], true, LargeBinary, Operation::Or),
    ("bitmap_xor", &[], &[Bitmap, Bitmap], true, LargeBinary, Operation::Xor),
    ("bitmap_andnot", &["bitmap_and_not"], &[Bitmap, Bitmap], false, LargeBinary, Operation::AndNot),
    ("bitmap_contains", &[], &[Bitmap, Integer], false, Boolean, Operation::Contains),
    ("bitmap_has_any", &[], &[Bitmap, Bitmap], false, Boolean, Operation::HasAny),
];

#[derive(Debug, PartialEq, Eq, Hash)]
struct BitmapFunction {
    name: &'static str,
    aliases: Vec<String>,
    takes: &'static [Argument],
    more: bool,
    gives: DataType,
    operation: Operation,
    signature: Signature,
}

impl BitmapFunction {
    fn new((name, aliases, takes, more, gives, operation): &Row) -> Self {
        let signature = match takes {
            [] => Signature::nullary(Volatility::Immutable),
            _ => Signature::user_defined(Volatility::Immutable),
        };
        Self {
            name,
            aliases: aliases.iter().map(|&alias| alias.to_owned()).collect(),
            takes,
            more: *more,
            gives: gives.clone(),
            operation: *operation,
            signature,
        }
    }

    /// The types the operation sees, or an error with the types that the function takes.
    fn coerce(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let (given, wanted) = (types.len(), self.takes.len());
        if given != wanted && !(self.more && given > wanted) {
            let takes = format!("{wanted}{} arguments", if self.more { " or more" } else { "" });
            return Err(wrong_count(self.name, &takes, given));
        }
        let wanted = self.takes.iter().chain(self.takes.last().into_iter().cycle());
        types.iter().zip(wanted).map(|(given, wanted)| wanted.coerce(self.name, given)).collect()
    }
}

impl ScalarUDFImpl for BitmapFunction {
    fn name(&self) -> &str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// Lets wrong types pass, since an error from here reaches the user wrapped in a guess about
    /// candidates and without its hint; `return_type` is asked next.
    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        Ok(self.coerce(types).unwrap_or_else(|_| types.to_vec()))
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.coerce(types)?;
        Ok(self.gives.clone())
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = CallRows::of(&arguments);
        // A constant stays one row: as many copies of a large bitmap as there are rows would fill the memory.
        let columns = arguments.args.iter().map(|value| match value {
            ColumnarValue::Array(column) => Ok(Arc::clone(column)),
            ColumnarValue::Scalar(value) => value.to_array(),
        });
        rows.value(self.operation.run(&columns.collect::<Result<Vec<ArrayRef>>>()?, rows.count())?)
    }
}
