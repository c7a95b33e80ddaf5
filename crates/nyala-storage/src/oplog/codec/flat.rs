//! Arrow arrays as plain buffers that start at their first value, and back.
//!
//! Every type is one of few shapes. Text and binary of every Arrow type have one form, offsets and bytes: views are
//! built when an array is made.

use arrow_array::{
    Array, BinaryArray, BinaryViewArray, StringArray, StringViewArray, cast::AsArray, make_array,
};
use arrow_buffer::{ArrowNativeType, BooleanBuffer, Buffer, bit_util};
use arrow_data::ArrayData;
use arrow_schema::DataType;

use super::text_bytes;

/// How the values of a type lie in buffers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Nothing but nulls, in no buffer.
    Null,
    Bits,
    Fixed(usize),
    /// Offsets of 4 bytes, then bytes.
    Bytes,
    /// Offsets of 8 bytes, then bytes.
    LargeBytes,
    /// Offsets of 4 bytes, then a child.
    List,
    /// Offsets of 8 bytes, then a child.
    LargeList,
    /// A child with so many values for each.
    FixedList(usize),
    /// A child for each field.
    Struct,
}

/// An array as buffers.
#[derive(Debug, Clone, Default)]
pub struct Flat {
    pub rows: usize,
    /// Bit 1 for each row with a value; none if no row is null.
    pub nulls: Option<Buffer>,
    pub buffers: Vec<Buffer>,
    pub children: Vec<Flat>,
}

impl Part {
    /// The shape of a type; `None` for types that live tables do not hold.
    pub(crate) fn of(data_type: &DataType) -> Option<Self> {
        Some(match data_type {
            DataType::Null => Self::Null,
            DataType::Boolean => Self::Bits,
            DataType::Utf8 | DataType::Binary | DataType::Utf8View | DataType::BinaryView => Self::Bytes,
            DataType::LargeUtf8 | DataType::LargeBinary => Self::LargeBytes,
            DataType::List(_) | DataType::Map(..) => Self::List,
            DataType::LargeList(_) => Self::LargeList,
            DataType::FixedSizeList(_, length) => Self::FixedList(usize::try_from(*length).ok()?),
            DataType::Struct(_) => Self::Struct,
            DataType::FixedSizeBinary(width) => Self::Fixed(usize::try_from(*width).ok()?),
            other => Self::Fixed(other.primitive_width()?),
        })
    }
}

/// Takes an array apart; `None` for types that live tables do not hold, and for views of more bytes than offsets of 4
/// bytes can address.
pub fn flatten(array: &dyn Array) -> Option<Flat> {
    let fits = || text_bytes(array) <= i32::MAX as u64;
    match array.data_type() {
        DataType::Utf8View | DataType::BinaryView if !fits() => None,
        DataType::Utf8View => {
            let plain: StringArray = array.as_string_view().iter().collect();
            flatten_data(&plain.to_data())
        }
        DataType::BinaryView => {
            let plain: BinaryArray = array.as_binary_view().iter().collect();
            flatten_data(&plain.to_data())
        }
        _ => flatten_data(&array.to_data()),
    }
}

