//! Sketches stay within their bounds, however they are cut and merged, and damaged ones are refused.

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, StringArray};
use arrow::datatypes::{DataType, Int64Type, UInt64Type};
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};

use super::approx_distinct::HllKind;
use super::approx_top_k::TopKind;
use crate::error::QueryError;
use crate::functions::aggregate::{Grouped, Kind};
use crate::functions::values::Family;

const HLL: HllKind = HllKind { family: Family::Integer };

/// The estimate is within four standard errors (0.81 % each), and the same from one piece or many.
#[test]
fn estimates_are_near_and_do_not_depend_on_the_pieces() {
    for count in [0, 1, 5, 8, 9, 100, 1535, 1537, 20_000, 300_000] {
        let values: Vec<i64> = (0..count).map(|n| n * 7_919).collect();
        let whole = estimate(states(&HLL, &values, 1));
        for pieces in [2, 7, 40] {
            assert_eq!(estimate(states(&HLL, &values, pieces)), whole, "{count} in {pieces}");
        }
        let error = (whole as f64 - count as f64).abs();
        assert!(error <= 0.0325 * count as f64, "{count}: {whole}");
    }

    fn estimate(states: Vec<ArrayRef>) -> u64 {
        merged(&HLL, states).evaluate(EmitTo::All).unwrap().as_primitive::<UInt64Type>().value(0)
    }
}

/// Every value that comes more often than the bound is named, and no count is too small, or too large by
/// more than the bound.
#[test]
fn frequent_items_are_found_within_the_bound() {
    let mut values = Vec::new();
    for n in 0..60_000i64 {
        values.push(n);
        if n % 10 == 0 {
            values.extend([-1, -2, -3].into_iter().take(1 + (n / 10 % 3) as usize));
        }
    }
    let bound = 3.5 / 4096.0 * values.len() as f64;
    let kind = TopKind { family: Family::Integer, value: DataType::Int64, k: 3 };
    for pieces in [1, 9] {
        let lists = merged(&kind, states(&kind, &values, pieces)).evaluate(EmitTo::All).unwrap();
        let top = lists.as_list::<i32>().value(0);
        let items = top.as_struct().column(0).as_primitive::<Int64Type>().clone();
        let counts = top.as_struct().column(1).as_primitive::<Int64Type>().clone();
        assert_eq!(items.values(), &[-1, -2, -3]);
        for (item, count) in items.values().iter().zip(counts.values()) {
            let exact = values.iter().filter(|value| *value == item).count() as f64;
            let count = *count as f64;
            assert!(exact <= count && count <= exact + bound, "{item}: {count} for {exact}");
        }
    }
}

#[test]
fn few_values_are_counted_exactly_and_texts_come_back() {
    let kind = TopKind { family: Family::Bytes, value: DataType::Utf8, k: 2 };
    let column: ArrayRef =
        Arc::new(StringArray::from(vec![Some("b"), None, Some("a"), Some("b"), Some("c"), Some("")]));
    let mut groups = Grouped::new(kind);
    groups.update_batch(&[column], &[0, 0, 0, 0, 0, 1], None, 3).unwrap();
    let lists = groups.evaluate(EmitTo::All).unwrap();
    let lists = lists.as_list::<i32>();
    let first = lists.value(0);
    assert_eq!(
        first.as_struct().column(0).as_string::<i32>().iter().flatten().collect::<Vec<_>>(),
        ["b", "a"]
    );
    assert_eq!(first.as_struct().column(1).as_primitive::<Int64Type>().values(), &[2, 1]);
    assert_eq!(lists.value(1).as_struct().column(0).as_string::<i32>().value(0), "");
    assert_eq!((lists.value(2).len(), lists.null_count()), (0, 0), "no rows are an empty list");
}

