//! Sets of values count like a plain set does, however their states are cut and merged.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, StringArray, UInt64Array};
use arrow::datatypes::Int64Type;
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};

use super::encoding;
use super::kind::DistinctKind;
use crate::error::QueryError;
use crate::functions::aggregate::{Grouped, Kind, Single};
use crate::functions::bitmap::{BitmapKind, Input, Output};
use crate::functions::values::Family;

const INTEGERS: BitmapKind = BitmapKind { input: Input::Integers, output: Output::Count };

#[test]
fn sets_survive_encoding() {
    check(&[]);
    check(&[""]);
    check(&["", "a", "ab", "abc", "abd", "b", "ba"]);
    let many: Vec<String> = (0..5000).map(|n| format!("customer#{n:09}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let bytes = check(&many);
    assert!(bytes < 5000 * 6, "{bytes} bytes: shared beginnings are not left out");

    fn check(values: &[&str]) -> usize {
        let values: Vec<&[u8]> = values.iter().map(|value| value.as_bytes()).collect();
        let mut bytes = Vec::new();
        encoding::encode(Family::Bytes, &values, &mut bytes);
        assert_eq!(encoding::encoded_len(Family::Bytes, &bytes).unwrap(), values.len() as u64);
        let mut found = Vec::new();
        encoding::for_each(Family::Bytes, &bytes, |value| {
            found.push(value.to_vec());
            Ok(())
        })
        .unwrap();
        assert_eq!(found, values);
        bytes.len()
    }
}

#[test]
fn damaged_sets_are_refused() {
    let values: Vec<&[u8]> = vec![b"alpha", b"alphabet", b"beta"];
    let mut whole = Vec::new();
    encoding::encode(Family::Bytes, &values, &mut whole);
    assert_eq!(whole, b"\x01\x03\x01\x03\x00\x05alpha\x05\x03bet\x00\x04beta", "the format changed");
    let read = |bytes: &[u8]| encoding::for_each(Family::Bytes, bytes, |_| Ok(()));
    (0..whole.len()).for_each(|cut| assert!(read(&whole[..cut]).is_err(), "{cut}"));
    for place in 0..whole.len() {
        for bit in 0..8 {
            let mut changed = whole.clone();
            changed[place] ^= 1 << bit;
            // It may read as another set; it must not panic.
            let _ = read(&changed);
        }
    }
    let check = |bytes: &[u8], words: &str| {
        let error = QueryError::from(read(bytes).unwrap_err());
        assert!(error.message.contains(words), "{error}");
    };
    check(&[9, 3, 1, 0], "version `9`");
    check(&[1, 1, 0], "something else");
    check(&[1, 3, 4, 0], "family `4`");
    check(&[1, 3, 1, 2, 0, 1, b'b', 0, 1, b'a'], "not in order");
    check(&[1, 3, 1, 2, 0, 1, b'a', 0, 1, b'a'], "not in order");
    check(&[1, 3, 1, 1, 5, 0], "not in order");
    check(&[1, 3, 1, 0, 0], "follow its end");
}

/// Rows in several batches, with nulls and a filter, half of them through states that were merged, half
/// of those through states of single rows: every way gives the counts of plain sets.
#[test]
fn every_way_through_states_gives_the_same_counts() {
    let rows = 4000;
    let groups: Vec<usize> = (0..rows).map(|row| (row * 7) % 13).collect();
    let texts: Vec<Option<String>> =
        (0..rows).map(|row| (row % 11 != 0).then(|| format!("v{}", row * row % 97))).collect();
    let filter = BooleanArray::from_iter((0..rows).map(|row| match row % 17 {
        0 => None,
        other => Some(other != 1),
    }));
    let mut expected = vec![BTreeSet::new(); 14];
    for row in 0..rows {
        if filter.is_valid(row) && filter.value(row) {
            expected[groups[row]].extend(texts[row].clone());
        }
    }
    let expected: Vec<i64> = expected.iter().map(|set| set.len() as i64).collect();
    let text_column: ArrayRef = Arc::new(StringArray::from(texts.clone()));
    let numbers = texts.iter().map(|text| text.as_ref().map(|text| text[1..].parse::<u64>().unwrap()));
    let numbers: ArrayRef = Arc::new(UInt64Array::from_iter(numbers));
    check(DistinctKind::new(Family::Bytes), &text_column, &groups, &filter, &expected);
    check(INTEGERS, &numbers, &groups, &filter, &expected);
}

fn check<K: Kind>(kind: K, column: &ArrayRef, groups: &[usize], filter: &BooleanArray, expected: &[i64]) {
    // One group more than rows have: it stays empty.
    let total = expected.len();
    let direct = |mut accumulator: Grouped<K>| {
        accumulator.update_batch(&[Arc::clone(column)], groups, Some(filter), total).unwrap();
        accumulator
    };
    let counts = |accumulator: &mut Grouped<K>, emit| -> Vec<i64> {
        accumulator.evaluate(emit).unwrap().as_primitive::<Int64Type>().values().to_vec()
    };
    assert_eq!(counts(&mut direct(Grouped::new(kind.fresh())), EmitTo::All), expected);

    let states = direct(Grouped::new(kind.fresh())).state(EmitTo::All).unwrap();
    let each = Grouped::new(kind.fresh()).convert_to_state(&[Arc::clone(column)], Some(filter)).unwrap();
    let mut merged = Grouped::new(kind.fresh());
    let all: Vec<usize> = (0..total).collect();
    merged.merge_batch(&states, &all, total).unwrap();
    assert_eq!(merged.state(EmitTo::All).unwrap()[0].as_ref(), states[0].as_ref(), "packed states change");
    merged.merge_batch(&states, &all, total).unwrap();
    merged.merge_batch(&each, groups, total).unwrap();
    merged.merge_batch(&states, &all, total).unwrap();
    let size = merged.size();
    assert!(size > 1000, "{size}");
    let first = counts(&mut merged, EmitTo::First(5));
    assert!(merged.size() < size, "emitted groups are still counted");
    let again = merged.state(EmitTo::All).unwrap();
    assert_eq!(first, expected[..5]);
    assert_eq!(again[0].as_ref(), states[0].slice(5, total - 5).as_ref(), "equal sets, other bytes");

    let mut single = Single::new(kind);
    single.merge_batch(&states).unwrap();
    let once = single.evaluate().unwrap();
    single.merge_batch(&each).unwrap();
    assert_eq!(single.evaluate().unwrap(), once, "asking changed the answer");
}

/// Groups that come sorted are emitted before the next ones begin. The memory in use meanwhile does not grow
/// with the number of emitted groups.
#[test]
fn values_of_groups_that_were_given_away_are_forgotten() {
    let mut sorted = Grouped::new(DistinctKind::new(Family::Bytes));
    let (batches, rows) = (60, 10_000);
    let mut largest = 0;
    for batch in 0..batches {
        let first = batch * rows;
        let texts = (first..first + rows).map(|n| format!("value {n}"));
        let column: ArrayRef = Arc::new(StringArray::from_iter_values(texts));
        // The last group of the batch before goes on for a row.
        let begun = usize::from(batch > 0);
        let groups: Vec<usize> = (0..rows).map(|row| if row == 0 { 0 } else { begun }).collect();
        sorted.update_batch(&[column], &groups, None, begun + 1).unwrap();
        largest = largest.max(sorted.size());
        if batch > 0 {
            let counts = sorted.evaluate(EmitTo::First(1)).unwrap();
            let expected = if batch == 1 { rows + 1 } else { rows };
            assert_eq!(counts.as_primitive::<Int64Type>().values(), &[expected as i64]);
        }
    }
    let last = sorted.state(EmitTo::All).unwrap();
    assert!(largest < 16 << 20, "{largest} bytes for two groups at a time");
    let mut values = 0;
    encoding::for_each(Family::Bytes, last[0].as_binary::<i64>().value(0), |value| {
        values += 1;
        assert!(value.starts_with(b"value "));
        Ok(())
    })
    .unwrap();
    assert_eq!(values, rows - 1);
}
