//! Arrays, vectors and rows, as texts and in binary.
//!
//! ```text
//! array   dimensions 4 B, has NULL 4 B, element type 4 B, then for each dimension: length 4 B, first number 4 B;
//!         then for each element: length 4 B (-1 is NULL), value
//! row     columns 4 B, then for each: type 4 B, length 4 B, value
//! ```
//!
//! Source: `array_send` and `record_send` of PostgreSQL.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BinaryBuilder, ListArray, StringArray, StringBuilder,
};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;

use super::form::Form;
use super::render::{Looks, as_type, plain};

type Rendered = Result<ArrayRef, ArrowError>;

/// A list array of any layout as one with 32-bit offsets.
fn usual(array: &ArrayRef) -> Result<ListArray, ArrowError> {
    let array = plain(array)?;
    let item = match array.data_type() {
        DataType::List(_) => return Ok(array.as_list::<i32>().clone()),
        DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::ListView(item)
        | DataType::LargeListView(item) => Arc::clone(item),
        other => return Err(ArrowError::CastError(format!("{other} is no list"))),
    };
    let lists = as_type(&array, &DataType::List(item))?;
    Ok(lists.as_list::<i32>().clone())
}

/// The places of the elements of one row: the first one, and the one behind the last.
fn places(lists: &ListArray, row: usize) -> std::ops::Range<usize> {
    let offset = |at: usize| lists.value_offsets().get(at).and_then(|end| usize::try_from(*end).ok());
    offset(row).unwrap_or(0)..offset(row + 1).unwrap_or(0)
}

/// `{1,NULL,"a b"}`, `{{1,2},{3,4}}`.
pub fn array_texts(array: &ArrayRef, item: &Form, looks: Looks) -> Rendered {
    let lists = usual(array)?;
    let is_nested = matches!(item, Form::List(_));
    let values = as_type(&item.texts(lists.values(), looks)?, &DataType::Utf8)?;
    let values = values.as_string::<i32>();
    let mut texts = StringBuilder::new();
    for row in 0..lists.len() {
        if lists.is_null(row) {
            texts.append_null();
            continue;
        }
        let mut text = "{".to_owned();
        for at in places(&lists, row) {
            if text.len() > 1 {
                text.push(',');
            }
            match element(values, at) {
                None => text.push_str("NULL"),
                Some(value) if is_nested => text.push_str(value),
                Some(value) => push_element(&mut text, value),
            }
        }
        text.push('}');
        // An array without elements has no dimensions.
        let is_empty = is_nested && text.chars().all(|sign| matches!(sign, '{' | '}' | ','));
        texts.append_value(if is_empty { "{}" } else { &text });
    }
    Ok(Arc::new(texts.finish()))
}

fn element(values: &StringArray, at: usize) -> Option<&str> {
    (at < values.len() && values.is_valid(at)).then(|| values.value(at))
}

fn push_element(text: &mut String, value: &str) {
    let is_special = |sign: char| matches!(sign, '{' | '}' | ',' | '"' | '\\') || sign.is_ascii_whitespace();
    if value.is_empty() || value.eq_ignore_ascii_case("null") || value.contains(is_special) {
        push_quoted(text, value, "\\");
    } else {
        text.push_str(value);
    }
}

/// Appends a text in quotes, with `escape` before each quote and backslash in it. Without an escape, these are doubled.
fn push_quoted(text: &mut String, value: &str, escape: &str) {
    text.push('"');
    for sign in value.chars() {
        if matches!(sign, '"' | '\\') {
            match escape {
                "" => text.push(sign),
                escape => text.push_str(escape),
            }
        }
        text.push(sign);
    }
    text.push('"');
}

/// `1 2 3`
pub fn vector_texts(array: &ArrayRef, item: &Form, looks: Looks) -> Rendered {
    let lists = usual(array)?;
    let values = as_type(&item.texts(lists.values(), looks)?, &DataType::Utf8)?;
    let values = values.as_string::<i32>();
    let text = |row: usize| {
        let words: Vec<&str> = places(&lists, row).filter_map(|at| element(values, at)).collect();
        lists.is_valid(row).then(|| words.join(" "))
    };
    Ok(Arc::new((0..lists.len()).map(text).collect::<StringArray>()))
}

/// `(1,"a b",)`
pub fn record_texts(array: &ArrayRef, fields: &[Form], looks: Looks) -> Rendered {
    let array = plain(array)?;
    let Some(records) = array.as_struct_opt() else { return Err(no_record(&array)) };
    let columns = records.columns().iter().zip(fields);
    let columns = columns.map(|(column, form)| as_type(&form.texts(column, looks)?, &DataType::Utf8));
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    let text = |row: usize| {
        let mut text = "(".to_owned();
        for (at, column) in columns.iter().enumerate() {
            if at > 0 {
                text.push(',');
            }
            if let Some(value) = element(column.as_string::<i32>(), row) {
                push_field(&mut text, value);
            }
        }
        text.push(')');
        records.is_valid(row).then_some(text)
    };
    Ok(Arc::new((0..records.len()).map(text).collect::<StringArray>()))
}

