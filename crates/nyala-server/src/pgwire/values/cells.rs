//! The values of one column of a batch, written one by one into DataRow messages.
//!
//! Results of dashboards are mostly names, numbers and sums, and writing them is a good part of such a query's
//! cost. They go straight into the buffer of the connection, by `extend_from_slice`, which is inlined, unlike the
//! methods of `BufMut`.

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, BinaryArray, PrimitiveArray};
use arrow::array::{LargeStringArray, MAX_INLINE_VIEW_LEN, StringArray, StringViewArray};
use arrow::datatypes::{DataType, Int16Type, Int32Type, Int64Type};
use bytes::BytesMut;
use pgwire::api::results::FieldFormat;

/// Length of a value that is NULL.
const NULL: i32 = -1;

/// A column, and how it is written.
pub enum Cells<'a> {
    Text(Nulls<'a>, Texts<'a>),
    Int2(Nulls<'a>, &'a PrimitiveArray<Int16Type>, FieldFormat),
    Int4(Nulls<'a>, &'a PrimitiveArray<Int32Type>, FieldFormat),
    Int8(Nulls<'a>, &'a PrimitiveArray<Int64Type>, FieldFormat),
    Bytes(Nulls<'a>, &'a BinaryArray),
}

/// Which rows have no value.
pub struct Nulls<'a>(Option<&'a dyn Array>);

/// Texts in any of their layouts.
pub enum Texts<'a> {
    Short(&'a StringArray),
    Long(&'a LargeStringArray),
    Views(&'a StringViewArray),
}

impl<'a> Cells<'a> {
    /// Cells of a rendered array; none if rendering does not give arrays of its type.
    pub fn of(array: &'a ArrayRef, format: FieldFormat) -> Option<Self> {
        let nulls = Nulls(array.is_nullable().then_some(array.as_ref()));
        Some(match array.data_type() {
            DataType::Utf8 => Self::Text(nulls, Texts::Short(array.as_string_opt()?)),
            DataType::LargeUtf8 => Self::Text(nulls, Texts::Long(array.as_string_opt()?)),
            DataType::Utf8View => Self::Text(nulls, Texts::Views(array.as_string_view_opt()?)),
            DataType::Binary => Self::Bytes(nulls, array.as_binary_opt()?),
            DataType::Int16 => Self::Int2(nulls, array.as_primitive_opt()?, format),
            DataType::Int32 => Self::Int4(nulls, array.as_primitive_opt()?, format),
            DataType::Int64 => Self::Int8(nulls, array.as_primitive_opt()?, format),
            _ => return None,
        })
    }

    /// Appends the length and the value of one row.
    pub fn write(&self, row: usize, out: &mut BytesMut) {
        match self {
            Self::Text(nulls, _)
            | Self::Bytes(nulls, _)
            | Self::Int2(nulls, ..)
            | Self::Int4(nulls, ..)
            | Self::Int8(nulls, ..)
                if nulls.has(row) =>
            {
                out.extend_from_slice(&NULL.to_be_bytes());
            }
            Self::Text(_, Texts::Views(texts)) => put_view(out, texts, row),
            Self::Text(_, texts) => put(out, texts.get(row).as_bytes()),
            Self::Bytes(_, values) => put(out, values.value(row)),
            Self::Int2(_, numbers, FieldFormat::Binary) => put(out, &value(numbers, row).to_be_bytes()),
            Self::Int4(_, numbers, FieldFormat::Binary) => put(out, &value(numbers, row).to_be_bytes()),
            Self::Int8(_, numbers, FieldFormat::Binary) => put(out, &value(numbers, row).to_be_bytes()),
            Self::Int2(_, numbers, FieldFormat::Text) => put_digits(out, value(numbers, row)),
            Self::Int4(_, numbers, FieldFormat::Text) => put_digits(out, value(numbers, row)),
            Self::Int8(_, numbers, FieldFormat::Text) => put_digits(out, value(numbers, row)),
        }
    }
}

impl Nulls<'_> {
    fn has(&self, row: usize) -> bool {
        self.0.is_some_and(|array| array.is_null(row))
    }
}

impl Texts<'_> {
    fn get(&self, row: usize) -> &str {
        match self {
            Self::Short(texts) => texts.value(row),
            Self::Long(texts) => texts.value(row),
            Self::Views(texts) => texts.value(row),
        }
    }
}

fn value<T: ArrowPrimitiveType>(numbers: &PrimitiveArray<T>, row: usize) -> T::Native {
    numbers.values().get(row).copied().unwrap_or_default()
}

fn put_digits(out: &mut BytesMut, number: impl itoa::Integer) {
    put(out, itoa::Buffer::new().format(number).as_bytes());
}

/// A text of at most 12 bytes, as most names are, is in its view: the whole view is copied and cut to the text's
/// length, which is faster than a copy of so many bytes.
fn put_view(out: &mut BytesMut, texts: &StringViewArray, row: usize) {
    match texts.views().get(row) {
        Some(view) if *view as u32 <= MAX_INLINE_VIEW_LEN => {
            let length = *view as u32;
            let mut cell = view.to_le_bytes();
            if let Some((place, _)) = cell.split_first_chunk_mut::<4>() {
                *place = length.to_be_bytes();
            }
            let end = out.len() + 4 + length as usize;
            out.extend_from_slice(&cell);
            out.truncate(end);
        }
        _ => put(out, texts.value(row).as_bytes()),
    }
}

fn put(out: &mut BytesMut, value: &[u8]) {
    // A value comes from an Arrow array with offsets or views of four bytes, or is one text of a large array: the
    // message that it is in is refused if it grows too long.
    out.extend_from_slice(&(value.len() as i32).to_be_bytes());
    out.extend_from_slice(value);
}
