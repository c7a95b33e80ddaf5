//! Random rows of random types against a model, through the log, checkpoints, sealed units, rewrites and starts.
//!
//! `NYALA_SEED` sets the first seed. A failure names its seed.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, UInt32Array, cast::AsArray, types::Int64Type};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrow_select::concat::concat_batches;
use arrow_select::interleave::interleave_record_batch;
use arrow_select::take::take_record_batch;

use super::crash::from_environment;
use super::fixture::*;
use super::random;
use crate::oplog::vfs::sim::{Rng, SimDisk};
use crate::oplog::*;

/// Number of nested columns of a table, and of plain ones.
const NESTED: usize = 2;
const LEAVES: usize = 6;
const STEPS: usize = 25;
const KEYS: u64 = 60;

#[test]
fn rows_of_all_types_are_what_was_written() {
    let leaves = random::leaf_types();
    let first = from_environment("NYALA_SEED", 1);
    for (seed, types) in (first..).zip(leaves.chunks(LEAVES).cycle().take(leaves.len() / LEAVES * 3 + 3)) {
        let mut rng = Rng(seed);
        let nested: Vec<DataType> = (0..NESTED).map(|_| random::nested_type(&mut rng, 2)).collect();
        let types = types.iter().cloned().chain(nested);
        Scene::new(rng, &types.collect::<Vec<_>>()).play(seed);
    }
}

/// A table, and its expected content: for each key the batch and the row that wrote it last.
struct Scene {
    rng: Rng,
    disk: SimDisk,
    store: Option<DiskStore>,
    schema: SchemaRef,
    written: Vec<RecordBatch>,
    model: BTreeMap<i64, (usize, usize)>,
}

impl Scene {
    fn new(rng: Rng, types: &[DataType]) -> Self {
        let values = types.iter().enumerate();
        let values = values.map(|(at, data_type)| Field::new(format!("c{at}"), data_type.clone(), true));
        let fields = [Field::new("key", DataType::Int64, false)].into_iter().chain(values);
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let disk = SimDisk::new(1);
        let store = open(&disk);
        store.create_table(TableSpec::new("t", schema.clone(), &["key"])).unwrap();
        Self { rng, disk, store: Some(store), schema, written: Vec::new(), model: BTreeMap::new() }
    }

    fn table(&self) -> LiveTable {
        self.store.as_ref().unwrap().table("t").unwrap()
    }

    fn play(mut self, seed: u64) {
        for step in 0..STEPS {
            let done = self.step();
            let context = format!("NYALA_SEED={seed}, step {step}, {done}, {:?}", self.schema);
            let table = self.table();
            assert_eq!(table.schema(), self.schema, "{context}");
            let expected = self.expected(&self.model.values().copied().collect::<Vec<_>>());
            assert_eq!(sorted(&table), expected, "{context}");
            let asked: Vec<i64> = (0..5).map(|_| self.rng.below(KEYS) as i64).collect();
            let found = table.lookup(&keys_of(&asked)).unwrap();
            let known: Vec<(usize, usize)> =
                asked.iter().filter_map(|key| self.model.get(key).copied()).collect();
            assert_eq!(found.rows, self.expected(&known), "{context}");
            self.take(&table, &asked, &known, &context);
        }
        self.store.take().unwrap().seal().unwrap();
        let environment = environment(&self.disk, &ManualClock::default());
        let found = verify(Path::new(FOLDER), &environment).unwrap();
        assert_eq!(found.damage().next(), None, "NYALA_SEED={seed}, {:?}", self.schema);
    }

