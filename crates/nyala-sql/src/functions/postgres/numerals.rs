//! Digits of numbers, and characters by their code points.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int32Array, StringViewArray, StringViewBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Decimal128Type, Int32Type, Int64Type};
use datafusion::common::Result;
use datafusion::logical_expr::ScalarUDF;

use crate::error::{ErrorKind, QueryError};
use crate::functions::plain::{Call, Plain, is_text, is_whole};

/// The functions, by name.
pub fn functions() -> Vec<Arc<ScalarUDF>> {
    let one_text = |types: &[DataType]| match types {
        [text] if is_text(text) => Some(vec![DataType::Utf8View]),
        _ => None,
    };
    vec![
        Plain::udf("scale", one_decimal, |_| DataType::Int32, |call| Ok(scales(call, false))),
        Plain::udf("min_scale", one_decimal, |_| DataType::Int32, |call| Ok(scales(call, true))),
        Plain::udf("trim_scale", one_decimal, first, |call| Ok(Arc::clone(only(call)?))),
        Plain::udf("to_hex", one_integer, |_| DataType::Utf8View, in_hex),
        Plain::udf(
            "chr",
            |types| one_integer(types).map(|_| vec![DataType::Int64]),
            |_| DataType::Utf8View,
            signs,
        ),
        Plain::udf("unistr", one_text, |_| DataType::Utf8View, unescaped),
        Plain::udf("convert_from", bytes_and_name, |_| DataType::Utf8View, from_bytes),
        Plain::udf("convert_to", text_and_name, |_| DataType::Binary, to_bytes),
    ]
}

fn first(types: &[DataType]) -> DataType {
    types.first().cloned().unwrap_or(DataType::Null)
}

fn only<'a>(call: &Call<'a>) -> Result<&'a ArrayRef> {
    call.arrays.first().ok_or_else(|| QueryError::internal("a function has no argument").into())
}

fn one_decimal(types: &[DataType]) -> Option<Vec<DataType>> {
    match types {
        [number @ DataType::Decimal128(..)] => Some(vec![number.clone()]),
        [number] if number.is_decimal() => Some(vec![DataType::Decimal128(38, 10)]),
        [number] if is_whole(number) => Some(vec![DataType::Decimal128(20, 0)]),
        _ => None,
    }
}

fn one_integer(types: &[DataType]) -> Option<Vec<DataType>> {
    match types {
        [DataType::Int8 | DataType::Int16 | DataType::Int32] => Some(vec![DataType::Int32]),
        [number] if is_whole(number) => Some(vec![DataType::Int64]),
        _ => None,
    }
}

/// Digits after the point: as many as are written, or as many as are needed.
fn scales(call: &Call<'_>, needed: bool) -> ArrayRef {
    let numbers = call.arrays.first().and_then(|array| array.as_primitive_opt::<Decimal128Type>());
    let Some(numbers) = numbers else { return Arc::new(Int32Array::new_null(call.rows())) };
    let scale = |number: i128| {
        let (mut number, mut scale) = (number, i32::from(numbers.scale()));
        while needed && scale > 0 && number % 10 == 0 {
            (number, scale) = (number / 10, scale - 1);
        }
        scale
    };
    Arc::new(numbers.iter().map(|number| number.map(scale)).collect::<Int32Array>())
}

fn in_hex(call: &Call<'_>) -> Result<ArrayRef> {
    let array = only(call)?;
    let texts: StringViewArray = match array.as_primitive_opt::<Int32Type>() {
        Some(numbers) => numbers.iter().map(|number| number.map(|number| format!("{number:x}"))).collect(),
        None => {
            let numbers = cast(array, &DataType::Int64)?;
            let numbers = numbers.as_primitive::<Int64Type>();
            numbers.iter().map(|number| number.map(|number| format!("{number:x}"))).collect()
        }
    };
    Ok(Arc::new(texts))
}

