//! How long a start takes: to all keys, and to all values.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use nyala_storage::oplog::{DiskStore, LiveTable, TableSpec, Ticket, Write};

use crate::process::{open, run_again, usage};
use crate::rows::{wide_rows, wide_schema};

/// How a store was left. The last two ended when a checkpoint was nearly due, which is the worst moment. Their last
/// statements had 1,000 new rows each, or replaced one row anywhere.
const ENDS: &[&str] = &["closed", "crashed", "crashed-updates"];
const RUNS: usize = 3;
pub const STATEMENT_ROWS: u64 = 10_000;
/// The last rows are written in smaller steps, and some of them are left out.
const TAIL_ROWS: u64 = 200_000;
const TAIL_STEP: u64 = 1_000;

/// One line of the table.
struct Measured {
    name: String,
    /// The numbers of each start, by name.
    runs: Vec<BTreeMap<String, f64>>,
}

pub fn run(folder: &Path, sizes: &[String]) {
    let default = ["2x1000000", "1x10000000", "1x30000000"].map(str::to_owned);
    let sizes = if sizes.is_empty() { &default } else { sizes };
    let mut all = Vec::new();
    println!("{}", Measured::HEAD);
    for size in sizes {
        let (stores, rows) = size.split_once('x').unwrap();
        let (stores, rows): (u64, u64) = (stores.parse().unwrap(), rows.parse().unwrap());
        for end in ENDS {
            measure(folder, stores, rows, end, &mut all);
        }
    }
    std::fs::remove_dir_all(folder.join("made")).ok();
    std::fs::remove_dir_all(folder.join("run")).ok();
}

fn measure(folder: &Path, stores: u64, rows: u64, end: &str, all: &mut Vec<Measured>) {
    let (made, run) = (folder.join("made"), folder.join("run"));
    std::fs::remove_dir_all(&made).ok();
    for store in 0..stores {
        let folder = made.join(store.to_string()).display().to_string();
        run_again(&["fill", &folder, &rows.to_string(), end]);
    }
    for cold in [false, true] {
        let runs = (0..RUNS).map(|_| {
            copy(&made, &run);
            let files = files_in(&made);
            touch(&files, cold);
            let mut numbers = run_again(&["start", &run.display().to_string(), &stores.to_string()]);
            touch(&files, cold);
            numbers.insert("raw_seconds".to_owned(), raw_read(&files, numbers["read_bytes"] as u64));
            numbers
        });
        let cache = if cold { "cold" } else { "warm" };
        let measured = Measured { name: format!("{stores} x {rows}, {end}, {cache}"), runs: runs.collect() };
        println!("{}", measured.line());
        all.push(measured);
        std::fs::write(folder.join("recovery.json"), json(all)).unwrap();
    }
}

/// Fills a store; a crash is played by ending the process.
pub fn fill(folder: &Path, rows: u64, end: &str) {
    let store = open(folder);
    let table = store.create_table(TableSpec::new("t", wide_schema(), &["key"])).unwrap();
    let tail = if end == "closed" { 0 } else { TAIL_ROWS.min(rows / 2) };
    write(&table, 0, rows - tail, STATEMENT_ROWS);
    if end == "closed" {
        store.close().unwrap();
        return;
    }
    store.checkpoint().unwrap();
    let mut longest = 0;
    for from in (rows - tail..rows).step_by(TAIL_STEP as usize) {
        match end {
            "crashed" => write(&table, from, from + TAIL_STEP, TAIL_STEP),
            _ => replace(&table, from, rows - tail),
        }
        let log = store.stats().log_bytes;
        if log > longest * 9 / 10 && from > rows - tail / 2 {
            break;
        }
        longest = longest.max(log);
    }
    std::process::exit(0);
}

pub fn write(table: &LiveTable, from: u64, to: u64, step: u64) {
    let mut tickets: Vec<Ticket> = Vec::new();
    for from in (from..to).step_by(step as usize) {
        tickets.push(table.submit(Write::upsert(wide_rows(from, to.min(from + step)))).unwrap());
        if tickets.len() as u64 * step >= 10 * STATEMENT_ROWS {
            tickets.drain(..).for_each(|ticket| assert!(ticket.wait().is_ok()));
        }
    }
    tickets.into_iter().for_each(|ticket| assert!(ticket.wait().is_ok()));
}

/// Replaces single rows anywhere among the first `rows`.
fn replace(table: &LiveTable, from: u64, rows: u64) {
    let places = (from..from + TAIL_STEP).map(|number| number.wrapping_mul(0x9E37_79B9_7F4A_7C15) % rows);
    let statements = places.map(|row| table.submit(Write::upsert(wide_rows(row, row + 1))).unwrap());
    let tickets: Vec<Ticket> = statements.collect();
    tickets.into_iter().for_each(|ticket| assert_eq!(ticket.wait().unwrap().replaced, 1));
}

