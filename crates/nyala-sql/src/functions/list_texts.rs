//! Lists as PostgreSQL writes arrays: `{1,NULL,"a b"}`, `{{1,2},{3,4}}`.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, StringArray, StringViewBuilder};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::common::{Result, plan_err};

use super::value_texts::texts as value_texts;

/// The lists with offsets of 32 bits.
pub fn usual(lists: &ArrayRef) -> Result<ListArray> {
    let item = match lists.data_type() {
        DataType::List(_) => return Ok(lists.as_list::<i32>().clone()),
        DataType::LargeList(item) | DataType::FixedSizeList(item, _) => Arc::clone(item),
        other => return plan_err!("{other} is no list"),
    };
    Ok(cast(lists, &DataType::List(item))?.as_list::<i32>().clone())
}

/// Whether a type is one of lists.
pub fn is_list(data_type: &DataType) -> bool {
    matches!(data_type, DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..))
}

/// Texts of lists.
pub fn texts(lists: &ArrayRef) -> Result<ArrayRef> {
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

/// Texts of the elements; those of inner lists have their brackets, and truth values are one letter.
pub fn element_texts(values: &ArrayRef) -> Result<ArrayRef> {
    if *values.data_type() != DataType::Boolean {
        return value_texts(values);
    }
    let letter = |value: bool| if value { "t" } else { "f" };
    Ok(Arc::new(values.as_boolean().iter().map(|value| value.map(letter)).collect::<StringArray>()))
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