fn flatten_data(data: &ArrayData) -> Option<Flat> {
    let (offset, rows) = (data.offset(), data.len());
    let first = || data.buffers().first();
    let child = |from: usize, rows: usize| flatten_slice(data.child_data().first()?, from, rows);
    let (mut buffers, mut children) = (Vec::new(), Vec::new());
    match Part::of(data.data_type())? {
        Part::Null => {}
        Part::Bits => buffers.push(BooleanBuffer::new(first()?.clone(), offset, rows).sliced()),
        Part::Fixed(width) => buffers.push(cut(first()?, offset * width, rows * width)?),
        Part::Bytes => {
            let (offsets, from, to) = rebase::<i32>(first()?, offset, rows)?;
            buffers.extend([offsets, cut(data.buffers().get(1)?, from, to - from)?]);
        }
        Part::LargeBytes => {
            let (offsets, from, to) = rebase::<i64>(first()?, offset, rows)?;
            buffers.extend([offsets, cut(data.buffers().get(1)?, from, to - from)?]);
        }
        Part::List => {
            let (offsets, from, to) = rebase::<i32>(first()?, offset, rows)?;
            buffers.push(offsets);
            children.push(child(from, to - from)?);
        }
        Part::LargeList => {
            let (offsets, from, to) = rebase::<i64>(first()?, offset, rows)?;
            buffers.push(offsets);
            children.push(child(from, to - from)?);
        }
        Part::FixedList(length) => children.push(child(offset * length, rows * length)?),
        Part::Struct => {
            for field in data.child_data() {
                children.push(flatten_slice(field, offset, rows)?);
            }
        }
    }
    let nulls = data.nulls().filter(|nulls| nulls.null_count() > 0).map(|nulls| nulls.inner().sliced());
    Some(Flat { rows, nulls, buffers, children })
}

/// Slices of data that are structs slice their children twice, slices of arrays do not.
fn flatten_slice(data: &ArrayData, from: usize, rows: usize) -> Option<Flat> {
    flatten(&make_array(data.clone()).slice(from, rows))
}

fn cut(buffer: &Buffer, offset: usize, bytes: usize) -> Option<Buffer> {
    (offset + bytes <= buffer.len()).then(|| buffer.slice_with_length(offset, bytes))
}

/// Offsets rebased to start at 0, and the range of values or bytes they cover.
pub fn rebase<O: ArrowNativeType + std::ops::Sub<Output = O>>(
    buffer: &Buffer,
    offset: usize,
    rows: usize,
) -> Option<(Buffer, usize, usize)> {
    if rows == 0 {
        return Some((Buffer::from_vec(vec![O::default()]), 0, 0));
    }
    let width = size_of::<O>();
    let own = cut(buffer, offset * width, (rows + 1) * width)?;
    let (from, to) = {
        let values: &[O] = own.typed_data();
        (*values.first()?, *values.last()?)
    };
    let rebased = if from == O::default() {
        own
    } else {
        let values: &[O] = own.typed_data();
        Buffer::from_vec(values.iter().map(|value| *value - from).collect::<Vec<O>>())
    };
    Some((rebased, from.as_usize(), to.as_usize()))
}

/// Puts an array together. Arrow checks everything: lengths, offsets, UTF-8.
pub fn inflate(data_type: &DataType, flat: Flat) -> Option<arrow_array::ArrayRef> {
    let plain = match data_type {
        DataType::Utf8View => &DataType::Utf8,
        DataType::BinaryView => &DataType::Binary,
        other => other,
    };
    let array = make_array(inflate_data(plain, flat)?);
    Some(match data_type {
        DataType::Utf8View => std::sync::Arc::new(StringViewArray::from(array.as_string::<i32>())),
        DataType::BinaryView => std::sync::Arc::new(BinaryViewArray::from(array.as_binary::<i32>())),
        _ => array,
    })
}

fn inflate_data(data_type: &DataType, flat: Flat) -> Option<ArrayData> {
    if flat.nulls.as_ref().is_some_and(|nulls| nulls.len() < bit_util::ceil(flat.rows, 8)) {
        return None;
    }
    let mut children = Vec::new();
    let types = child_types(data_type);
    if types.len() != flat.children.len() {
        return None;
    }
    for (data_type, child) in types.into_iter().zip(flat.children) {
        children.push(inflate(data_type, child)?.to_data());
    }
    let builder = ArrayData::builder(data_type.clone())
        .len(flat.rows)
        .null_bit_buffer(flat.nulls)
        .buffers(flat.buffers)
        .child_data(children);
    builder.build().ok()
}

/// Types of the children of a nested type, in order.
pub fn child_types(data_type: &DataType) -> Vec<&DataType> {
    match data_type {
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => vec![item.data_type()],
        DataType::Struct(fields) => fields.iter().map(|field| field.data_type()).collect(),
        _ => Vec::new(),
    }
}
