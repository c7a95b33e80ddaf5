//! Latencies of another store of the process while a large store recovers.

use std::path::Path;
use std::time::{Duration, Instant};

use arrow_array::{Int64Array, RecordBatch};
use nyala_storage::oplog::{DiskStore, TableSpec, Write};

use crate::process::open;
use crate::recovery::{STATEMENT_ROWS, write};
use crate::rows::{ten_columns, ten_schema, wide_schema};

const WORDS: &[&str] = &["create table", "insert a row", "read by key", "drop table"];

/// Latencies of each of [`WORDS`], measured while the large store recovers, and while it does not.
#[derive(Default)]
struct Times {
    recovering: [Vec<Duration>; 4],
    idle: [Vec<Duration>; 4],
    keys: Vec<Duration>,
    values: Vec<Duration>,
}

pub fn run(folder: &Path, rows: u64, starts: u64) {
    let (large, small) = (folder.join(format!("large-{rows}")), folder.join("small"));
    if !large.exists() {
        let store = open(&large);
        let table = store.create_table(TableSpec::new("t", wide_schema(), &["key"])).unwrap();
        write(&table, 0, rows, STATEMENT_ROWS);
        store.close().unwrap();
    }
    std::fs::remove_dir_all(&small).ok();
    let small = open(&small);
    let mut times = Times::default();
    (0..starts).for_each(|_| start(&large, &small, &mut times));
    times.print();
}

fn start(large: &Path, small: &DiskStore, times: &mut Times) {
    let (begun, folder) = (Instant::now(), large.to_owned());
    let recovery = std::thread::spawn(move || {
        let store = open(&folder);
        let (keys, table) = (begun.elapsed(), store.table("t").unwrap());
        while !table.is_loaded() {
            std::thread::sleep(Duration::from_millis(1));
        }
        (store, keys, begun.elapsed())
    });
    let before = times.recovering[0].len();
    while !recovery.is_finished() {
        round(small, &mut times.recovering);
    }
    let rounds = times.recovering[0].len() - before;
    let (store, keys, values) = recovery.join().unwrap();
    times.keys.push(keys);
    times.values.push(values);
    (0..rounds).for_each(|_| round(small, &mut times.idle));
    drop(store);
}

fn round(store: &DiskStore, times: &mut [Vec<Duration>; 4]) {
    let mut last = Instant::now();
    let mut took = |at: usize| {
        let now = Instant::now();
        times[at].push(now - last);
        last = now;
    };
    let table = store.create_table(TableSpec::new("other", ten_schema(), &["c0"])).unwrap();
    took(0);
    table.write(Write::upsert(ten_columns(7, 1))).unwrap();
    took(1);
    let key = RecordBatch::try_new(
        table.key_schema().unwrap(),
        vec![std::sync::Arc::new(Int64Array::from(vec![7]))],
    );
    assert_eq!(table.lookup(&key.unwrap()).unwrap().rows.num_rows(), 1);
    took(2);
    table.drop_table().unwrap();
    took(3);
}

impl Times {
    fn print(&mut self) {
        println!(
            "| ms | recovering: median | 95 % | most | idle: median | 95 % | most |\n|---|---|---|---|---|---|---|"
        );
        for (at, word) in WORDS.iter().enumerate() {
            let [recovering, idle] =
                [&mut self.recovering[at], &mut self.idle[at]].map(|times| quantiles(times));
            println!("| {word} | {recovering} | {idle} |");
        }
        println!(
            "keys ready, s: {}; values ready: {}",
            quantiles(&mut self.keys),
            quantiles(&mut self.values)
        );
    }
}

fn quantiles(times: &mut [Duration]) -> String {
    times.sort();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    format!("{:.2} | {:.2} | {:.2}", at(0.5), at(0.95), at(1.0))
}