/// The library's form and its hash are part of the format: if this fails after an upgrade, raise the
/// functions' state versions. `NYALA_UPDATE_GOLDEN` writes the file anew.
#[test]
fn sketches_are_written_as_they_were() {
    let top = TopKind { family: Family::Integer, value: DataType::Int64, k: 3 };
    let mut found = String::new();
    for count in [0, 2, 20, 5000] {
        let values: Vec<i64> = (0..count).collect();
        writeln!(found, "approx_distinct of {count}: {}", describe(&states(&HLL, &values, 1)[0])).unwrap();
        writeln!(found, "approx_top_k of {count}: {}", describe(&states(&top, &values, 1)[0])).unwrap();
    }
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/sketches.txt");
    if std::env::var_os("NYALA_UPDATE_GOLDEN").is_some() {
        std::fs::write(&golden, &found).unwrap();
    }
    assert_eq!(found, std::fs::read_to_string(&golden).unwrap());

    /// The bytes, or of many the number and a hash (FNV-1a).
    fn describe(state: &ArrayRef) -> String {
        let bytes = state.as_binary::<i64>().value(0);
        if bytes.len() <= 100 {
            return bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        }
        let hash = bytes.iter().fold(0xCBF2_9CE4_8422_2325u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3)
        });
        format!("{} bytes, hash {hash:016x}", bytes.len())
    }
}

#[test]
fn damaged_sketches_are_refused() {
    let top = TopKind { family: Family::Integer, value: DataType::Int64, k: 3 };
    for count in [0, 5, 500, 30_000] {
        let values: Vec<i64> = (0..count).collect();
        damage(&HLL, &states(&HLL, &values, 1)[0]);
        damage(&top, &states(&top, &values, 1)[0]);
    }
    refuse(&HLL, &[3, 5], "version `3`");
    refuse(&HLL, &[1, 6], "something else");
    refuse(&HLL, &[1, 5, 2, 1, 7, 12, 3, 4, 0, 8], "2^12 registers");
    refuse(&top, &[1, 6, 1], "family `1`");
    // A map of 2^30 counters, of which none is used.
    let huge: Vec<u8> = [&[1, 6, 2, 4, 1, 10, 30, 30, 0, 0, 0][..], &[0; 8], &[1], &[0; 15]].concat();
    refuse(&top, &huge, "sizes are not those");
    // More values than anyone has.
    let counts = |total: u64| {
        [&[1, 6, 2, 4, 1, 10, 12, 3, 0, 0, 0][..], &[0; 8], &total.to_le_bytes(), &[0; 8]].concat()
    };
    refuse(&top, &counts(u64::MAX), "impossibly large");
}

/// Cuts the state and changes bytes of it: errors or other answers, but no panic.
fn damage<K: Kind>(kind: &K, states: &ArrayRef) {
    let whole = states.as_binary::<i64>().value(0).to_vec();
    let merge = |bytes: &[u8]| {
        let mut kind = kind.fresh();
        let mut groups = [K::Group::default()];
        kind.merge(&mut groups[0], bytes)?;
        kind.finish(&mut groups)
    };
    merge(&whole).unwrap();
    for cut in (0..whole.len()).step_by(1 + whole.len() / 100) {
        assert!(merge(&whole[..cut]).is_err(), "{cut} of {} bytes", whole.len());
    }
    let places = (0..whole.len().min(64)).chain((64..whole.len()).step_by(1 + whole.len() / 100));
    for place in places {
        for bit in [0, 3, 7] {
            let mut changed = whole.clone();
            changed[place] ^= 1 << bit;
            let _ = merge(&changed);
        }
    }
}

fn refuse<K: Kind>(kind: &K, bytes: &[u8], words: &str) {
    let error = kind.fresh().merge(&mut K::Group::default(), bytes).unwrap_err();
    let error = QueryError::from(error);
    assert!(error.message.contains(words), "{error}");
}

/// The states of as many pieces.
fn states<K: Kind>(kind: &K, values: &[i64], pieces: usize) -> Vec<ArrayRef> {
    (0..pieces)
        .map(|piece| {
            let own: Vec<i64> = values.iter().skip(piece).step_by(pieces).copied().collect();
            let mut groups = Grouped::new(kind.fresh());
            let k: ArrayRef = Arc::new(Int64Array::from(vec![3; own.len()]));
            let rows = vec![0; own.len()];
            groups.update_batch(&[Arc::new(Int64Array::from(own)), k], &rows, None, 1).unwrap();
            groups.state(EmitTo::All).unwrap().remove(0)
        })
        .collect()
}

fn merged<K: Kind>(kind: &K, states: Vec<ArrayRef>) -> Grouped<K> {
    let mut groups = Grouped::new(kind.fresh());
    states.into_iter().for_each(|state| groups.merge_batch(&[state], &[0], 1).unwrap());
    groups
}