    /// Reads some columns of rows by their locations, each row twice.
    fn take(&mut self, table: &LiveTable, asked: &[i64], known: &[(usize, usize)], context: &str) {
        let columns: Vec<usize> = (0..self.schema.fields().len()).filter(|_| self.rng.one_in(2)).collect();
        let located = table.locate(&keys_of(asked)).unwrap();
        let rows: Vec<RowId> = located.rows.into_iter().flatten().collect();
        let projection = located.version.projection(&columns, true).unwrap();
        let taken = located.version.take(&[rows.as_slice(), &rows].concat(), &projection).unwrap();
        let expected = self.expected(&[known, known].concat()).project(&columns).unwrap();
        assert_eq!(taken.num_rows(), expected.num_rows(), "{context}");
        assert_eq!(&taken.columns()[..columns.len()], expected.columns(), "{context}");
        let versions = table.row_versions(&keys_of(asked)).unwrap();
        let versions: Vec<u64> = versions.into_iter().filter(|lsn| *lsn > 0).collect();
        let lsns = taken.column(columns.len()).as_primitive::<arrow_array::types::UInt64Type>();
        assert_eq!(lsns.values(), &[versions.as_slice(), &versions].concat(), "{context}");
    }

    /// The rows at these places.
    fn expected(&self, places: &[(usize, usize)]) -> RecordBatch {
        let batches: Vec<&RecordBatch> = self.written.iter().collect();
        match places {
            [] => RecordBatch::new_empty(self.schema.clone()),
            _ => interleave_record_batch(&batches, places).unwrap(),
        }
    }

    fn step(&mut self) -> &'static str {
        let store = self.store.take().unwrap();
        let (store, done) = match self.rng.below(12) {
            0 => (store.seal().map(|()| store).unwrap(), "seal"),
            1 => (store.checkpoint().map(|()| store).unwrap(), "checkpoint"),
            2 => (store.maintain().map(|()| store).unwrap(), "maintain"),
            3 => {
                drop(store);
                (open(&self.disk), "crash")
            }
            4 => {
                store.close().unwrap();
                (open(&self.disk), "restart")
            }
            5 | 6 => {
                let gone: Vec<i64> = (0..self.rng.below(10)).map(|_| self.rng.below(KEYS) as i64).collect();
                store.table("t").unwrap().write(Write::delete(keys_of(&gone))).unwrap();
                self.model.retain(|key, _| !gone.contains(key));
                (store, "delete")
            }
            _ => {
                let rows = self.rows();
                store.table("t").unwrap().write(Write::upsert(rows.clone())).unwrap();
                let keys = rows.column(0).as_primitive::<Int64Type>();
                let places = (0..rows.num_rows()).map(|row| (keys.value(row), (self.written.len(), row)));
                self.model.extend(places);
                self.written.push(rows);
                (store, "upsert")
            }
        };
        self.store = Some(store);
        done
    }

    /// Rows to write. Now and then they are a slice of more rows.
    fn rows(&mut self) -> RecordBatch {
        let (skipped, rows) = (self.rng.below(3) as usize, 1 + self.rng.below(30) as usize);
        let all = skipped + rows;
        let keys: ArrayRef =
            Arc::new((0..all).map(|_| Some(self.rng.below(KEYS) as i64)).collect::<Int64Array>());
        let values = self.schema.fields().iter().skip(1);
        let values: Vec<ArrayRef> =
            values.map(|field| random::array(&mut self.rng, field.data_type(), all, true)).collect();
        let columns = [keys].into_iter().chain(values).collect();
        RecordBatch::try_new(self.schema.clone(), columns).unwrap().slice(skipped, rows)
    }
}

fn keys_of(keys: &[i64]) -> RecordBatch {
    let schema = Schema::new(vec![Field::new("key", DataType::Int64, false)]);
    RecordBatch::try_new(Arc::new(schema), vec![Arc::new(Int64Array::from(keys.to_vec()))]).unwrap()
}

/// All rows, ordered by their keys.
fn sorted(table: &LiveTable) -> RecordBatch {
    let rows = concat_batches(&table.schema(), &table.version().read_all().unwrap()).unwrap();
    let keys = rows.column(0).as_primitive::<Int64Type>();
    let mut order: Vec<u32> = (0..keys.len() as u32).collect();
    order.sort_by_key(|row| keys.value(*row as usize));
    take_record_batch(&rows, &UInt32Array::from(order)).unwrap()
}
