//! Tables with writes that are acknowledged before they are on disk.
//!
//! The promise: a power cut loses the newest writes at most, and never leaves a gap.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};

use super::fixture::*;
use crate::oplog::vfs::sim::{Faults, Image, Rng, SimDisk};
use crate::oplog::*;

fn check(durability: Durability, seed: u64) {
    let mut rng = Rng(seed);
    let disk = SimDisk::new(seed);
    let store = open(&disk);
    let table = store.create_table(TableSpec { durability, ..spec("t") }).unwrap();
    let mut history = vec![content(&table).unwrap()];
    let mut synced = 0;
    for number in 0..40 {
        let key = format!("key {}", rng.below(10));
        table.write(Write::upsert(rows(&[(&key, number)]))).unwrap();
        history.push(content(&table).unwrap());
        match rng.below(10) {
            0 => store.seal().unwrap(),
            1 => store.checkpoint().unwrap(),
            2 => store.maintain().unwrap(),
            _ => continue,
        }
        synced = history.len() - 1;
    }
    let left = SimDisk::from_image(disk.image().after_crash(rng.next()), seed);
    let store = open(&left);
    assert!(store.report().damage.is_empty(), "seed {seed}: {:?}", store.report());
    let found = content(&store.table("t").unwrap()).unwrap();
    let at = history.iter().rposition(|rows| *rows == found);
    assert!(at.is_some_and(|at| at >= synced), "seed {seed}: {found:?} is at {at:?}, {synced} were synced");
}

#[test]
fn a_power_cut_loses_the_newest_writes_at_most() {
    for seed in 0..300 {
        check(Durability::Os, seed);
        check(Durability::Interval, seed);
    }
}

/// A killed process leaves its writes in the memory of the system. The next start serves them, so that they must be on
/// disk by then. Symptom: a later power cut lost them, although the new log said that they were confirmed.
#[test]
fn what_a_start_serves_survives_a_power_cut() {
    for seed in 0..60 {
        let disk = SimDisk::new(seed);
        let store = open(&disk);
        let table = store.create_table(TableSpec { durability: Durability::Os, ..spec("t") }).unwrap();
        table.write(Write::upsert(rows(&[("a", 1)]))).unwrap();
        drop((table, store));
        let store = open(&disk);
        let table = store.table("t").unwrap();
        assert_eq!(content(&table).unwrap(), map(&[("a", 1)]));
        table.persist().unwrap();
        let left = SimDisk::from_image(disk.image().after_crash(seed), seed);
        let store = open(&left);
        assert_eq!(store.report(), &StoreReport::default(), "seed {seed}");
        assert_eq!(content(&store.table("t").unwrap()).unwrap(), map(&[("a", 1)]), "seed {seed}");
    }
}

#[test]
fn a_start_that_cannot_make_durable_what_it_read_is_refused() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    let table = store.create_table(TableSpec { durability: Durability::Os, ..spec("t") }).unwrap();
    table.write(Write::upsert(rows(&[("a", 1)]))).unwrap();
    drop((table, store));
    disk.fail_next_sync();
    let refused = try_open(&disk);
    assert!(matches!(refused, Err(OplogError::Io { action: "sync", .. })), "{refused:?}");
}

/// The newest log, and its length.
fn newest_log(disk: &SimDisk) -> (PathBuf, usize) {
    let is_log = |path: &Path| path.extension().is_some_and(|end| end == "log");
    let logs = disk.files().into_iter().filter(|(path, _)| is_log(path));
    logs.max().map(|(path, bytes)| (path, bytes.len())).unwrap()
}

#[test]
fn small_statements_find_space_in_the_log_and_nothing_is_torn() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    let table = store.create_table(spec("t")).unwrap();
    table.write(Write::upsert(rows(&[("a", 1)]))).unwrap();
    let before = newest_log(&disk);
    for number in 0..4 {
        table.write(Write::upsert(rows(&[("a", number)]))).unwrap();
    }
    assert_eq!(newest_log(&disk), before, "the log is as long as it was");
    drop((table, store));
    assert_eq!(verify(Path::new(FOLDER), &environment(&disk, &ManualClock::default())).unwrap().torn, None);
    let store = open(&disk);
    assert_eq!(store.report(), &StoreReport::default());
    assert_eq!(content(&store.table("t").unwrap()).unwrap(), map(&[("a", 3)]));
}

#[test]
fn what_was_filled_and_is_no_longer_is_told() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    let table = store.create_table(spec("t")).unwrap();
    table.write(Write::upsert(rows(&[("a", 1)]))).unwrap();
    drop((table, store));
    let image = disk.image();
    let (log, bytes) = newest_log(&disk);
    let mut content_of_log = disk.files().remove(&log).unwrap();
    content_of_log[bytes - 100..bytes - 10].fill(0);
    let disk = SimDisk::from_image(image, 1);
    disk.put(&log, content_of_log);
    let store = open(&disk);
    let torn = store.report().torn.clone().unwrap();
    assert_eq!(torn.offset + torn.bytes, bytes as u64 - 10, "{torn:?}");
    assert_eq!(content(&store.table("t").unwrap()).unwrap(), map(&[("a", 1)]));
}

