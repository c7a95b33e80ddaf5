//! Decimals with more digits than their type, which Arrow's arithmetic makes without an error.

use arrow::array::{Array, AsArray};
use arrow::datatypes::{DataType, Decimal128Type, Decimal256Type};
use datafusion::common::Result;
use datafusion::logical_expr::ColumnarValue;

use crate::error::{ErrorKind, QueryError};

/// An error if a decimal has more digits than its type.
pub fn check_digits(computed: &ColumnarValue) -> Result<()> {
    if !computed.data_type().is_decimal() {
        return Ok(());
    }
    let values = computed.to_array(1)?;
    let fits = match values.data_type() {
        DataType::Decimal128(precision, _) => {
            values.as_primitive::<Decimal128Type>().validate_decimal_precision(*precision)
        }
        DataType::Decimal256(precision, _) => {
            values.as_primitive::<Decimal256Type>().validate_decimal_precision(*precision)
        }
        _ => Ok(()),
    };
    fits.map_err(|_| {
        let message = format!("a number is out of the range of {}", values.data_type());
        QueryError::new(ErrorKind::OutOfRange, message)
            .hint("round the numbers first, or cast them to DOUBLE PRECISION")
            .into()
    })
}
