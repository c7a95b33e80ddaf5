//! Bitmaps hold the same values as a plain ordered set, and damaged ones are refused.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, LargeBinaryArray};
use roaring::RoaringTreemap;

use super::operations::Operation;
use super::*;
use crate::error::{ErrorKind, QueryError};
use crate::functions::aggregate::Measured;

/// Xorshift (Marsaglia 2003).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// `count` values of one of several spreads, some negative.
    fn values(&mut self, count: usize) -> BTreeSet<i64> {
        let shift = [0, 20, 44, 54][(self.next() % 4) as usize];
        (0..count).map(|_| self.next().cast_signed() >> shift).collect()
    }
}

#[test]
fn sets_survive_encoding_and_combine_as_plain_sets_do() {
    let mut random = Random(42);
    let sizes = [0, 1, 2, 31, 32, 33, 34, 100, 5000, 100_000];
    for left_size in sizes {
        for right_size in [0, 3, 40, 3000] {
            let (left, right) = (random.values(left_size), random.values(right_size));
            let (a, b) = (roundtrip(&left), roundtrip(&right));
            check(&a, |bitmap| bitmap.union(b.clone()), left.union(&right));
            check(&a, |bitmap| bitmap.intersect(&b), left.intersection(&right));
            check(&a, |bitmap| bitmap.subtract(&b), left.difference(&right));
            check(&a, |bitmap| bitmap.symmetric_difference(b.clone()), left.symmetric_difference(&right));
            assert_eq!(a.has_any(&b), !left.is_disjoint(&right));
            let probe = right.iter().copied().chain([0, i64::MIN, i64::MAX]);
            probe.for_each(|value| assert_eq!(a.contains(value), left.contains(&value)));
        }
    }
}

#[test]
fn the_ends_of_the_range_and_runs_are_in_order() {
    let ends = BTreeSet::from([i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX - 1, i64::MAX]);
    let bitmap = roundtrip(&ends);
    assert_eq!((bitmap.min(), bitmap.max()), (Some(i64::MIN), Some(i64::MAX)));
    let run: BTreeSet<i64> = (-100_000..100_000).chain(ends).collect();
    assert!(roundtrip(&run).encoded().unwrap().len() < 300, "runs are not packed");
}

#[test]
fn equal_sets_have_equal_bytes() {
    let mut grown = Bitmap::from_iter(0..70_000);
    grown.subtract(&Bitmap::from_iter(20..70_000));
    assert_eq!(grown.encoded().unwrap(), Bitmap::from_iter(0..20).encoded().unwrap());
    grown.union(Bitmap::from_iter((20..70_000).rev()));
    assert_eq!(grown.encoded().unwrap(), Bitmap::from_iter(0..70_000).encoded().unwrap());
}

/// The bytes are a format: old bitmaps are read for ever.
#[test]
fn bitmaps_are_written_as_they_were() {
    let check = |values: &[i64], expected: &[u8]| {
        assert_eq!(Bitmap::from_iter(values.iter().copied()).encoded().unwrap(), expected, "{values:?}");
    };
    check(&[], &[1, 1, 0]);
    check(&[-3, 0, 300], &[1, 1, 3, 5, 3, 0xAC, 2]);
    // 40 numbers in a row: one partition, above the flipped sign bit, with one run of 0 and 39 more.
    let run: Vec<i64> = (0..40).collect();
    let partition = [0, 0, 0, 0x80];
    let roaring = [0x3B, 0x30, 0, 0, 1, 0, 0, 39, 0, 1, 0, 0, 0, 39, 0];
    check(&run, &[&[1, 2, 40, 1, 0, 0, 0, 0, 0, 0, 0], &partition[..], &roaring[..]].concat());
}

/// The estimated memory is close to the need of the values: dense ones a bit each, sparse ones much.
#[test]
fn the_weight_follows_the_values() {
    let dense = Bitmap::from_iter(0..4_000_000).heap_bytes();
    assert!((400_000..1_000_000).contains(&dense), "{dense}");
    let mut random = Random(7);
    let sparse = Bitmap::from_iter((0..100_000).map(|_| random.next().cast_signed())).heap_bytes();
    assert!((10_000_000..40_000_000).contains(&sparse), "{sparse}");
}

#[test]
fn damaged_bytes_are_refused() {
    let mut random = Random(3);
    for size in [0, 5, 32, 33, 3000] {
        let whole = Bitmap::from_iter(random.values(size)).encoded().unwrap();
        for cut in 0..whole.len().min(200) {
            assert!(Bitmap::decode(&whole[..cut]).is_err(), "{cut} of {} bytes", whole.len());
        }
        let longer = [whole.as_slice(), &[0]].concat();
        assert!(Bitmap::decode(&longer).is_err());
        // A changed byte may give another bitmap, but neither a panic nor one that cannot be written.
        for place in 0..whole.len().min(400) {
            let mut changed = whole.clone();
            changed[place] ^= 1 << (random.next() % 8);
            if let Ok(mut bitmap) = Bitmap::decode(&changed) {
                let again = Bitmap::decode(&bitmap.encoded().unwrap()).unwrap();
                assert_eq!(again.iter().count() as u64, bitmap.len());
            }
        }
    }
    refuse(&[2, 1, 0], "version `2`");
    refuse(&[1, 3, 0], "something else");
    refuse(&[1, 1, 2, 2, 0], "not in order");
    refuse(&[1, 1, 40], "ends too early");
    refuse(&[1, 2, 1, 255, 255, 255, 255, 255, 255, 255, 255], "not a whole bitmap");
}

