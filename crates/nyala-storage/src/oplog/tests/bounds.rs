//! Parts of scans, and their bounds before they are read.

use std::sync::Arc;

use arrow_array::types::{Int64Type, UInt64Type};
use arrow_array::{Array, Int64Array, RecordBatch, StringArray, cast::AsArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use super::fixture::*;
use crate::oplog::vfs::sim::SimDisk;
use crate::oplog::*;

const PART: usize = 1 << 16;

fn wide_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("number", DataType::Int64, true),
        Field::new("text", DataType::Utf8, true),
    ]))
}

fn batch(ids: std::ops::Range<i64>) -> RecordBatch {
    let numbers: Int64Array =
        ids.clone().map(|id| (id % 10 != 0).then_some((id * 7919) % 1000 + id)).collect();
    let texts: StringArray = ids.clone().map(|id| (id % 3 > 0).then(|| format!("{id:07}"))).collect();
    let ids = Int64Array::from_iter_values(ids);
    RecordBatch::try_new(wide_schema(), vec![Arc::new(ids), Arc::new(numbers), Arc::new(texts)]).unwrap()
}

/// Compares bounds with the values; gives how many parts have bounds.
fn check(table: &LiveTable) -> usize {
    let version = table.version();
    let parts = version.parts().unwrap();
    let number = version.bounds(&parts, 1).unwrap();
    let text = version.bounds(&parts, 2).unwrap();
    assert_eq!(
        (number.lows.len(), text.highs.len(), text.nulls.len()),
        (parts.len(), parts.len(), parts.len())
    );
    let mut known = 0;
    for (at, part) in parts.iter().enumerate() {
        if number.nulls.is_null(at) {
            assert!(number.lows.is_null(at) && number.highs.is_null(at));
            continue;
        }
        known += 1;
        let rows = version.projection(&[1, 2], false).unwrap().read(part).unwrap();
        let bound = |bounds: &dyn Array| bounds.as_primitive::<Int64Type>().value(at);
        let values = rows.column(0).as_primitive::<Int64Type>();
        assert!(
            values
                .iter()
                .flatten()
                .all(|value| (bound(&number.lows)..=bound(&number.highs)).contains(&value))
        );
        assert!(values.null_count() as u64 <= number.nulls.value(at));
        let (low, high) = (text.lows.as_string::<i32>().value(at), text.highs.as_string::<i32>().value(at));
        assert!(rows.column(1).as_string::<i32>().iter().flatten().all(|text| (low..=high).contains(&text)));
    }
    known
}

#[test]
fn bounds_hold_in_every_form_of_a_unit() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    let table = store.create_table(TableSpec::new("t", wide_schema(), &["id"])).unwrap();
    table.write(Write::upsert(batch(0..150_000))).unwrap();
    assert_eq!(check(&table), 3, "one statement is read in parts too");
    store.seal().unwrap();
    assert_eq!(check(&table), 3, "sealed");
    table.write(Write::upsert(batch(-100..100))).unwrap();
    store.checkpoint().unwrap();
    assert_eq!(check(&table), 4, "and what is written then");
    drop((table, store));
    let store = open(&disk);
    let table = store.table("t").unwrap();
    let (version, before) = (table.version(), disk.read_bytes());
    let parts = version.parts().unwrap();
    let nulls = version.bounds(&parts, 1).unwrap().nulls;
    assert_eq!(nulls.iter().collect::<Vec<_>>(), [Some(6554), Some(6554), Some(1892), None]);
    assert_eq!(disk.read_bytes(), before, "they are known without a value");
    assert_eq!(check(&table), 3, "a log has none before it is read");
    store.load_values();
    assert_eq!(check(&table), 4);
    table.alter(Alteration::AddColumn(Field::new("new", DataType::Int8, true))).unwrap();
    let version = table.version();
    let added = version.bounds(&version.parts().unwrap(), 3).unwrap();
    assert_eq!(added.nulls.values().iter().sum::<u64>(), 150_200, "older rows have nothing but nulls");
    assert_eq!(added.lows.null_count(), 4);
}

#[test]
fn partitions_are_about_equal_and_have_every_row_once() {
    let store = open(&SimDisk::new(1));
    let table = store.create_table(TableSpec::new("t", wide_schema(), &["id"])).unwrap();
    assert!(table.version().partitions(4).unwrap().is_empty());
    for from in [0, 40_000, 500_000] {
        table.write(Write::upsert(batch(from..from + 300_000))).unwrap();
        store.seal().unwrap();
    }
    let version = table.version();
    for count in [0, 1, 3, 8, 1000] {
        let groups = version.partitions(count).unwrap();
        assert!(groups.len() <= count.max(1));
        let rows: Vec<usize> = groups.iter().map(|group| group.iter().map(Part::rows).sum()).collect();
        let share = rows.iter().sum::<usize>().div_ceil(count.max(1));
        assert!(rows.iter().all(|rows| (1..=share + PART).contains(rows)), "{rows:?} of {count}");
        let projection = version.projection(&[0], true).unwrap();
        let mut ids: Vec<(i64, u64)> = Vec::new();
        for part in groups.iter().flatten() {
            let batch = projection.read(part).unwrap();
            let lsns = batch.column(1).as_primitive::<UInt64Type>().values().to_vec();
            ids.extend(batch.column(0).as_primitive::<Int64Type>().values().iter().copied().zip(lsns));
        }
        ids.sort_unstable();
        let expected = (0..800_000).filter(|id| *id < 340_000 || *id >= 500_000);
        assert!(ids.iter().map(|(id, _)| *id).eq(expected));
    }
}
