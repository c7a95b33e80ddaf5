//! Columns and keys of all types, through log, sealed units and rewrites.

use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::*;
use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::*;
use arrow_schema::{DataType, Field, Fields, Schema};
use arrow_select::concat::concat_batches;

use super::crash::from_environment;
use super::fixture::*;
use crate::oplog::codec::{In, Out};
use crate::oplog::meta::TableMeta;
use crate::oplog::vfs::sim::{Rng, SimDisk};
use crate::oplog::write::PreparedWrite;
use crate::oplog::*;

const ROWS: usize = 70;

fn nullable<T>(make: impl Fn(usize) -> T) -> impl Iterator<Item = Option<T>> {
    (0..ROWS).map(move |row| (row % 5 != 3).then(|| make(row)))
}

fn columns() -> Vec<ArrayRef> {
    let mut list = ListBuilder::new(StringBuilder::new());
    let mut nested = LargeListBuilder::new(ListBuilder::new(Int16Builder::new()));
    let mut map = MapBuilder::new(None, StringBuilder::new(), Int64Builder::new());
    let mut triple = FixedSizeListBuilder::new(Float32Builder::new(), 3);
    for row in 0..ROWS {
        (0..row % 4)
            .for_each(|item| list.values().append_option((item != 1).then(|| format!("{row}-{item}"))));
        list.append(row % 6 != 2);
        (0..row % 3).for_each(|item| nested.values().append_value((0..item as i16).map(Some)));
        nested.append(row % 7 != 2);
        (0..row % 3).for_each(|item| {
            map.keys().append_value(format!("k{item}"));
            map.values().append_option((row % 2 == 0).then_some(row as i64));
        });
        map.append(true).unwrap();
        (0..3).for_each(|item| triple.values().append_value((row * 3 + item) as f32));
        triple.append(row % 4 != 1);
    }
    let pair: Fields =
        vec![Field::new("a", DataType::Int32, true), Field::new("b", DataType::Utf8View, true)].into();
    let inner: Vec<ArrayRef> = vec![
        Arc::new(nullable(|row| row as i32).collect::<Int32Array>()),
        Arc::new(
            nullable(|row| format!("a text longer than a view holds {row}")).collect::<StringViewArray>(),
        ),
    ];
    let nulls = (0..ROWS).map(|row| row % 9 != 4).collect::<Vec<bool>>();
    let decimal = nullable(|row| row as i128 - 30).collect::<Decimal128Array>();
    vec![
        Arc::new(nullable(|row| row % 2 == 0).collect::<BooleanArray>()),
        Arc::new(nullable(|row| row as u8).collect::<UInt8Array>()),
        Arc::new(nullable(|row| row as f64 / 3.0).collect::<Float64Array>()),
        Arc::new(decimal.with_precision_and_scale(30, 4).unwrap()),
        Arc::new(
            nullable(|row| row as i64 * 1_000_003)
                .collect::<TimestampMicrosecondArray>()
                .with_timezone("UTC"),
        ),
        Arc::new(nullable(|row| row as i32).collect::<Date32Array>()),
        Arc::new(PrimitiveArray::<IntervalMonthDayNanoType>::from_iter(nullable(|row| {
            IntervalMonthDayNanoType::make_value(row as i32, 2, 3)
        }))),
        Arc::new(nullable(|row| format!("{row}")).collect::<LargeStringArray>()),
        Arc::new(nullable(|row| format!("short {row}")).collect::<StringViewArray>()),
        Arc::new(nullable(|row| vec![row as u8; row]).collect::<BinaryArray>()),
        Arc::new(nullable(|row| vec![row as u8; row]).collect::<BinaryViewArray>()),
        Arc::new(
            FixedSizeBinaryArray::try_from_sparse_iter_with_size(nullable(|row| [row as u8; 7]), 7).unwrap(),
        ),
        Arc::new(list.finish()),
        Arc::new(nested.finish()),
        Arc::new(map.finish()),
        Arc::new(triple.finish()),
        Arc::new(StructArray::new(pair, inner, Some(nulls.into()))),
    ]
}

/// The values as a table of one key column gives them back, ordered by the key.
fn read(table: &LiveTable) -> RecordBatch {
    let batches = table.version().read_all().unwrap();
    concat_batches(&table.schema(), &batches).unwrap()
}

/// All columns behind a number as the key.
fn batch_of_all() -> RecordBatch {
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS as i64));
    let columns: Vec<ArrayRef> = [ids].into_iter().chain(columns()).collect();
    let field =
        |(at, column): (usize, &ArrayRef)| Field::new(format!("c{at}"), column.data_type().clone(), at > 0);
    let schema = Arc::new(Schema::new(columns.iter().enumerate().map(field).collect::<Vec<_>>()));
    RecordBatch::try_new(schema, columns).unwrap()
}