fn signs(call: &Call<'_>) -> Result<ArrayRef> {
    let mut built = StringViewBuilder::with_capacity(call.rows());
    for number in call.integers(0, 0)? {
        let Some(number) = number else {
            built.append_null();
            continue;
        };
        let limit =
            |message: &str| QueryError::new(ErrorKind::LimitExceeded, message.to_owned()).sqlstate("54000");
        if number == 0 {
            return Err(limit("null character not permitted").into());
        }
        if number < 0 {
            return Err(limit("character number must be positive").into());
        }
        let sign = u32::try_from(number).ok().and_then(char::from_u32);
        let sign =
            sign.ok_or_else(|| limit(&format!("requested character not valid for encoding: {number}")))?;
        built.append_value(sign.encode_utf8(&mut [0; 4]));
    }
    Ok(Arc::new(built.finish()))
}

/// Replaces `\0041`, `\+000041`, `\u0041` and `\U00000041` by the characters with these code points.
fn unescaped(call: &Call<'_>) -> Result<ArrayRef> {
    let texts = call.texts(0)?;
    let unescaped = texts.iter().map(|text| text.map(unescape).transpose());
    Ok(Arc::new(unescaped.collect::<Result<StringViewArray, QueryError>>()?))
}

fn unescape(text: &str) -> Result<String, QueryError> {
    let mut written = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('\\') {
        written.push_str(before);
        if let Some(behind) = behind.strip_prefix('\\') {
            written.push('\\');
            rest = behind;
            continue;
        }
        let (prefix, digits) = match behind.as_bytes().first() {
            Some(b'+') => (1, 6),
            Some(b'u') => (1, 4),
            Some(b'U') => (1, 8),
            _ => (0, 4),
        };
        let sign = behind
            .get(prefix..prefix + digits)
            .and_then(|digits| u32::from_str_radix(digits, 16).ok())
            .and_then(char::from_u32)
            .ok_or_else(|| QueryError::new(ErrorKind::Syntax, "invalid Unicode escape"))?;
        written.push(sign);
        rest = behind.get(prefix + digits..).unwrap_or_default();
    }
    written.push_str(rest);
    Ok(written)
}

fn bytes_and_name(types: &[DataType]) -> Option<Vec<DataType>> {
    match types {
        [bytes, name] if !bytes.is_numeric() && is_text(name) => {
            Some(vec![DataType::Binary, DataType::Utf8View])
        }
        _ => None,
    }
}

fn text_and_name(types: &[DataType]) -> Option<Vec<DataType>> {
    match types {
        [text, name] if is_text(text) && is_text(name) => Some(vec![DataType::Utf8View, DataType::Utf8View]),
        _ => None,
    }
}

fn from_bytes(call: &Call<'_>) -> Result<ArrayRef> {
    let bytes = cast(only(call)?, &DataType::Binary)?;
    let names = call.texts(1)?;
    let texts = bytes.as_binary::<i32>().iter().zip(&names).map(|pair| {
        let (Some(bytes), Some(name)) = pair else { return Ok(None) };
        let read = std::str::from_utf8(checked(name, bytes)?).map(|text| Some(text.to_owned()));
        read.map_err(|_| {
            QueryError::new(ErrorKind::Data, "invalid byte sequence for encoding \"UTF8\"").sqlstate("22021")
        })
    });
    Ok(Arc::new(texts.collect::<Result<StringViewArray, QueryError>>()?))
}

fn to_bytes(call: &Call<'_>) -> Result<ArrayRef> {
    let (texts, names) = (call.texts(0)?, call.texts(1)?);
    let bytes = texts.iter().zip(&names).map(|pair| {
        let (Some(text), Some(name)) = pair else { return Ok(None) };
        checked(name, text.as_bytes()).map(|bytes| Some(bytes.to_vec()))
    });
    let bytes = bytes.collect::<Result<Vec<_>, QueryError>>()?;
    Ok(Arc::new(arrow::array::BinaryArray::from_iter(bytes)))
}

/// The bytes, if the encoding is one that they have.
fn checked<'b>(name: &str, bytes: &'b [u8]) -> Result<&'b [u8], QueryError> {
    let folded: String = name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_lowercase();
    match folded.as_str() {
        "utf8" | "unicode" => Ok(bytes),
        "sqlascii" | "latin1" | "iso88591" if bytes.is_ascii() => Ok(bytes),
        _ => Err(QueryError::new(ErrorKind::Unsupported, format!("encoding \"{name}\" is not supported"))
            .hint("texts are UTF-8: write 'UTF8'")),
    }
}
