//! The name of a value's type.

use arrow::datatypes::{DataType, IntervalUnit};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

/// `pg_typeof(x)`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct PgTypeof {
    signature: Signature,
}

impl PgTypeof {
    pub fn new() -> Self {
        Self { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for PgTypeof {
    fn name(&self) -> &str {
        "pg_typeof"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let Some(field) = arguments.arg_fields.first() else {
            return plan_err!("`pg_typeof` takes one value");
        };
        Ok(ColumnarValue::Scalar(ScalarValue::Utf8View(Some(name_of(field.data_type())))))
    }
}

/// The type that PostgreSQL's clients know a type by.
pub fn name_of(data_type: &DataType) -> String {
    match data_type {
        DataType::Boolean => "boolean",
        DataType::Int8 | DataType::UInt8 | DataType::Int16 => "smallint",
        DataType::UInt16 | DataType::Int32 => "integer",
        DataType::UInt32 | DataType::Int64 => "bigint",
        DataType::UInt64
        | DataType::Decimal32(..)
        | DataType::Decimal64(..)
        | DataType::Decimal128(..)
        | DataType::Decimal256(..) => "numeric",
        DataType::Float16 | DataType::Float32 => "real",
        DataType::Float64 => "double precision",
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "text",
        DataType::FixedSizeBinary(16) => "uuid",
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            "bytea"
        }
        DataType::Date32 | DataType::Date64 => "date",
        DataType::Time32(_) | DataType::Time64(_) => "time without time zone",
        DataType::Timestamp(_, None) => "timestamp without time zone",
        DataType::Timestamp(_, Some(_)) => "timestamp with time zone",
        DataType::Interval(IntervalUnit::MonthDayNano | IntervalUnit::DayTime | IntervalUnit::YearMonth)
        | DataType::Duration(_) => "interval",
        DataType::Dictionary(_, value) => return name_of(value),
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            return format!("{}[]", name_of(item.data_type()));
        }
        DataType::Null => "unknown",
        _ => "record",
    }
    .to_owned()
}
