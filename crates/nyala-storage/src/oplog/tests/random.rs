//! Arrays of any type with random values.

use std::sync::Arc;

use arrow_array::*;
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_data::ArrayData;
use arrow_schema::{DataType, Field, Fields, IntervalUnit, TimeUnit};

use crate::oplog::vfs::sim::Rng;

/// Every type of a column without nested types.
pub fn leaf_types() -> Vec<DataType> {
    use DataType::*;
    let mut types = vec![
        Null,
        Boolean,
        Int8,
        Int16,
        Int32,
        Int64,
        UInt8,
        UInt16,
        UInt32,
        UInt64,
        Float16,
        Float32,
        Float64,
        Date32,
        Date64,
        Utf8,
        LargeUtf8,
        Utf8View,
        Binary,
        LargeBinary,
        BinaryView,
    ];
    types.extend([Time32(TimeUnit::Second), Time32(TimeUnit::Millisecond)]);
    types.extend([Time64(TimeUnit::Microsecond), Time64(TimeUnit::Nanosecond)]);
    types.extend([IntervalUnit::YearMonth, IntervalUnit::DayTime, IntervalUnit::MonthDayNano].map(Interval));
    for unit in [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond] {
        types.push(Duration(unit));
        types.extend(
            [None, Some("UTC"), Some("Europe/Berlin"), Some("+05:30")]
                .map(|zone| Timestamp(unit, zone.map(Into::into))),
        );
    }
    types.extend([Decimal32(9, 2), Decimal64(18, 0), Decimal128(38, 10), Decimal256(76, -3)]);
    types.extend([FixedSizeBinary(1), FixedSizeBinary(16)]);
    types
}

/// A nested type.
pub fn nested_type(rng: &mut Rng, depth: u64) -> DataType {
    let leaves = leaf_types();
    let inner = |rng: &mut Rng| match rng.one_in(depth + 1) {
        true => leaves[rng.below(leaves.len() as u64) as usize].clone(),
        false => nested_type(rng, depth - 1),
    };
    let field = |rng: &mut Rng, name: &str| {
        let data_type = inner(rng);
        let nullable = data_type == DataType::Null || !rng.one_in(3);
        Arc::new(Field::new(name, data_type, nullable))
    };
    match rng.below(5) {
        0 => DataType::List(field(rng, "item")),
        1 => DataType::LargeList(field(rng, "element")),
        2 => DataType::FixedSizeList(field(rng, "item"), 1 + rng.below(3) as i32),
        3 => {
            let names = ["a", "b", "c"];
            DataType::Struct(
                names.iter().take(1 + rng.below(3) as usize).map(|name| field(rng, name)).collect(),
            )
        }
        _ => {
            let key = Arc::new(Field::new("key", DataType::Utf8, false));
            let entries = DataType::Struct(vec![key, field(rng, "value")].into());
            DataType::Map(Arc::new(Field::new("entries", entries, false)), false)
        }
    }
}