/// One start: time to keys, to values, processor time, memory.
pub fn start(folder: &Path, stores: u64) {
    let before = Instant::now();
    let handles: Vec<_> = (0..stores)
        .map(|store| {
            let folder = folder.join(store.to_string());
            std::thread::spawn(move || open(&folder))
        })
        .collect();
    let opened: Vec<DiskStore> = handles.into_iter().map(|handle| handle.join().unwrap()).collect();
    let (keys, keys_used) = (before.elapsed(), usage());
    let tables: Vec<LiveTable> = opened.iter().map(|store| store.table("t").unwrap()).collect();
    let rows: u64 = tables.iter().map(|table| table.version().rows()).sum();
    let log: u64 = opened.iter().map(|store| store.progress().report().log_bytes_total).sum();
    while !tables.iter().all(LiveTable::is_loaded) {
        std::thread::sleep(Duration::from_micros(200));
    }
    let (values, used) = (before.elapsed(), usage());
    let numbers = [
        ("rows", rows as f64),
        ("keys_seconds", keys.as_secs_f64()),
        ("keys_cpu_seconds", keys_used.seconds),
        ("values_seconds", values.as_secs_f64()),
        ("values_cpu_seconds", used.seconds),
        ("resident_bytes", used.resident as f64),
        ("peak_bytes", used.peak as f64),
        ("read_bytes", used.read as f64),
        ("disk_bytes", used.from_disk as f64),
        ("log_bytes", log as f64),
    ];
    numbers.iter().for_each(|(name, number)| println!("{name}={number}"));
    std::process::exit(0);
}

/// Another copy of the stores that shares their files: a start may remove some, and changes none.
fn copy(made: &Path, run: &Path) {
    std::fs::remove_dir_all(run).ok();
    for file in files_in(made) {
        let target = run.join(file.strip_prefix(made).unwrap());
        std::fs::create_dir_all(target.parent().unwrap()).unwrap();
        std::fs::hard_link(&file, &target).unwrap();
    }
}

/// The files that a start may read, those with the newest rows last.
fn files_in(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for store in std::fs::read_dir(folder).unwrap() {
        for file in std::fs::read_dir(store.unwrap().path()).unwrap() {
            let path = file.unwrap().path();
            if !path.ends_with("lock") && !path.ends_with("reserve") {
                files.push(path);
            }
        }
    }
    let is_log = |path: &PathBuf| path.extension().is_some_and(|end| end == "log");
    files.sort_by_key(|path| (is_log(path), std::cmp::Reverse(path.clone())));
    files
}

/// Brings files into the system's cache, or out of it.
fn touch(files: &[PathBuf], cold: bool) {
    for file in files {
        if cold {
            let drop = ["iflag=nocache", "count=0", "status=none"];
            let done = Command::new("dd").arg(format!("if={}", file.display())).args(drop).status();
            assert!(done.unwrap().success());
        } else {
            let mut file = std::fs::File::open(file).unwrap();
            std::io::copy(&mut file, &mut std::io::sink()).unwrap();
        }
    }
}

/// Seconds to read so many bytes of files into one buffer.
fn raw_read(files: &[PathBuf], bytes: u64) -> f64 {
    let before = Instant::now();
    let mut buffer = vec![0; 4 << 20];
    let mut left = bytes as usize;
    for file in files {
        let mut file = std::fs::File::open(file).unwrap();
        while left > 0 {
            match std::io::Read::read(&mut file, &mut buffer).unwrap() {
                0 => break,
                read => left = left.saturating_sub(read),
            }
        }
    }
    before.elapsed().as_secs_f64()
}

impl Measured {
    const HEAD: &str = "| stores x rows, how they ended, cache | keys ready | CPU | values ready | CPU | memory a row (at most) | read (from disk) | log | raw read |\n|---|---|---|---|---|---|---|---|---|";

    fn median(&self, name: &str) -> f64 {
        let mut found: Vec<f64> = self.runs.iter().map(|run| run[name]).collect();
        found.sort_by(f64::total_cmp);
        found[found.len() / 2]
    }

    fn line(&self) -> String {
        let mib = |name| self.median(name) / f64::from(1 << 20);
        let rows = self.median("rows");
        format!(
            "| {} | {:.3} s | {:.2} s | {:.3} s | {:.2} s | {:.0} B ({:.0} B) | {:.0} MiB ({:.0} MiB) | {:.1} MiB | {:.3} s |",
            self.name,
            self.median("keys_seconds"),
            self.median("keys_cpu_seconds"),
            self.median("values_seconds"),
            self.median("values_cpu_seconds"),
            self.median("resident_bytes") / rows,
            self.median("peak_bytes") / rows,
            mib("read_bytes"),
            mib("disk_bytes"),
            mib("log_bytes"),
            self.median("raw_seconds"),
        )
    }
}

fn json(all: &[Measured]) -> String {
    let runs = all.iter().flat_map(|measured| measured.runs.iter().map(|run| (&measured.name, run)));
    let objects = runs.map(|(name, run)| {
        let mut object = format!("  {{\"name\": \"{name}\"");
        for (name, number) in run {
            write!(object, ", \"{name}\": {number}").unwrap();
        }
        object + "}"
    });
    format!("[\n{}\n]\n", objects.collect::<Vec<_>>().join(",\n"))
}