fn push_field(text: &mut String, value: &str) {
    let is_special = |sign: char| matches!(sign, '(' | ')' | ',' | '"' | '\\') || sign.is_ascii_whitespace();
    if value.is_empty() || value.contains(is_special) {
        push_quoted(text, value, "");
    } else {
        text.push_str(value);
    }
}

fn no_record(array: &ArrayRef) -> ArrowError {
    ArrowError::CastError(format!("{} is no row", array.data_type()))
}

/// Arrays in binary.
pub fn array_bytes(array: &ArrayRef, item: &Form, looks: Looks) -> Rendered {
    let lists = usual(array)?;
    let (depth, innermost) = innermost(item);
    let mut levels = vec![lists.clone()];
    for _ in 0..depth {
        let inner = levels.last().map(|lists| Arc::clone(lists.values()));
        levels.extend(inner.map(|inner| usual(&inner)).transpose()?);
    }
    let Some(last) = levels.last() else { return Err(no_record(array)) };
    let values = innermost.bytes(last.values(), looks)?;
    let values = values.as_binary::<i32>();
    let head = Head { kind: innermost.pg_type().oid(), first: 1 };
    let mut rows = BinaryBuilder::new();
    for row in 0..lists.len() {
        if lists.is_null(row) {
            rows.append_null();
            continue;
        }
        let (lengths, elements) = elements(&levels, row)?;
        rows.append_value(head.array(&lengths, values, elements));
    }
    Ok(Arc::new(rows.finish()))
}

/// The form of the elements, and the number of dimensions between this one and them.
fn innermost(item: &Form) -> (usize, &Form) {
    match item {
        Form::List(inner) => {
            let (depth, form) = innermost(inner);
            (depth + 1, form)
        }
        form => (0, form),
    }
}

/// The length of each dimension of a row, and the places of its elements.
fn elements(levels: &[ListArray], row: usize) -> Result<(Vec<usize>, std::ops::Range<usize>), ArrowError> {
    let (mut lengths, mut range) = (Vec::new(), row..row + 1);
    for lists in levels {
        let rows = range.clone().map(|row| if lists.is_null(row) { 0..0 } else { places(lists, row) });
        let rows: Vec<_> = rows.collect();
        let length = rows.first().map_or(0, ExactSizeIterator::len);
        if rows.iter().any(|places| places.len() != length) {
            return Err(ArrowError::CastError("arrays within an array differ in length".to_owned()));
        }
        lengths.push(length);
        range = match (rows.first(), rows.last()) {
            (Some(first), Some(last)) => first.start..last.end.max(first.start),
            _ => 0..0,
        };
    }
    Ok((lengths, range))
}

/// The beginning of the binary form of an array.
struct Head {
    kind: u32,
    /// The number of the first element.
    first: i32,
}

impl Head {
    fn array(&self, lengths: &[usize], values: &BinaryArray, elements: std::ops::Range<usize>) -> Vec<u8> {
        let mut bytes = Vec::new();
        // An array without elements has no dimensions; a vector has always one.
        let lengths = if elements.is_empty() && self.first == 1 { &[] } else { lengths };
        let has_null = elements.clone().any(|at| values.is_null(at));
        put(&mut bytes, lengths.len());
        bytes.extend(i32::from(has_null).to_be_bytes());
        bytes.extend(self.kind.to_be_bytes());
        for length in lengths {
            put(&mut bytes, *length);
            bytes.extend(self.first.to_be_bytes());
        }
        for at in elements {
            put_value(&mut bytes, values.is_valid(at).then(|| values.value(at)));
        }
        bytes
    }
}

fn put(bytes: &mut Vec<u8>, count: usize) {
    bytes.extend(i32::try_from(count).unwrap_or(i32::MAX).to_be_bytes());
}

fn put_value(bytes: &mut Vec<u8>, value: Option<&[u8]>) {
    match value {
        Some(value) => {
            put(bytes, value.len());
            bytes.extend_from_slice(value);
        }
        None => bytes.extend((-1_i32).to_be_bytes()),
    }
}

/// Vectors in binary: arrays whose first element has the number 0.
pub fn vector_bytes(array: &ArrayRef, item: &Form, looks: Looks) -> Rendered {
    let lists = usual(array)?;
    let values = item.bytes(lists.values(), looks)?;
    let values = values.as_binary::<i32>();
    let head = Head { kind: item.pg_type().oid(), first: 0 };
    let row = |row: usize| {
        let places = places(&lists, row);
        lists.is_valid(row).then(|| head.array(&[places.len()], values, places))
    };
    Ok(Arc::new((0..lists.len()).map(row).collect::<BinaryArray>()))
}