#[test]
fn a_disk_without_space_to_fill_a_log_takes_statements() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    let table = store.create_table(spec("t")).unwrap();
    store.seal().unwrap();
    let used: usize = disk.files().values().map(Vec::len).sum();
    // There is space for a part of the filler.
    disk.set_faults(Faults { space: Some(used as u64 + 3000), short_write: 1, ..Faults::default() });
    let (_, empty) = newest_log(&disk);
    table.write(Write::upsert(rows(&[("a", 1)]))).unwrap();
    table.write(Write::upsert(rows(&[("b", 2)]))).unwrap();
    store.check_writable().unwrap();
    let (log, bytes) = newest_log(&disk);
    assert!((empty + 50..empty + 400).contains(&bytes), "{empty} bytes, then {bytes}");
    assert_ne!(disk.files()[&log].last(), Some(&0xA5), "it is not filled");
    drop((table, store));
    let store = open(&disk);
    assert_eq!(store.report(), &StoreReport::default());
    assert_eq!(content(&store.table("t").unwrap()).unwrap(), map(&[("a", 1), ("b", 2)]));
}

/// A frame may end with the filler's byte, as the letter "å" does. Such a frame proves that the damage before it is not the end of
/// the log.
#[test]
fn a_frame_that_ends_like_filler_confirms_what_is_before_it() {
    for preallocate_bytes in [0, 4096] {
        let disk = SimDisk::new(1);
        let options = StoreOptions { preallocate_bytes, ..small_options() };
        let environment = environment(&disk, &ManualClock::default());
        let store = DiskStore::open(Path::new(FOLDER), options, environment).unwrap();
        let table = store.create_table(TableSpec::new("t", row(1, "").schema(), &["value", "key"])).unwrap();
        table.write(Write::upsert(row(1, "lost"))).unwrap();
        let (log, _) = newest_log(&disk);
        let place = written(&disk, &log) - 1;
        table.write(Write::upsert(row(2, "\u{e5}"))).unwrap();
        assert_eq!(disk.files()[&log][written(&disk, &log) - 1], 0xC3, "the frame ends with the letter");
        drop((table, store));
        let mut content = disk.files().remove(&log).unwrap();
        content[place] ^= 1;
        disk.put(&log, content);
        let report = open(&disk).report().clone();
        assert!(report.torn.is_none() && !report.damage.is_empty(), "{report:?}");
    }

    /// Bytes before the filler, without bytes of the last frame that look like filler.
    fn written(disk: &SimDisk, log: &Path) -> usize {
        disk.files()[log].iter().rposition(|byte| *byte != 0xA5).unwrap() + 1
    }

    fn row(value: i64, key: &str) -> RecordBatch {
        let (value, key) = (Int64Array::from(vec![value]), StringArray::from(vec![key]));
        let columns: [(&str, ArrayRef); 2] = [("value", Arc::new(value)), ("key", Arc::new(key))];
        RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, false))).unwrap()
    }
}

/// Symptom: sealing large units took long, and meanwhile the log was not kept short, so that a start after a crash had to read all of
/// it.
#[test]
fn a_crash_while_a_large_unit_is_sealed_leaves_little_log() {
    const STATEMENTS: i64 = 40;
    let disk = SimDisk::new(1);
    let options = StoreOptions { seal_bytes: 1 << 20, ..small_options() };
    let store =
        DiskStore::open(Path::new(FOLDER), options, environment(&disk, &ManualClock::default())).unwrap();
    let table = store.create_table(spec("t")).unwrap();
    let long: Vec<String> = (0..400).map(|number| format!("{number:0400}")).collect();
    let many: Vec<(&str, i64)> = long.iter().map(|key| (key.as_str(), 0)).collect();
    table.write(Write::upsert(rows(&many))).unwrap();
    store.checkpoint().unwrap();
    let images: Arc<Mutex<Vec<(i64, Image)>>> = Arc::default();
    let (seen, writing) = (images.clone(), (disk.clone(), table));
    let unit_bytes = |disk: &SimDisk| -> u64 {
        let of_unit = |path: &Path| path.extension().is_some_and(|end| end == "seg" || end == "key");
        let files = disk.files().into_iter().filter(|(path, _)| of_unit(path));
        files.map(|(_, content)| content.len() as u64).sum()
    };
    let (written, busy, bytes) =
        (AtomicI64::new(0), AtomicBool::new(false), AtomicU64::new(unit_bytes(&disk)));
    disk.set_hook(Some(Arc::new(move |_| {
        let (disk, table) = &writing;
        let now = unit_bytes(disk);
        // Statements come whenever a unit's file has grown: no commit is running then.
        if bytes.swap(now, Relaxed) >= now || busy.swap(true, Relaxed) {
            return;
        }
        let number = written.load(Relaxed);
        if number < STATEMENTS {
            let key = format!("new {number:0300}");
            table.write(Write::upsert(rows(&[(&key, number)]))).unwrap();
            written.store(number + 1, Relaxed);
            seen.lock().unwrap().push((number + 1, disk.image()));
        }
        busy.store(false, Relaxed);
    })));
    store.seal().unwrap();
    disk.set_hook(None);
    let images = images.lock().unwrap();
    assert_eq!(images.len() as i64, STATEMENTS);
    for (number, image) in images.iter() {
        let left = SimDisk::from_image(image.after_crash(*number as u64), 0);
        let store = open(&left);
        let found = content(&store.table("t").unwrap()).unwrap();
        assert!(store.report().damage.is_empty(), "{:?}", store.report());
        assert_eq!(found.len() as i64, 400 + number);
        let log = store.progress().report().log_bytes_total;
        assert!(log < 3 * small_options().checkpoint_bytes, "{log} bytes of log after {number} statements");
    }
}
