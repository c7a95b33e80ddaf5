//! Lengths of the arguments of a call, row by row, without a copy of them.

use std::cell::OnceCell;

use arrow::array::{Array, ArrayRef, AsArray, OffsetSizeTrait};
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::ColumnarValue;

use super::numbers::numbers;

/// A number of bytes, elements or steps. The product of two lengths fits.
pub type Amount = u128;

/// Bytes of an element of a list, or of a number.
const ELEMENT_BYTES: Amount = 16;

/// Bytes that a function gives for one batch of rows at most.
pub const MAX_BYTES: Amount = 256 << 20;
/// Bytes that a function gives for constants at most. The planner computes these, and then copies, compares
/// and prints them: 200 MB take 6 s (2026-11-25), in which the statement cannot be cancelled.
const MAX_CONSTANT_BYTES: Amount = 32 << 20;

/// The arguments of one call for a batch of rows.
pub struct Arguments<'a> {
    values: &'a [ColumnarValue],
    numbers: Vec<OnceCell<Vec<Option<i128>>>>,
    /// Rows that are computed: one if no argument differs between rows.
    pub rows: usize,
    is_constant: bool,
}

impl<'a> Arguments<'a> {
    pub fn new(values: &'a [ColumnarValue], rows: usize) -> Self {
        let varies = values.iter().any(|value| matches!(value, ColumnarValue::Array(_)));
        let is_constant = !varies && !values.is_empty();
        let numbers = values.iter().map(|_| OnceCell::new()).collect();
        Self { values, numbers, rows: if is_constant { 1 } else { rows }, is_constant }
    }

    /// Bytes that the call gives at most.
    pub fn max_bytes(&self) -> Amount {
        if self.is_constant { MAX_CONSTANT_BYTES } else { MAX_BYTES }
    }

    pub fn row(&self, at: usize) -> Row<'_> {
        Row { arguments: self, at: Some(at) }
    }

    /// A row with the largest value of each argument.
    pub fn largest(&self) -> Row<'_> {
        Row { arguments: self, at: None }
    }

    fn number(&self, argument: usize, at: Option<usize>) -> Option<i128> {
        let known = self.numbers.get(argument)?.get_or_init(|| match self.values.get(argument) {
            Some(ColumnarValue::Array(array)) => numbers(array).unwrap_or_default(),
            Some(ColumnarValue::Scalar(value)) => {
                value.to_array().and_then(|array| numbers(&array)).unwrap_or_default()
            }
            None => Vec::new(),
        });
        match (self.values.get(argument)?, at) {
            (ColumnarValue::Array(_), Some(at)) => known.get(at).copied().flatten(),
            _ => known.iter().flatten().copied().max(),
        }
    }
}

/// One row of the arguments.
#[derive(Clone, Copy)]
pub struct Row<'a> {
    arguments: &'a Arguments<'a>,
    /// The number of the row; none for a row made of the largest value of each argument.
    at: Option<usize>,
}

impl Row<'_> {
    pub fn count(&self) -> usize {
        self.arguments.values.len()
    }

    /// Bytes of an argument; none for NULL and for an argument that is not there.
    pub fn bytes(&self, argument: usize) -> Amount {
        self.measure(argument, bytes_at)
    }

    /// Elements of a list.
    pub fn elements(&self, argument: usize) -> Amount {
        self.measure(argument, elements_at)
    }

    /// Bytes of all arguments.
    pub fn all_bytes(&self) -> Amount {
        (0..self.count()).map(|argument| self.bytes(argument)).sum()
    }

    /// A number that is not negative; none for NULL.
    pub fn number(&self, argument: usize) -> Amount {
        self.signed(argument).and_then(|number| Amount::try_from(number).ok()).unwrap_or(0)
    }

    /// A number.
    pub fn signed(&self, argument: usize) -> Option<i128> {
        self.arguments.number(argument, self.at)
    }

    /// Whether this is a row of the batch, and not made of the largest values.
    pub fn is_exact(&self) -> bool {
        self.at.is_some()
    }

    fn measure(&self, argument: usize, of: fn(&ArrayRef, usize) -> Amount) -> Amount {
        match (self.arguments.values.get(argument), self.at) {
            (Some(ColumnarValue::Array(array)), Some(at)) => of(array, at),
            (Some(ColumnarValue::Array(array)), None) => {
                let each = || (0..array.len()).map(|at| of(array, at)).max().unwrap_or(0);
                longest(array).unwrap_or_else(each)
            }
            (Some(ColumnarValue::Scalar(value)), _) => of_scalar(value, of),
            (None, _) => 0,
        }
    }
}

