//! Measures a disk store: recovery beside a raw read of the same bytes, ingest, and single-row commits.
//!
//! ```sh
//! cargo run --release -p nyala-storage --example live_bench -- recovery /tmp/bench 2 1000000
//! cargo run --release -p nyala-storage --example live_bench -- ingest /tmp/bench 5000000
//! cargo run --release -p nyala-storage --example live_bench -- commits /tmp/bench 32 5
//! ```
//!
//! `recovery` starts itself anew for each measurement, so that memory is that of one start. Give the machine
//! to it alone: the numbers of a busy one mean nothing.
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::{ArrayRef, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use nyala_storage::oplog::{DiskStore, Environment, StoreOptions, TableSpec, Write};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let text = |at: usize| arguments.get(at).cloned().unwrap_or_default();
    let number = |at: usize, default: u64| text(at).parse().unwrap_or(default);
    let folder = PathBuf::from(text(1));
    match text(0).as_str() {
        "recovery" => recovery(&folder, number(2, 2), number(3, 1_000_000)),
        "fill" => fill(&folder, number(2, 1000), text(3) == "crashed"),
        "start" => start(&folder, number(2, 2), text(3) == "clean"),
        "ingest" => ingest(&folder, number(2, 5_000_000)),
        "commits" => commits(&folder, number(2, 32), number(3, 5)),
        other => panic!("`{other}` is not `recovery`, `ingest` or `commits`"),
    }
}

fn open(folder: &Path) -> DiskStore {
    DiskStore::open(folder, StoreOptions::default(), Environment::default()).unwrap()
}

fn wide_schema() -> SchemaRef {
    let field = |name: &str| Field::new(name, DataType::Utf8, false);
    Arc::new(Schema::new(vec![field("key"), field("value")]))
}

/// Rows of 100 bytes of key and 100 of value.
fn wide_rows(from: u64, to: u64) -> RecordBatch {
    let keys: StringArray =
        (from..to).map(|row| Some(format!("{:0100}", row.wrapping_mul(0x9E37_79B9)))).collect();
    let values: StringArray = (from..to).map(|row| Some(format!("{row:0100}"))).collect();
    RecordBatch::try_new(wide_schema(), vec![Arc::new(keys), Arc::new(values)]).unwrap()
}

fn recovery(folder: &Path, stores: u64, rows: u64) {
    for crashed in [false, true] {
        std::fs::remove_dir_all(folder).ok();
        for store in 0..stores {
            let folder = folder.join(store.to_string()).display().to_string();
            run_again(&["fill", &folder, &rows.to_string(), if crashed { "crashed" } else { "clean" }]);
        }
        println!("-- {stores} stores x {rows} rows, {}", if crashed { "crashed" } else { "closed" });
        for _ in 0..3 {
            let kind = if crashed { "crashed" } else { "clean" };
            run_again(&["start", &folder.display().to_string(), &stores.to_string(), kind]);
        }
        raw_read(folder);
    }
}

fn run_again(arguments: &[&str]) {
    let done = Command::new(std::env::current_exe().unwrap()).args(arguments).status().unwrap();
    assert!(done.success());
}

/// Fills a store; a crash is played by ending the process.
fn fill(folder: &Path, rows: u64, crashed: bool) {
    let store = open(folder);
    let table = store.create_table(TableSpec::new("t", wide_schema(), &["key"])).unwrap();
    let step = 10_000;
    for from in (0..rows).step_by(step as usize) {
        table.write(Write::upsert(wide_rows(from, rows.min(from + step)))).unwrap();
    }
    if crashed {
        std::process::exit(0);
    }
    store.close().unwrap();
}

/// One start: time to keys, to values, processor time, memory.
fn start(folder: &Path, stores: u64, clean: bool) {
    let before = Instant::now();
    let handles: Vec<_> = (0..stores)
        .map(|store| {
            let folder = folder.join(store.to_string());
            std::thread::spawn(move || open(&folder))
        })
        .collect();
    let opened: Vec<DiskStore> = handles.into_iter().map(|handle| handle.join().unwrap()).collect();
    let (keys, keys_cpu) = (before.elapsed(), usage().0);
    let rows: u64 = opened.iter().map(|store| store.table("t").unwrap().version().rows()).sum();
    let report = opened[0].progress().report();
    while !opened.iter().all(|store| store.table("t").unwrap().is_loaded()) {
        std::thread::sleep(Duration::from_micros(200));
    }
    let values = before.elapsed();
    let (cpu, resident) = usage();
    println!(
        "{}: keys {:.3} s (CPU {keys_cpu:.2} s), values {:.3} s (CPU {cpu:.2} s), {rows} rows, {} bytes of memory a row, log {} KiB",
        if clean { "clean" } else { "crashed" },
        keys.as_secs_f64(),
        values.as_secs_f64(),
        resident / rows,
        report.log_bytes_total / 1024,
    );
    std::process::exit(0);
}

