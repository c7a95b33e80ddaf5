//! Values as PostgreSQL writes them, where arrow's casts write a different text.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use nyala_model::float_text::{double, single};

use super::call_rows::CallRows;
use super::list_texts::{is_list, texts as list_texts};
use super::postgres::{UUID, uuid_texts};
use super::time_texts::texts as time_texts;

/// The digits of a floating-point number: as many as read back the same value.
const SHORTEST: i32 = 1;

/// `CAST(x AS TEXT)` of a value that arrow writes differently.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct ValueText {
    signature: Signature,
}

impl ValueText {
    /// The function, to be called.
    pub fn udf() -> Arc<ScalarUDF> {
        Arc::new(ScalarUDF::from(Self { signature: Signature::any(1, Volatility::Immutable) }))
    }
}

impl ScalarUDFImpl for ValueText {
    fn name(&self) -> &str {
        "value_text"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [values] = arguments.args.as_slice() else {
            return plan_err!("a cast has one operand, not {}", arguments.args.len());
        };
        let rows = CallRows::of(&arguments);
        let texts = texts(&values.to_array(rows.count())?)?;
        rows.value(cast(&texts, &DataType::Utf8View)?)
    }
}

/// Whether arrow's cast to text writes values of the type differently.
pub fn is_written_otherwise(data_type: &DataType) -> bool {
    is_plain(data_type)
        || is_bytes(data_type)
        || is_list(data_type)
        || *data_type == UUID
        || matches!(data_type, DataType::Timestamp(..) | DataType::Interval(_) | DataType::Duration(_))
}

/// Whether it is a type of floating-point numbers or dates.
pub fn is_plain(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Float32 | DataType::Float64 | DataType::Date32)
}

/// Whether it is a type of bytes of any length.
pub fn is_bytes(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Binary | DataType::LargeBinary | DataType::BinaryView)
}

/// Texts of values of any type.
pub fn texts(values: &ArrayRef) -> Result<ArrayRef> {
    match values.data_type() {
        data_type if is_list(data_type) => list_texts(values),
        data_type if *data_type == UUID => Ok(uuid_texts(values)?),
        data_type if is_bytes(data_type) => in_digits(values),
        DataType::Timestamp(..) | DataType::Interval(_) | DataType::Duration(_) => time_texts(values),
        DataType::Float64 => {
            let numbers = values.as_primitive::<Float64Type>().iter();
            let texts = numbers.map(|number| number.map(|number| double(number, SHORTEST)));
            Ok(Arc::new(texts.collect::<StringArray>()))
        }
        DataType::Float32 => {
            let numbers = values.as_primitive::<Float32Type>().iter();
            let texts = numbers.map(|number| number.map(|number| single(number, SHORTEST)));
            Ok(Arc::new(texts.collect::<StringArray>()))
        }
        DataType::Date32 => {
            let dates = cast(values, &DataType::Utf8)?;
            let texts = dates.as_string::<i32>().iter().map(|date| date.map(date_text));
            Ok(Arc::new(texts.collect::<StringArray>()))
        }
        _ => Ok(cast(values, &DataType::Utf8)?),
    }
}

/// Bytes as `\x` and hexadecimal digits.
fn in_digits(values: &ArrayRef) -> Result<ArrayRef> {
    let bytes = cast(values, &DataType::Binary)?;
    let texts = bytes.as_binary::<i32>().iter();
    let texts = texts.map(|bytes| bytes.map(|bytes| format!("\\x{}", hex::encode(bytes))));
    Ok(Arc::new(texts.collect::<StringArray>()))
}

/// A date from the text of ISO 8601, which counts a year 0 and has a sign before years of more or less than four digits.
fn date_text(date: &str) -> String {
    if let Some(date) = date.strip_prefix('+') {
        return date.to_owned();
    }
    let is_before_christ = date.starts_with('-') || date.starts_with("0000-");
    let (year, day) = date.trim_start_matches('-').split_once('-').unwrap_or((date, ""));
    match year.parse::<u32>() {
        Ok(year) if is_before_christ => format!("{:04}-{day} BC", year.saturating_add(1)),
        _ => date.to_owned(),
    }
}