/// Corrupt bytes that pass the checksum must not end the process either.
#[test]
fn nonsense_is_read_without_a_panic() {
    let batch = batch_of_all();
    let meta = TableMeta::new(1, &TableSpec::new("t", batch.schema(), &["c0"])).unwrap();
    let mut out = crate::oplog::codec::Out::default();
    PreparedWrite::new(&meta, Write::upsert(batch), 0).unwrap().encode(&mut out).unwrap();
    let payload = out.0;
    let mut rng = Rng(from_environment("NYALA_SEED", 1));
    let (mut read, mut refused) = (0, 0);
    for _ in 0..20_000 {
        let mut payload = payload.clone();
        for _ in 0..=rng.below(3) {
            let at = rng.below(payload.len() as u64) as usize;
            payload[at] = rng.next() as u8;
        }
        let kept = if rng.one_in(4) { rng.below(payload.len() as u64) as usize } else { payload.len() };
        payload.truncate(kept);
        match PreparedWrite::decode(&payload, &meta, 0) {
            Some(_) => read += 1,
            None => refused += 1,
        }
    }
    assert!(read > 0 && refused > 0, "{read} read, {refused} refused");
    let mut out = Out::default();
    meta.write(&mut out).unwrap();
    for _ in 0..20_000 {
        let mut bytes = out.0.clone();
        let at = rng.below(bytes.len() as u64) as usize;
        bytes[at] = rng.next() as u8;
        TableMeta::read(&mut In(&bytes));
    }
}

#[test]
fn values_of_all_types_come_back() {
    let batch = batch_of_all();
    let schema = batch.schema();
    let disk = SimDisk::new(1);
    let store = open(&disk);
    let table = store.create_table(TableSpec::new("t", schema.clone(), &["c0"])).unwrap();
    for (from, rows) in [(0, 30), (30, 1), (31, ROWS - 31)] {
        table.write(Write::upsert(batch.slice(from, rows))).unwrap();
    }
    assert_eq!(read(&table), batch, "at once");
    drop((table, store));
    let store = open(&disk);
    assert_eq!(read(&store.table("t").unwrap()), batch, "from the log");
    store.checkpoint().unwrap();
    drop(store);
    let store = open(&disk);
    assert_eq!(read(&store.table("t").unwrap()), batch, "from a checkpoint");
    store.seal().unwrap();
    assert_eq!(read(&store.table("t").unwrap()), batch, "sealed");
    drop(store);
    let store = open(&disk);
    let table = store.table("t").unwrap();
    assert_eq!(read(&table), batch, "from a sealed unit");
    let gone = RecordBatch::try_new(table.key_schema().unwrap(), vec![batch.column(0).slice(0, 40)]).unwrap();
    table.write(Write::delete(gone)).unwrap();
    assert_eq!(read(&table), batch.slice(40, ROWS - 40), "without the dead");
    store.maintain().unwrap();
    store.close().unwrap();
    drop(table);
    assert_eq!(read(&open(&disk).table("t").unwrap()), batch.slice(40, ROWS - 40), "rewritten");
    let environment = environment(&disk, &ManualClock::default());
    assert_eq!(verify(Path::new(FOLDER), &environment).unwrap().damage().count(), 0);
}

#[test]
fn keys_of_all_types_are_found() {
    let fit = |data_type: &DataType| !data_type.is_nested() && !matches!(data_type, DataType::Interval(_));
    for column in columns().into_iter().filter(|column| fit(column.data_type())) {
        let some: Vec<u32> = (0..ROWS as u32).filter(|row| column.is_valid(*row as usize)).collect();
        let column = arrow_select::take::take(&column, &UInt32Array::from(some), None).unwrap();
        check_key(column);
    }
}

/// Uses a column together with a number as a key.
fn check_key(column: ArrayRef) {
    let rows = column.len();
    let data_type = column.data_type().clone();
    let what = data_type.to_string();
    let numbers: ArrayRef = Arc::new(Int32Array::from_iter_values(0..rows as i32));
    let fields = vec![Field::new("k", data_type, false), Field::new("n", DataType::Int32, false)];
    let schema = Arc::new(Schema::new(fields));
    let batch = RecordBatch::try_new(schema.clone(), vec![column, numbers]).unwrap();
    let disk = SimDisk::new(1);
    let store = open(&disk);
    let table = store.create_table(TableSpec::new("t", schema, &["n", "k"])).unwrap();
    table.write(Write::upsert(batch.slice(0, rows / 2))).unwrap();
    store.seal().unwrap();
    let done = table.write(Write::upsert(batch.clone())).unwrap();
    assert_eq!((done.replaced, done.inserted), ((rows / 2) as u64, (rows - rows / 2) as u64), "{what}");
    drop((table, store));
    let store = open(&disk);
    let table = store.table("t").unwrap();
    let keys = RecordBatch::try_new(
        table.key_schema().unwrap(),
        vec![batch.column(1).clone(), batch.column(0).clone()],
    );
    let keys = keys.unwrap();
    let found = table.lookup(&keys.slice(3, rows - 3)).unwrap();
    assert!(found.positions.iter().all(Option::is_some), "{what}");
    assert_eq!(found.rows, batch.slice(3, rows - 3), "{what}");
    assert_eq!(table.write(Write::delete(keys.slice(0, 5))).unwrap().deleted, 5, "{what}");
    assert_eq!(table.version().rows(), rows as u64 - 5);
}