/// An array of `rows` values, some of them null if `nullable`.
pub fn array(rng: &mut Rng, data_type: &DataType, rows: usize, nullable: bool) -> ArrayRef {
    let nulls =
        (nullable && rng.one_in(2)).then(|| (0..rows).map(|_| !rng.one_in(4)).collect::<NullBuffer>());
    match data_type {
        DataType::Null => Arc::new(NullArray::new(rows)),
        DataType::Boolean => {
            let bits: BooleanBuffer = (0..rows).map(|_| rng.one_in(2)).collect();
            Arc::new(BooleanArray::new(bits, nulls))
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            texts(rng, data_type, rows, nulls.as_ref())
        }
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
            blobs(rng, data_type, rows, nulls.as_ref())
        }
        DataType::List(item) => {
            let (offsets, values) = (lengths(rng, rows), item.data_type());
            let values = array(rng, values, offsets.last().copied().unwrap() as usize, item.is_nullable());
            Arc::new(ListArray::new(item.clone(), offsets, values, nulls))
        }
        DataType::LargeList(item) => {
            let offsets = lengths(rng, rows);
            let values = array(rng, item.data_type(), *offsets.last().unwrap() as usize, item.is_nullable());
            let offsets: Vec<i64> = offsets.iter().map(|offset| i64::from(*offset)).collect();
            let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
            Arc::new(LargeListArray::new(item.clone(), offsets, values, nulls))
        }
        DataType::FixedSizeList(item, length) => {
            let values = array(rng, item.data_type(), rows * *length as usize, item.is_nullable());
            Arc::new(FixedSizeListArray::new(item.clone(), *length, values, nulls))
        }
        DataType::Struct(fields) => Arc::new(structure(rng, fields, rows, nulls)),
        DataType::Map(entries, sorted) => {
            let DataType::Struct(fields) = entries.data_type() else { panic!("{entries}") };
            let offsets = lengths(rng, rows);
            let values = structure(rng, fields, *offsets.last().unwrap() as usize, None);
            Arc::new(MapArray::new(entries.clone(), offsets, values, nulls, *sorted))
        }
        fixed => {
            let width = match fixed {
                DataType::FixedSizeBinary(width) => *width as usize,
                other => other.primitive_width().unwrap(),
            };
            let bytes: Vec<u8> = (0..rows * width).map(|_| rng.next() as u8).collect();
            // The copy is aligned for every type.
            let words: Vec<i128> = bytes
                .chunks(16)
                .map(|chunk| {
                    let mut word = [0; 16];
                    word[..chunk.len()].copy_from_slice(chunk);
                    i128::from_ne_bytes(word)
                })
                .collect();
            let buffer = Buffer::from_vec(words).slice_with_length(0, bytes.len());
            let data = ArrayData::builder(fixed.clone()).len(rows).add_buffer(buffer).nulls(nulls);
            make_array(data.build().unwrap())
        }
    }
}

fn lengths(rng: &mut Rng, rows: usize) -> OffsetBuffer<i32> {
    OffsetBuffer::from_lengths((0..rows).map(|_| rng.below(4) as usize))
}

fn structure(rng: &mut Rng, fields: &Fields, rows: usize, nulls: Option<NullBuffer>) -> StructArray {
    let children = fields.iter().map(|field| array(rng, field.data_type(), rows, field.is_nullable()));
    let children: Vec<ArrayRef> = children.collect();
    StructArray::try_new_with_length(fields.clone(), children, nulls, rows).unwrap()
}

fn texts(rng: &mut Rng, data_type: &DataType, rows: usize, nulls: Option<&NullBuffer>) -> ArrayRef {
    let letters = ["a", "Z", "é", "漢", "🦓"];
    let mut text = || (0..rng.below(9)).map(|_| letters[rng.below(5) as usize]).collect::<String>();
    let valid = |row| nulls.is_none_or(|nulls| nulls.is_valid(row));
    let texts: Vec<Option<String>> = (0..rows).map(|row| Some(text()).filter(|_| valid(row))).collect();
    match data_type {
        DataType::Utf8 => Arc::new(StringArray::from_iter(texts)),
        DataType::LargeUtf8 => Arc::new(LargeStringArray::from_iter(texts)),
        _ => Arc::new(StringViewArray::from_iter(texts)),
    }
}

fn blobs(rng: &mut Rng, data_type: &DataType, rows: usize, nulls: Option<&NullBuffer>) -> ArrayRef {
    let mut blob = || (0..rng.below(30)).map(|_| rng.next() as u8).collect::<Vec<u8>>();
    let valid = |row| nulls.is_none_or(|nulls| nulls.is_valid(row));
    let blobs: Vec<Option<Vec<u8>>> = (0..rows).map(|row| Some(blob()).filter(|_| valid(row))).collect();
    match data_type {
        DataType::Binary => Arc::new(BinaryArray::from_iter(blobs)),
        DataType::LargeBinary => Arc::new(LargeBinaryArray::from_iter(blobs)),
        _ => Arc::new(BinaryViewArray::from_iter(blobs)),
    }
}