#[test]
fn text_is_read_and_written() {
    let check = |text: &str, expected: Option<&str>| {
        let found = text::parse(text).map(|bitmap| text::format(&bitmap).unwrap());
        assert_eq!(found.as_deref(), expected, "{text}");
    };
    check("3, 1,2 ,1", Some("1,2,3"));
    check("-5,7", Some("-5,7"));
    check("", Some(""));
    check("9223372036854775807,-9223372036854775808", Some("-9223372036854775808,9223372036854775807"));
    check("1,,2", None);
    check("1,x", None);
    check("9223372036854775808", None);
}

/// A hundred bytes may stand for gigabytes of text.
#[test]
fn a_bitmap_of_very_many_values_is_no_text() {
    let mut many = RoaringTreemap::new();
    many.insert_range(0..11_000_000);
    let error = QueryError::from(text::format(&Bitmap::from_roaring(many)).unwrap_err());
    assert_eq!(error.kind, ErrorKind::LimitExceeded);
    assert!(error.message.contains("11000000 values"), "{error}");
}

/// A constant comes as one row for any number of rows: copies of a large one would fill the memory.
#[test]
fn constants_are_those_of_every_row() {
    let bytes = |values: &[i64]| Bitmap::from_iter(values.iter().copied()).encoded().unwrap();
    let column = |bitmaps: &[Option<&[i64]>]| -> ArrayRef {
        Arc::new(LargeBinaryArray::from_iter(bitmaps.iter().map(|values| values.map(bytes))))
    };
    let one = column(&[Some(&[1, 2])]);
    let rows = column(&[Some(&[2, 3]), None, Some(&[])]);
    let integers: ArrayRef = Arc::new(Int64Array::from(vec![Some(2), Some(7), None]));
    let two: ArrayRef = Arc::new(Int64Array::from(vec![2]));
    let booleans = |operation: Operation, columns: [&ArrayRef; 2]| -> Vec<Option<bool>> {
        operation.run(&columns.map(Arc::clone), 3).unwrap().as_boolean().iter().collect()
    };
    assert_eq!(booleans(Operation::Contains, [&one, &integers]), [Some(true), Some(false), None]);
    assert_eq!(booleans(Operation::Contains, [&rows, &two]), [Some(true), None, Some(false)]);
    assert_eq!(booleans(Operation::HasAny, [&one, &rows]), [Some(true), None, Some(false)]);
    let check = |operation: Operation, columns: [&ArrayRef; 2], expected: [Option<&[i64]>; 3]| {
        let found = operation.run(&columns.map(Arc::clone), 3).unwrap();
        assert_eq!(&found, &column(&expected), "{operation:?}");
    };
    check(Operation::And, [&one, &rows], [Some(&[2]), None, Some(&[])]);
    check(Operation::Or, [&rows, &one], [Some(&[1, 2, 3]), None, Some(&[1, 2])]);
    check(Operation::Xor, [&one, &rows], [Some(&[1, 3]), None, Some(&[1, 2])]);
    check(Operation::AndNot, [&one, &rows], [Some(&[1]), None, Some(&[1, 2])]);
    let nothing = column(&[None]);
    check(Operation::Or, [&rows, &nothing], [None, None, None]);
}

fn roundtrip(values: &BTreeSet<i64>) -> Bitmap {
    let bytes = Bitmap::from_iter(values.iter().copied()).encoded().unwrap();
    let mut read = Bitmap::decode(&bytes).unwrap();
    assert!(read.iter().eq(values.iter().copied()));
    assert_eq!(read.len(), values.len() as u64);
    assert_eq!(Bitmap::encoded_len(&bytes).unwrap(), read.len());
    assert_eq!((read.min(), read.max()), (values.first().copied(), values.last().copied()));
    assert_eq!(read.encoded().unwrap(), bytes);
    read
}

fn check<'a>(bitmap: &Bitmap, change: impl FnOnce(&mut Bitmap), expected: impl Iterator<Item = &'a i64>) {
    let mut changed = bitmap.clone();
    change(&mut changed);
    let expected: BTreeSet<i64> = expected.copied().collect();
    assert!(changed.iter().eq(expected.iter().copied()));
    assert_eq!(changed.len(), expected.len() as u64);
    roundtrip(&changed.iter().collect());
}

fn refuse(bytes: &[u8], words: &str) {
    let error = QueryError::from(Bitmap::decode(bytes).unwrap_err());
    assert!(error.message.contains(words), "{error}");
}
