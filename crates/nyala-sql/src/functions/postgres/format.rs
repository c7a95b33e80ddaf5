//! `format`, and how many values are NULL.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int32Array, StringViewArray, StringViewBuilder};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::ScalarUDF;

use super::quoting::{literal, name};
use crate::error::{ErrorKind, QueryError};
use crate::functions::plain::{Call, Plain, is_text};

/// The widest field.
const MAX_WIDTH: usize = 1 << 20;

/// The functions, by name.
pub fn functions() -> [Arc<ScalarUDF>; 3] {
    let any = |types: &[DataType]| (!types.is_empty()).then(|| types.to_vec());
    [
        Plain::udf("format", written_as, |_| DataType::Utf8View, formatted),
        Plain::udf("num_nulls", any, |_| DataType::Int32, |call| Ok(counted(call, true))),
        Plain::udf("num_nonnulls", any, |_| DataType::Int32, |call| Ok(counted(call, false))),
    ]
}

/// Values of most types are cast to text before the call. Booleans are not, because `format` writes them as one letter.
fn written_as(types: &[DataType]) -> Option<Vec<DataType>> {
    let (first, values) = types.split_first()?;
    let written = values.iter().map(|value| match value {
        DataType::Boolean => DataType::Boolean,
        _ => DataType::Utf8View,
    });
    is_text(first).then(|| std::iter::once(DataType::Utf8View).chain(written).collect())
}

fn counted(call: &Call<'_>, nulls: bool) -> ArrayRef {
    // An array of the type Null has no bitmap of nulls.
    let known: Vec<_> = call.arrays.iter().map(|array| array.logical_nulls()).collect();
    let is_null = |of: &Option<NullBuffer>, row: usize| of.as_ref().is_some_and(|of| of.is_null(row));
    let count = |row: usize| known.iter().filter(|of| is_null(of, row) == nulls).count();
    Arc::new((0..call.rows()).map(|row| i32::try_from(count(row)).ok()).collect::<Int32Array>())
}

fn formatted(call: &Call<'_>) -> Result<ArrayRef> {
    let formats = call.texts(0)?;
    let values = call.arrays.iter().skip(1).map(texts).collect::<Result<Vec<_>>>()?;
    let mut built = StringViewBuilder::with_capacity(call.rows());
    for (row, format) in formats.iter().enumerate() {
        let value = |at: usize| values.get(at).map(|texts| texts.is_valid(row).then(|| texts.value(row)));
        built.append_option(format.map(|format| filled_in(format, &value)).transpose()?);
    }
    Ok(Arc::new(built.finish()))
}

fn texts(array: &ArrayRef) -> Result<StringViewArray> {
    if let Some(truths) = array.as_boolean_opt() {
        return Ok(truths.iter().map(|truth| truth.map(|truth| if truth { "t" } else { "f" })).collect());
    }
    Ok(cast(array, &DataType::Utf8View)?.as_string_view().clone())
}

fn refused(message: String) -> QueryError {
    QueryError::new(ErrorKind::InvalidParameter, message)
        .hint("a place is written `%s`, `%I` or `%L`, perhaps with `n$` and a width; `%%` is a `%`")
}

/// `value` gives the argument at a place: an outer none if there are fewer arguments, and an inner none if it is NULL.
fn filled_in<'a>(
    format: &str,
    value: &dyn Fn(usize) -> Option<Option<&'a str>>,
) -> Result<String, QueryError> {
    let mut text = String::new();
    let mut next = 0;
    let mut rest = format;
    while let Some((before, behind)) = rest.split_once('%') {
        text.push_str(before);
        if let Some(behind) = behind.strip_prefix('%') {
            text.push('%');
            rest = behind;
            continue;
        }
        let (place, behind) = Place::read(behind, &mut next, value)?;
        place.write(&mut text, value)?;
        rest = behind;
    }
    text.push_str(rest);
    Ok(text)
}

/// A placeholder of a format.
struct Place {
    argument: usize,
    width: usize,
    is_left: bool,
    kind: char,
}

impl Place {
    fn read<'f, 'a>(
        text: &'f str,
        next: &mut usize,
        value: &dyn Fn(usize) -> Option<Option<&'a str>>,
    ) -> Result<(Self, &'f str), QueryError> {
        let (position, mut rest) = match number(text) {
            Some((position, rest)) if rest.starts_with('$') => {
                (Some(position), rest.get(1..).unwrap_or_default())
            }
            _ => (None, text),
        };
        let mut is_left = false;
        while let Some(behind) = rest.strip_prefix('-') {
            (is_left, rest) = (true, behind);
        }
        let mut width = 0;
        if let Some(behind) = rest.strip_prefix('*') {
            let (at, behind) = match number(behind) {
                Some((at, behind)) if behind.starts_with('$') => {
                    (at.saturating_sub(1), behind.get(1..).unwrap_or_default())
                }
                _ => (take(next), behind),
            };
            let text = value(at).ok_or_else(too_few)?.unwrap_or("0");
            let wanted: i64 =
                text.parse().map_err(|_| refused(format!("invalid width for format(): \"{text}\"")))?;
            is_left |= wanted < 0;
            (width, rest) = (usize::try_from(wanted.unsigned_abs()).unwrap_or(usize::MAX), behind);
        } else if let Some((wanted, behind)) = number(rest) {
            (width, rest) = (wanted, behind);
        }
        let kind =
            rest.chars().next().ok_or_else(|| refused("unterminated format() type specifier".to_owned()))?;
        if !matches!(kind, 's' | 'I' | 'L') {
            return Err(refused(format!("unrecognized format() type specifier \"{kind}\"")));
        }
        if position == Some(0) {
            return Err(refused("format specifies argument 0, but arguments are numbered from 1".to_owned()));
        }
        let argument = match position {
            Some(position) => {
                *next = position;
                position - 1
            }
            None => take(next),
        };
        if width > MAX_WIDTH {
            return Err(QueryError::new(
                ErrorKind::LimitExceeded,
                format!("a field of `format` has at most {MAX_WIDTH} characters, not {width}"),
            ));
        }
        Ok((Self { argument, width, is_left, kind }, rest.get(1..).unwrap_or_default()))
    }

    fn write<'a>(
        &self,
        text: &mut String,
        value: &dyn Fn(usize) -> Option<Option<&'a str>>,
    ) -> Result<(), QueryError> {
        let value = value(self.argument).ok_or_else(too_few)?;
        let written = match (self.kind, value) {
            ('I', None) => {
                return Err(QueryError::new(
                    ErrorKind::NullValue,
                    "null values cannot be formatted as an SQL identifier",
                )
                .sqlstate("22004"));
            }
            ('I', Some(value)) => name(value),
            ('L', None) => "NULL".to_owned(),
            ('L', Some(value)) => literal(value),
            (_, value) => value.unwrap_or_default().to_owned(),
        };
        let padding = self.width.saturating_sub(written.chars().count());
        let padding = std::iter::repeat_n(' ', padding);
        if self.is_left {
            text.push_str(&written);
            text.extend(padding);
        } else {
            text.extend(padding);
            text.push_str(&written);
        }
        Ok(())
    }
}

fn too_few() -> QueryError {
    refused("too few arguments for format()".to_owned())
}

fn take(next: &mut usize) -> usize {
    *next += 1;
    *next - 1
}

/// The digits that a text begins with.
fn number(text: &str) -> Option<(usize, &str)> {
    let end = text.find(|sign: char| !sign.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at_checked(end)?;
    Some((digits.parse().ok()?, rest))
}
