//! Rows of a statement, compact: a row of ten columns costs some ten bytes more than its values.

use arrow_array::{Array, ArrayRef};
use arrow_buffer::{ArrowNativeType, bit_util};
use arrow_schema::DataType;

use super::{Flat, Growing, In, Out, Part, child_types, flatten};

/// Writes a number of rows and, unless it is 0, their columns. `None` for types that tables do not hold.
pub fn write_rows(out: &mut Out, rows: usize, columns: &[ArrayRef]) -> Option<()> {
    out.var(rows as u64);
    for column in columns.iter().filter(|_| rows > 0) {
        let flat = flatten(column)?;
        write_flat(out, column.data_type(), &flat)?;
    }
    Some(())
}

fn write_flat(out: &mut Out, data_type: &DataType, flat: &Flat) -> Option<()> {
    let flags_at = out.0.len();
    out.u8(u8::from(flat.nulls.is_some()));
    if let Some(nulls) = &flat.nulls {
        out.raw(nulls.get(..bit_util::ceil(flat.rows, 8))?);
    }
    let first = flat.buffers.first();
    let width = match Part::of(data_type)? {
        Part::Bits => {
            out.raw(first?.get(..bit_util::ceil(flat.rows, 8))?);
            0
        }
        Part::Fixed(_) => {
            out.raw(first?);
            0
        }
        Part::Bytes | Part::List => write_lengths(out, first?.typed_data::<i32>()),
        Part::LargeBytes | Part::LargeList => write_lengths(out, first?.typed_data::<i64>()),
        Part::FixedList(_) | Part::Struct | Part::Null => 0,
    };
    *out.0.get_mut(flags_at)? |= width << 1;
    if let Some(bytes) = flat.buffers.get(1) {
        out.raw(bytes);
    }
    for (data_type, child) in child_types(data_type).into_iter().zip(&flat.children) {
        write_flat(out, data_type, child)?;
    }
    Some(())
}

/// Lengths in the fewest bytes that hold the longest; gives the power of two of that number.
fn write_lengths<O: ArrowNativeType>(out: &mut Out, offsets: &[O]) -> u8 {
    let pairs = || offsets.iter().zip(offsets.iter().skip(1));
    let lengths = || pairs().map(|(from, to)| to.as_usize().saturating_sub(from.as_usize()) as u64);
    match lengths().fold(0, |longest, length| longest | length) {
        0..=0xFF => {
            out.0.extend(lengths().map(|length| length as u8));
            0
        }
        0x100..=0xFFFF => {
            out.0.extend(lengths().flat_map(|length| (length as u16).to_le_bytes()));
            1
        }
        0x1_0000..=0xFFFF_FFFF => {
            out.0.extend(lengths().flat_map(|length| (length as u32).to_le_bytes()));
            2
        }
        _ => {
            out.0.extend(lengths().flat_map(u64::to_le_bytes));
            3
        }
    }
}

/// Reads the output of [`write_rows`]; gives columns without rows if there are none.
pub fn read_rows(input: &mut In<'_>, types: &[&DataType]) -> Option<(usize, Vec<ArrayRef>)> {
    let rows = read_count(input)?;
    if rows == 0 {
        let empty = types.iter().map(|data_type| arrow_array::new_empty_array(data_type));
        return Some((0, empty.collect()));
    }
    let mut columns = Vec::with_capacity(types.len());
    for data_type in types {
        let mut column = Growing::new(data_type)?;
        column.append(input, rows)?;
        columns.push(column.finish(data_type)?);
    }
    Some((rows, columns))
}

/// The number of rows at the start. If it is not 0 the columns follow.
pub fn read_count(input: &mut In<'_>) -> Option<usize> {
    usize::try_from(input.var()?).ok().filter(|rows| *rows <= u32::MAX as usize)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::builder::{Int32Builder, ListBuilder, StringBuilder};
    use arrow_array::*;

    use super::*;

    fn check(column: ArrayRef) {
        for (offset, rows) in [(0, column.len()), (1, column.len() - 1), (1, 1), (0, 1), (0, 0)] {
            let slice = column.slice(offset, rows);
            let mut out = Out::default();
            write_rows(&mut out, rows, std::slice::from_ref(&slice)).unwrap();
            let mut input = In(&out.0);
            let (read, columns) = read_rows(&mut input, &[slice.data_type()]).unwrap();
            assert!(input.is_empty());
            assert_eq!(read, rows);
            assert_eq!(&columns[0], &slice, "{:?}", slice.data_type());
            for cut in 0..out.0.len() {
                let read = read_rows(&mut In(&out.0[..cut]), &[slice.data_type()]);
                assert!(read.is_none(), "cut at {cut}: {read:?}");
            }
        }
    }

    #[test]
    fn columns_of_all_shapes_come_back() {
        check(Arc::new(Int64Array::from(vec![Some(-1), None, Some(i64::MAX), Some(4)])));
        check(Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)])));
        check(Arc::new(StringArray::from(vec![Some("a"), None, Some(""), Some("bär")])));
        check(Arc::new(StringArray::from(vec!["x".repeat(300), "y".repeat(70_000), String::new()])));
        check(Arc::new(LargeBinaryArray::from(vec![Some(&b"abc"[..]), None, Some(&[0; 20])])));
        check(Arc::new(StringViewArray::from(vec![Some("short"), None, Some("longer than twelve bytes")])));
        check(Arc::new(Decimal128Array::from(vec![1, -2, 3])));
        check(Arc::new(FixedSizeBinaryArray::try_from_iter([[1u8, 2], [3, 4]].into_iter()).unwrap()));
        let mut list = ListBuilder::new(Int32Builder::new());
        list.append_value([Some(1), None]);
        list.append_null();
        list.append_value([Some(3)]);
        check(Arc::new(list.finish()));
        let entry = || -> ArrayRef {
            let numbers: ArrayRef = Arc::new(Int8Array::from(vec![Some(1), None, Some(3), Some(4)]));
            Arc::new(StructArray::try_from(vec![("n", numbers)]).unwrap())
        };
        let offsets = arrow_buffer::OffsetBuffer::new(vec![0, 1, 1, 4].into());
        let field = Arc::new(arrow_schema::Field::new("item", entry().data_type().clone(), true));
        check(Arc::new(ListArray::new(field, offsets, entry(), None)));
        let mut words = ListBuilder::new(StringBuilder::new());
        words.append_value([Some("a"), Some("bc")]);
        words.append_value([Some("def")]);
        let words: ArrayRef = Arc::new(words.finish());
        let numbers: ArrayRef = Arc::new(Int8Array::from(vec![Some(1), None]));
        check(Arc::new(StructArray::try_from(vec![("w", words), ("n", numbers)]).unwrap()));
    }

    #[test]
    fn one_row_is_small() {
        let columns: Vec<ArrayRef> = (0..10)
            .map(|i| match i % 2 {
                0 => Arc::new(Int64Array::from(vec![7])) as ArrayRef,
                _ => Arc::new(StringArray::from(vec!["abcdef"])),
            })
            .collect();
        let mut out = Out::default();
        write_rows(&mut out, 1, &columns).unwrap();
        assert_eq!(out.0.len(), 1 + 5 * (1 + 8) + 5 * (2 + 6));
    }
}