/// Rows in binary.
pub fn record_bytes(array: &ArrayRef, fields: &[Form], looks: Looks) -> Rendered {
    let array = plain(array)?;
    let Some(records) = array.as_struct_opt() else { return Err(no_record(&array)) };
    let columns = records.columns().iter().zip(fields).map(|(column, form)| form.bytes(column, looks));
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    let row = |row: usize| {
        let mut bytes = Vec::new();
        put(&mut bytes, fields.len());
        for (column, form) in columns.iter().zip(fields) {
            bytes.extend(form.pg_type().oid().to_be_bytes());
            let column = column.as_binary::<i32>();
            put_value(&mut bytes, column.is_valid(row).then(|| column.value(row)));
        }
        records.is_valid(row).then_some(bytes)
    };
    Ok(Arc::new((0..records.len()).map(row).collect::<BinaryArray>()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use arrow::array::{Decimal128Array, Int32Array, StructArray};
    use arrow::buffer::OffsetBuffer;
    use arrow::datatypes::Field;

    use super::super::interval_styles::Style;
    use super::*;

    const LOOKS: Looks = Looks { digits: 1, intervals: Style::Postgres, escaped_bytes: false };

    fn list(values: ArrayRef, lengths: &[usize]) -> ArrayRef {
        let field = Arc::new(Field::new_list_field(values.data_type().clone(), true));
        let offsets = OffsetBuffer::from_lengths(lengths.iter().copied());
        Arc::new(ListArray::new(field, offsets, values, None))
    }

    fn text(array: &ArrayRef) -> String {
        let form = Form::of(&Field::new("c", array.data_type().clone(), true));
        form.texts(array, LOOKS).unwrap().as_string::<i32>().value(0).to_owned()
    }

    fn bytes(array: &ArrayRef) -> Result<Vec<u8>, ArrowError> {
        let form = Form::of(&Field::new("c", array.data_type().clone(), true));
        Ok(form.bytes(array, LOOKS)?.as_binary::<i32>().value(0).to_vec())
    }

    #[test]
    fn texts_are_quoted_where_they_must_be() {
        let words: ArrayRef = Arc::new(StringArray::from(vec![
            Some("a"),
            Some("a b"),
            Some("null"),
            None,
            Some("q\""),
            Some(""),
        ]));
        assert_eq!(text(&list(words, &[6])), r#"{a,"a b","null",NULL,"q\"",""}"#);
        let decimals = Decimal128Array::from(vec![Some(150), None]).with_precision_and_scale(3, 2).unwrap();
        assert_eq!(text(&list(Arc::new(decimals), &[2])), "{1.50,NULL}");
    }

    #[test]
    fn arrays_have_any_number_of_dimensions() {
        let numbers: ArrayRef = Arc::new(Int32Array::from(vec![1, 2, 3, 4]));
        let square = list(list(Arc::clone(&numbers), &[2, 2]), &[2]);
        assert_eq!(text(&square), "{{1,2},{3,4}}");
        let head = bytes(&square).unwrap();
        assert_eq!(head.get(..28).unwrap().to_vec(), {
            [2, 0, 23, 2, 1, 2, 1].iter().flat_map(|part: &i32| part.to_be_bytes()).collect::<Vec<_>>()
        });
        assert!(bytes(&list(list(numbers, &[1, 3]), &[2])).is_err(), "not a rectangle");
        let empty: ArrayRef = Arc::new(Int32Array::from(Vec::<i32>::new()));
        assert_eq!(text(&list(list(Arc::clone(&empty), &[0, 0]), &[2])), "{}");
        assert_eq!(bytes(&list(empty, &[0])).unwrap(), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 23]);
    }

    #[test]
    fn rows_have_brackets() {
        let fields: Vec<(Arc<Field>, ArrayRef)> = vec![
            (Arc::new(Field::new("a", DataType::Int32, true)), Arc::new(Int32Array::from(vec![1]))),
            (Arc::new(Field::new("b", DataType::Utf8, true)), Arc::new(StringArray::from(vec!["x, \"y\""]))),
            (Arc::new(Field::new("c", DataType::Int32, true)), Arc::new(Int32Array::from(vec![None]))),
        ];
        let record: ArrayRef = Arc::new(StructArray::from(fields));
        assert_eq!(text(&record), r#"(1,"x, ""y""",)"#);
        assert_eq!(bytes(&record).unwrap().get(..4), Some([0, 0, 0, 3].as_slice()));
    }
}
