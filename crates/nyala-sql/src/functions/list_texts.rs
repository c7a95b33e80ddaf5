//! Lists as PostgreSQL writes arrays: `{1,NULL,"a b"}`, `{{1,2},{3,4}}`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, StringArray, StringViewBuilder};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::postgres::{UUID, uuid_texts};
use super::time_texts::texts as time_texts;

/// `CAST(l AS TEXT)` of a list.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct ListText {
    signature: Signature,
}

impl ListText {
    /// The function, to be called.
    pub fn udf() -> Arc<ScalarUDF> {
        Arc::new(ScalarUDF::from(Self { signature: Signature::any(1, Volatility::Immutable) }))
    }
}

impl ScalarUDFImpl for ListText {
    fn name(&self) -> &str {
        "list_text"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match arguments.args.as_slice() {
            [ColumnarValue::Array(lists)] => Ok(ColumnarValue::Array(texts(lists)?)),
            [ColumnarValue::Scalar(list)] => {
                let text = texts(&list.to_array()?)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&text, 0)?))
            }
            other => plan_err!("a cast has one operand, not {}", other.len()),
        }
    }
}

/// The lists in the usual layout.
fn usual(lists: &ArrayRef) -> Result<ListArray> {
    let item = match lists.data_type() {
        DataType::List(_) => return Ok(lists.as_list::<i32>().clone()),
        DataType::LargeList(item) | DataType::FixedSizeList(item, _) => Arc::clone(item),
        other => return plan_err!("{other} is no list"),
    };
    Ok(cast(lists, &DataType::List(item))?.as_list::<i32>().clone())
}

fn is_list(data_type: &DataType) -> bool {
    matches!(data_type, DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..))
}

/// Texts of lists.
fn texts(lists: &ArrayRef) -> Result<ArrayRef> {
    let lists = usual(lists)?;
    let is_nested = is_list(lists.values().data_type());
    let values = cast(&element_texts(lists.values())?, &DataType::Utf8)?;
    let values = values.as_string::<i32>();
    let mut builder = StringViewBuilder::with_capacity(lists.len());
    for (row, range) in lists.value_offsets().windows(2).enumerate() {
        if lists.is_null(row) {
            builder.append_null();
            continue;
        }
        let [first, end] = range else { continue };
        let (first, end) = (usize::try_from(*first).unwrap_or(0), usize::try_from(*end).unwrap_or(0));
        builder.append_value(text_of(values, first..end, is_nested));
    }
    Ok(Arc::new(builder.finish()))
}

/// Texts of the elements; those of inner lists have their brackets.
fn element_texts(values: &ArrayRef) -> Result<ArrayRef> {
    match values.data_type() {
        data_type if is_list(data_type) => texts(values),
        DataType::Timestamp(..) | DataType::Interval(_) | DataType::Duration(_) => time_texts(values),
        DataType::Boolean => {
            let letter = |value: bool| if value { "t" } else { "f" };
            Ok(Arc::new(values.as_boolean().iter().map(|value| value.map(letter)).collect::<StringArray>()))
        }
        data_type if *data_type == UUID => Ok(uuid_texts(values)?),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
            let bytes = cast(values, &DataType::Binary)?;
            let digits = |bytes: &[u8]| {
                let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                format!("\\x{digits}")
            };
            Ok(Arc::new(
                bytes.as_binary::<i32>().iter().map(|bytes| bytes.map(digits)).collect::<StringArray>(),
            ))
        }
        _ => Ok(cast(values, &DataType::Utf8)?),
    }
}

fn text_of(values: &StringArray, places: std::ops::Range<usize>, is_nested: bool) -> String {
    let mut text = "{".to_owned();
    for at in places {
        if text.len() > 1 {
            text.push(',');
        }
        if at >= values.len() || values.is_null(at) {
            text.push_str("NULL");
        } else if is_nested {
            text.push_str(values.value(at));
        } else {
            push_element(&mut text, values.value(at));
        }
    }
    text.push('}');
    // An array without elements has no dimensions.
    let is_empty = is_nested && text.chars().all(|sign| matches!(sign, '{' | '}' | ','));
    if is_empty { "{}".to_owned() } else { text }
}

fn push_element(text: &mut String, value: &str) {
    let is_special = |sign: char| matches!(sign, '{' | '}' | ',' | '"' | '\\') || sign.is_ascii_whitespace();
    if !value.is_empty() && !value.eq_ignore_ascii_case("null") && !value.contains(is_special) {
        text.push_str(value);
        return;
    }
    text.push('"');
    for sign in value.chars() {
        if matches!(sign, '"' | '\\') {
            text.push('\\');
        }
        text.push(sign);
    }
    text.push('"');
}