fn of_scalar(value: &ScalarValue, of: fn(&ArrayRef, usize) -> Amount) -> Amount {
    match value.try_as_str() {
        Some(text) => text.map_or(0, |text| text.len() as Amount),
        None => value.to_array().map_or(0, |array| of(&array, 0)),
    }
}

/// Bytes of the longest text or bytes in an array, of which the lengths alone are looked at; none for other types.
fn longest(array: &ArrayRef) -> Option<Amount> {
    let longest = match array.data_type() {
        DataType::Utf8 => widest(array.as_string::<i32>().value_offsets()),
        DataType::Binary => widest(array.as_binary::<i32>().value_offsets()),
        DataType::LargeUtf8 => widest(array.as_string::<i64>().value_offsets()),
        DataType::LargeBinary => widest(array.as_binary::<i64>().value_offsets()),
        // A view's length is the lower half of its first word.
        DataType::Utf8View => longest_view(array.as_string_view().views()),
        DataType::BinaryView => longest_view(array.as_binary_view().views()),
        _ => return None,
    };
    Some(longest)
}

fn widest<O: OffsetSizeTrait>(offsets: &[O]) -> Amount {
    let widths = offsets.iter().zip(offsets.iter().skip(1)).map(|(begin, end)| *end - *begin);
    widths.max().map_or(0, |width| width.as_usize() as Amount)
}

fn longest_view(views: &[u128]) -> Amount {
    views.iter().map(|view| view & Amount::from(u32::MAX)).max().unwrap_or(0)
}

fn bytes_at(array: &ArrayRef, at: usize) -> Amount {
    if array.is_null(at) {
        return 0;
    }
    let length = match array.data_type() {
        DataType::Utf8 => array.as_string::<i32>().value(at).len(),
        DataType::LargeUtf8 => array.as_string::<i64>().value(at).len(),
        DataType::Utf8View => array.as_string_view().value(at).len(),
        DataType::Binary => array.as_binary::<i32>().value(at).len(),
        DataType::LargeBinary => array.as_binary::<i64>().value(at).len(),
        DataType::BinaryView => array.as_binary_view().value(at).len(),
        _ => return elements_at(array, at) * element_bytes(array),
    };
    length as Amount
}

fn elements_at(array: &ArrayRef, at: usize) -> Amount {
    if array.is_null(at) {
        return 0;
    }
    match array.data_type() {
        DataType::List(_) => array.as_list::<i32>().value_length(at) as Amount,
        DataType::LargeList(_) => array.as_list::<i64>().value_length(at) as Amount,
        DataType::FixedSizeList(_, length) => *length as Amount,
        DataType::Map(_, _) => array.as_map().value_length(at) as Amount,
        _ => 1,
    }
}

/// Average bytes of an element of a list.
fn element_bytes(array: &ArrayRef) -> Amount {
    let values = match array.data_type() {
        DataType::List(_) => array.as_list::<i32>().values(),
        DataType::LargeList(_) => array.as_list::<i64>().values(),
        DataType::FixedSizeList(..) => array.as_fixed_size_list().values(),
        _ => return ELEMENT_BYTES,
    };
    match values.len() {
        0 => ELEMENT_BYTES,
        count => ELEMENT_BYTES.max((values.get_array_memory_size() / count) as Amount),
    }
}
