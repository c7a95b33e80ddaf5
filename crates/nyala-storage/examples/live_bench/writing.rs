//! Ingest, and commits of single rows.

use std::path::Path;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use nyala_storage::oplog::{TableSpec, Write};

use crate::process::{open, usage};
use crate::rows::{ten_columns, ten_schema};

pub fn ingest(folder: &Path, rows: u64) {
    std::fs::remove_dir_all(folder).ok();
    let store = open(folder);
    let table = store.create_table(TableSpec::new("t", ten_schema(), &["c0"])).unwrap();
    let batch_rows = 100_000;
    let batches: Vec<RecordBatch> =
        (0..rows as i64 / batch_rows).map(|batch| ten_columns(batch * batch_rows, batch_rows)).collect();
    for round in ["new rows", "the same rows again"] {
        let (before, cpu) = (Instant::now(), usage().seconds);
        let tickets: Vec<_> =
            batches.iter().map(|batch| table.submit(Write::upsert(batch.clone())).unwrap()).collect();
        tickets.iter().for_each(|ticket| assert!(ticket.wait().is_ok()));
        let (seconds, used) = (before.elapsed().as_secs_f64(), usage().seconds - cpu);
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

pub fn commits(folder: &Path, writers: u64, seconds: u64) {
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
        usage().seconds / latencies.len() as f64 * 1e6
    );
}