/// Seconds of processor time and resident bytes of this process.
fn usage() -> (f64, u64) {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: f64 = fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap();
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    (ticks / 100.0, line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024)
}

fn raw_read(folder: &Path) {
    let before = Instant::now();
    let mut bytes = 0;
    let mut buffer = vec![0; 4 << 20];
    for store in std::fs::read_dir(folder).unwrap() {
        for file in std::fs::read_dir(store.unwrap().path()).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_none_or(|end| end != "log") {
                let mut file = std::fs::File::open(path).unwrap();
                loop {
                    match std::io::Read::read(&mut file, &mut buffer).unwrap() {
                        0 => break,
                        read => bytes += read,
                    }
                }
            }
        }
    }
    println!("raw read of {} MiB into one buffer: {:.3} s", bytes >> 20, before.elapsed().as_secs_f64());
}

/// Batches of ten columns.
fn ten_columns(from: i64, rows: i64) -> RecordBatch {
    let schema = ten_schema();
    let range = || from..from + rows;
    let mut columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from_iter_values(range()))];
    for column in 1..4 {
        columns.push(Arc::new(Int64Array::from_iter_values(range().map(|row| row * column))));
    }
    for column in 4..6 {
        columns
            .push(Arc::new(Int32Array::from_iter_values(range().map(|row| (row % (column * 100)) as i32))));
    }
    for column in 6..8 {
        columns.push(Arc::new(Float64Array::from_iter_values(range().map(|row| row as f64 / column as f64))));
    }
    for column in 8..10 {
        columns.push(Arc::new(StringArray::from_iter_values(
            range().map(|row| format!("{column}-{}", row % 1000)),
        )));
    }
    RecordBatch::try_new(schema, columns).unwrap()
}

fn ten_schema() -> SchemaRef {
    let data_type = |column| match column {
        0..=3 => DataType::Int64,
        4..=5 => DataType::Int32,
        6..=7 => DataType::Float64,
        _ => DataType::Utf8,
    };
    let fields = (0..10).map(|column| Field::new(format!("c{column}"), data_type(column), false));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

fn ingest(folder: &Path, rows: u64) {
    std::fs::remove_dir_all(folder).ok();
    let store = open(folder);
    let table = store.create_table(TableSpec::new("t", ten_schema(), &["c0"])).unwrap();
    let batch_rows = 100_000;
    let batches: Vec<RecordBatch> =
        (0..rows as i64 / batch_rows).map(|batch| ten_columns(batch * batch_rows, batch_rows)).collect();
    for round in ["new rows", "the same rows again"] {
        let (before, (cpu, _)) = (Instant::now(), usage());
        let tickets: Vec<_> =
            batches.iter().map(|batch| table.submit(Write::upsert(batch.clone())).unwrap()).collect();
        tickets.iter().for_each(|ticket| assert!(ticket.wait().is_ok()));
        let (seconds, used) = (before.elapsed().as_secs_f64(), usage().0 - cpu);
        println!(
            "{round}: {:.2} M rows/s, {:.2} M rows for a second of processor time",
            rows as f64 / seconds / 1e6,
            rows as f64 / used / 1e6
        );
    }
    let before = Instant::now();
    store.close().unwrap();
    println!("close {:.2} s", before.elapsed().as_secs_f64());
}

fn commits(folder: &Path, writers: u64, seconds: u64) {
    std::fs::remove_dir_all(folder).ok();
    let store = open(folder);
    let table = store.create_table(TableSpec::new("t", ten_schema(), &["c0"])).unwrap();
    let end = Instant::now() + Duration::from_secs(seconds);
    let handles: Vec<_> = (0..writers as i64)
        .map(|writer| {
            let table = table.clone();
            std::thread::spawn(move || {
                let mut latencies = Vec::new();
                let mut row = writer << 32;
                while Instant::now() < end {
                    let before = Instant::now();
                    table.write(Write::upsert(ten_columns(row, 1))).unwrap();
                    latencies.push(before.elapsed());
                    row += 1;
                }
                latencies
            })
        })
        .collect();
    let mut latencies: Vec<Duration> =
        handles.into_iter().flat_map(|handle| handle.join().unwrap()).collect();
    latencies.sort();
    let at = |share: f64| latencies[(latencies.len() as f64 * share) as usize].as_secs_f64() * 1e3;
    println!(
        "{writers} writers: {} commits/s, p50 {:.2} ms, p99 {:.2} ms, {:.0} us of processor time each",
        latencies.len() as u64 / seconds,
        at(0.5),
        at(0.99),
        usage().0 / latencies.len() as f64 * 1e6
    );
}