#[test]
fn floats_are_keys_with_one_zero_and_one_nan() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    let schema = Arc::new(Schema::new(vec![
        Field::new("k", DataType::Float64, false),
        Field::new("v", DataType::Int32, true),
    ]));
    let table = store.create_table(TableSpec::new("t", schema.clone(), &["k"])).unwrap();
    let write = |keys: &[f64], from: i32| {
        let values = Int32Array::from_iter_values(from..from + keys.len() as i32);
        let keys = Float64Array::from(keys.to_vec());
        RecordBatch::try_new(schema.clone(), vec![Arc::new(keys), Arc::new(values)]).unwrap()
    };
    table.write(Write::upsert(write(&[0.0, f64::NAN, 1.5, f64::INFINITY], 0))).unwrap();
    let done = table.write(Write::upsert(write(&[-0.0, -f64::NAN], 10))).unwrap();
    assert_eq!((done.inserted, done.replaced), (0, 2));
    store.seal().unwrap();
    drop((table, store));
    let store = open(&disk);
    let table = store.table("t").unwrap();
    let keys = |keys: &[f64]| {
        let keys: ArrayRef = Arc::new(Float64Array::from(keys.to_vec()));
        RecordBatch::try_new(table.key_schema().unwrap(), vec![keys]).unwrap()
    };
    let found = table.lookup(&keys(&[-0.0, -f64::NAN, f64::NEG_INFINITY, 1.5])).unwrap();
    assert_eq!(found.positions, [Some(0), Some(1), None, Some(2)]);
    let values = found.rows.column(1).as_primitive::<Int32Type>();
    assert_eq!(values.values(), &[10, 11, 2]);
    assert_eq!(table.write(Write::delete(keys(&[f64::NAN, -0.0]))).unwrap().deleted, 2);
}

#[test]
fn a_table_made_of_dictionaries_holds_their_values() {
    let words: ArrayRef = Arc::new(StringArray::from(vec!["x", "y"]));
    let dictionary: ArrayRef =
        Arc::new(DictionaryArray::new(Int8Array::from(vec![Some(1), Some(0), None, Some(1)]), words));
    let ids: ArrayRef = Arc::new(DictionaryArray::new(
        UInt32Array::from(vec![0, 1, 2, 3]),
        Arc::new(Int64Array::from(vec![7, 8, 9, 10])) as ArrayRef,
    ));
    let schema = Arc::new(Schema::new(vec![
        Field::new("id", ids.data_type().clone(), false),
        Field::new("word", dictionary.data_type().clone(), true),
    ]));
    let store = open(&SimDisk::new(1));
    let table = store.create_table(TableSpec::new("t", schema.clone(), &["id"])).unwrap();
    let types: Vec<DataType> =
        table.schema().fields().iter().map(|field| field.data_type().clone()).collect();
    assert_eq!(types, [DataType::Int64, DataType::Utf8]);
    table.write(Write::upsert(RecordBatch::try_new(schema, vec![ids.clone(), dictionary]).unwrap())).unwrap();
    let expected: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(vec![7, 8, 9, 10])),
        Arc::new(StringArray::from(vec![Some("y"), Some("x"), None, Some("y")])),
    ];
    assert_eq!(read(&table), RecordBatch::try_new(table.schema(), expected).unwrap());
    let key_schema = Arc::new(Schema::new(vec![Field::new("id", ids.data_type().clone(), false)]));
    let gone = RecordBatch::try_new(key_schema, vec![ids.slice(1, 2)]).unwrap();
    assert_eq!(table.lookup(&gone).unwrap().positions, [Some(0), Some(1)]);
    assert_eq!(table.write(Write::delete(gone)).unwrap().deleted, 2);
}

#[test]
fn what_cannot_be_a_key_or_a_column_is_refused() {
    let store = open(&SimDisk::new(1));
    let item = Arc::new(Field::new("item", DataType::Int8, true));
    let union = DataType::Union(arrow_schema::UnionFields::empty(), arrow_schema::UnionMode::Dense);
    let refused = |key: DataType, value: DataType, nullable: bool| {
        let fields = vec![Field::new("k", key, false), Field::new("v", value, nullable)];
        let spec = TableSpec::new("t", Arc::new(Schema::new(fields)), &["k"]);
        store.create_table(spec).unwrap_err().to_string()
    };
    for key in [DataType::List(item.clone()), DataType::ListView(item), DataType::Null] {
        let error = refused(key.clone(), DataType::Int8, true);
        assert!(error.contains("column `k`") && error.contains("primary key"), "{error}");
    }
    let error = refused(DataType::Int8, union, true);
    assert!(error.contains("no columns of type Union"), "{error}");
    let error = refused(DataType::Int8, DataType::Null, false);
    assert!(error.contains("`v` has nothing but nulls"), "{error}");
}
