//! Damage in every file, in every place.
//!
//! The promise: every change to a file's bytes is noticed. It is reported by verification and by the start or the
//! first read that touches it; no wrong row is ever served, and no row is missing without a report.

use std::path::{Path, PathBuf};

use super::crash::from_environment;
use super::fixture::*;
use super::workload::Rows;
use crate::oplog::vfs::sim::{Faults, Image, Rng, SimDisk};
use crate::oplog::*;

/// A store with units, dead rows, kept logs and a log that is being written, stopped without a checkpoint.
pub fn damaged_store() -> (Image, Rows) {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    let table = store.create_table(spec("t")).unwrap();
    let write = |from: i64, to: i64| {
        let names: Vec<String> = (from..to).map(|number| format!("key {number}")).collect();
        let batch: Vec<(&str, i64)> = names.iter().map(String::as_str).zip(from..).collect();
        table.write(Write::upsert(rows(&batch))).unwrap();
    };
    write(0, 300);
    store.seal().unwrap();
    write(250, 400);
    table.write(Write::delete(keys(&["key 1", "key 300"]))).unwrap();
    store.seal().unwrap();
    write(390, 420);
    store.checkpoint().unwrap();
    write(410, 430);
    table.write(Write::delete(keys(&["key 420"]))).unwrap();
    write(500, 501);
    let rows = content(&table).unwrap();
    drop((table, store));
    (disk.image(), rows)
}

/// The outcome for a damaged store.
#[derive(Debug, PartialEq)]
enum Fate {
    /// The damage is reported.
    Noticed,
    /// The damaged bytes are not in use.
    Harmless,
}

fn fate(disk: &SimDisk, expected: &Rows, what: &str) -> Fate {
    let environment = environment(disk, &ManualClock::default());
    let verified = verify(Path::new(FOLDER), &environment);
    let told =
        verified.as_ref().map_or(true, |report| report.damage().next().is_some() || report.torn.is_some());
    let opened = try_open(disk);
    let Ok(store) = opened else { return Fate::Noticed };
    let report = store.report().clone();
    let Ok(table) = store.table("t") else {
        assert!(!report.damage.is_empty() || report.torn.is_some(), "{what}: the table is gone");
        return Fate::Noticed;
    };
    let served = content(&table);
    for number in [0, 2, 260, 300, 395, 415, 429, 500] {
        let key = format!("key {number}");
        if let Ok(found) = table.lookup(&keys(&[&key])) {
            let right: Vec<(&str, i64)> =
                expected.get_key_value(&key).map(|(key, value)| (key.as_str(), *value)).into_iter().collect();
            let cut = report.torn.is_some();
            assert!(found.rows == rows(&right) || cut, "{what}: {key} is {found:?}");
        }
    }
    match served {
        Err(_) => Fate::Noticed,
        Ok(rows) if report.torn.is_some() => {
            assert!(rows.len() + 22 >= expected.len(), "{what}: more than the tail is missing");
            Fate::Noticed
        }
        Ok(rows) => {
            assert_eq!(&rows, expected, "{what}: something wrong is served");
            if told || !report.damage.is_empty() { Fate::Noticed } else { Fate::Harmless }
        }
    }
}

fn files(image: &Image) -> Vec<(PathBuf, Vec<u8>)> {
    SimDisk::from_image(image.clone(), 0)
        .files()
        .into_iter()
        .filter(|(path, _)| !path.ends_with("lock"))
        .collect()
}

fn check(image: &Image, expected: &Rows, path: &Path, content: Option<Vec<u8>>, what: &str) {
    let disk = SimDisk::from_image(image.clone(), 0);
    match content {
        Some(content) => disk.put(path, content),
        None => disk.delete(path),
    }
    let what = format!("{} with {what}", path.display());
    assert_eq!(fate(&disk, expected, &what), Fate::Noticed, "{what}");
    if path.extension().is_some_and(|end| ["seg", "key", "del"].iter().any(|kind| end == *kind)) {
        go_on_and_repair(image, expected, &disk, path, &what);
    }
}

/// Writes more statements beside a damaged unit; once its file is restored, the table is whole.
fn go_on_and_repair(image: &Image, expected: &Rows, disk: &SimDisk, path: &Path, what: &str) {
    for round in 0..3 {
        let store = try_open(disk).unwrap_or_else(|error| panic!("{what}: {error}"));
        let other = match store.table("other") {
            Ok(other) => other,
            Err(_) => store.create_table(spec("other")).unwrap(),
        };
        other.write(Write::upsert(rows(&[("round", round), (&format!("key {round}"), round)]))).unwrap();
        store.seal().unwrap_or_else(|error| panic!("{what}: {error}"));
        store.maintain().unwrap();
        other.write(Write::upsert(rows(&[("last", round)]))).unwrap();
    }
    let whole = SimDisk::from_image(image.clone(), 0).files().remove(path);
    disk.put(path, whole.unwrap());
    let store = open(disk);
    assert_eq!(store.report(), &StoreReport::default(), "{what}, repaired");
    assert_eq!(&content(&store.table("t").unwrap()).unwrap(), expected, "{what}, repaired");
    let others = map(&[("key 0", 0), ("key 1", 1), ("key 2", 2), ("last", 2), ("round", 2)]);
    assert_eq!(content(&store.table("other").unwrap()).unwrap(), others, "{what}");
    store.close().unwrap();
    assert_eq!(&content(&open(disk).table("t").unwrap()).unwrap(), expected, "{what}, repaired and sealed");
}

#[test]
fn the_store_is_right_before_it_is_damaged() {
    let (image, expected) = damaged_store();
    let kinds: Vec<String> = files(&image).iter().map(|(path, _)| path.display().to_string()).collect();
    for end in [".log", ".seg", ".key", ".del"] {
        assert!(kinds.iter().any(|path| path.ends_with(end)), "{end} in {kinds:?}");
    }
    assert!(kinds.iter().any(|path| path.contains("manifest-")));
    let disk = SimDisk::from_image(image, 0);
    assert_eq!(fate(&disk, &expected, "nothing"), Fate::Harmless);
}

#[test]
fn flipped_bits_are_noticed() {
    let (image, expected) = damaged_store();
    let mut rng = Rng(from_environment("NYALA_SEED", 1));
    let share = from_environment("NYALA_DAMAGE", 7);
    for (path, content) in files(&image) {
        for byte in 0..content.len() {
            if byte > 100 && byte + 100 < content.len() && !rng.one_in(share) {
                continue;
            }
            let bit = rng.below(8);
            let mut flipped = content.clone();
            flipped[byte] ^= 1 << bit;
            check(&image, &expected, &path, Some(flipped), &format!("bit {bit} of byte {byte} flipped"));
        }
    }
}

#[test]
fn lost_pages_and_cut_files_are_noticed() {
    let (image, expected) = damaged_store();
    let logs = files(&image).into_iter().map(|(path, _)| path);
    let last_log = logs.filter(|path| path.extension().is_some_and(|end| end == "log")).max().unwrap();
    let mut rng = Rng(from_environment("NYALA_SEED", 1));
    for (path, content) in files(&image) {
        for from in (0..content.len()).step_by(512) {
            for page in [512, 4096] {
                let to = content.len().min(from + page);
                let (mut zeroed, mut random) = (content.clone(), content.clone());
                zeroed[from..to].fill(0);
                random[from..to].iter_mut().for_each(|byte| *byte = rng.next() as u8);
                check(&image, &expected, &path, Some(random), &format!("{from}..{to} random"));
                if zeroed != content {
                    check(&image, &expected, &path, Some(zeroed), &format!("{from}..{to} zero"));
                }
            }
        }
        for _ in 0..20 {
            let bytes = rng.below(content.len() as u64) as usize;
            if path != last_log || !ends_at_a_frame(&content, bytes) {
                check(
                    &image,
                    &expected,
                    &path,
                    Some(content[..bytes].to_vec()),
                    &format!("only {bytes} bytes"),
                );
            }
        }
        check(&image, &expected, &path, None, "nothing left");
        let longer = [content.as_slice(), &[0; 100]].concat();
        if path != last_log && path.extension().is_some_and(|end| end == "log") {
            // Bytes behind the end of a log were never part of it.
            let disk = SimDisk::from_image(image.clone(), 0);
            disk.put(&path, longer);
            assert_eq!(fate(&disk, &expected, "a longer log"), Fate::Harmless);
        } else {
            check(&image, &expected, &path, Some(longer), "zeros behind it");
        }
    }
}

#[test]
fn swapped_files_are_noticed() {
    let (image, expected) = damaged_store();
    let all = files(&image);
    for (path, content) in &all {
        for (_, other) in all.iter().filter(|(_, other)| other != content) {
            check(&image, &expected, path, Some(other.clone()), "the content of another file");
        }
    }
}

#[test]
fn stale_files_are_noticed() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    let table = store.create_table(spec("t")).unwrap();
    table.write(Write::upsert(rows(&[("a", 1), ("b", 2), ("c", 3), ("d", 4), ("e", 5)]))).unwrap();
    store.seal().unwrap();
    table.write(Write::delete(keys(&["a"]))).unwrap();
    store.checkpoint().unwrap();
    let old = disk.files();
    table.write(Write::delete(keys(&["b"]))).unwrap();
    store.checkpoint().unwrap();
    let new = disk.files();
    let expected = content(&table).unwrap();
    drop((table, store));
    let dead = |files: &std::collections::BTreeMap<PathBuf, Vec<u8>>| {
        files
            .iter()
            .find(|(path, _)| path.to_string_lossy().ends_with(".del"))
            .map(|(path, content)| (path.clone(), content.clone()))
            .unwrap()
    };
    check(&disk.image(), &expected, &dead(&new).0, Some(dead(&old).1), "its older version");
    let log = new.keys().rfind(|path| path.to_string_lossy().ends_with(".log")).unwrap();
    check(&disk.image(), &expected, log, old.get(log).cloned(), "its older version");
}

#[test]
fn a_store_that_cannot_be_read_for_now_is_not_damaged() {
    let (image, expected) = damaged_store();
    for seed in 0..200 {
        let disk = SimDisk::from_image(image.clone(), seed);
        disk.set_faults(Faults { read_error: 20, short_read: 3, ..Faults::default() });
        if let Ok(store) = try_open(&disk) {
            assert_eq!(store.report(), &StoreReport::default());
            if let Ok(rows) = content(&store.table("t").unwrap()) {
                assert_eq!(rows, expected);
            }
        }
        disk.set_faults(Faults::default());
        assert_eq!(content(&open(&disk).table("t").unwrap()).unwrap(), expected);
    }
}

/// Whether a log cut here looks like a log that was written no further, without a torn frame or a later one: it ends
/// with a frame, or within its filler.
fn ends_at_a_frame(content: &[u8], bytes: usize) -> bool {
    let mut at = 64;
    while at + 24 <= content.len() && at < bytes {
        let length = u32::from_le_bytes(content[at..at + 4].try_into().unwrap()) as usize;
        if at + 24 + length > content.len() {
            return true;
        }
        at += 24 + length;
    }
    at == bytes
}

/// No later frame confirms the damaged one, and the machine may have stopped while writing it; but then a part of it would be
/// missing.
#[test]
fn a_flipped_bit_in_the_last_frame_is_not_taken_for_a_frame_that_was_not_finished() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    let table = store.create_table(spec("t")).unwrap();
    table.write(Write::upsert(rows(&[("a", 1)]))).unwrap();
    let long = "b".repeat(2000);
    table.write(Write::upsert(rows(&[(&long, 2)]))).unwrap();
    drop((table, store));
    let is_log = |path: &PathBuf| path.extension().is_some_and(|end| end == "log");
    let log = disk.files().into_keys().filter(is_log).max().unwrap();
    let whole = disk.files().remove(&log).unwrap();
    let end = whole.iter().rposition(|byte| *byte != 0xA5).unwrap() + 1;
    let last = (64..end)
        .rfind(|at| whole[*at..].starts_with(&((end - at) as u32).wrapping_sub(24).to_le_bytes()))
        .unwrap();
    let report = |content: Vec<u8>| {
        let disk = SimDisk::from_image(disk.image(), 0);
        disk.put(&log, content);
        open(&disk).report().clone()
    };
    for bit in (last * 8..end * 8).step_by(7).chain(last * 8..(last + 24) * 8) {
        let mut flipped = whole.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let report = report(flipped);
        assert!(report.torn.is_none() && !report.damage.is_empty(), "bit {bit}: {report:?}");
    }
    for missing in [512..1024, last + 24..end, last..512, 1536..end] {
        for blank in [0xA5, 0] {
            let mut torn = whole.clone();
            torn[missing.clone()].fill(blank);
            let report = report(torn);
            assert!(report.torn.is_some() && report.damage.is_empty(), "{missing:?}: {report:?}");
        }
    }
}

/// A table that is damaged, repaired, written to, and damaged again, while others go on, is complete once it is
/// repaired again.
#[test]
fn what_is_written_between_two_damages_is_not_lost() {
    for retain_log_bytes in [0, 1 << 20] {
        let (image, mut expected) = damaged_store();
        let disk = SimDisk::from_image(image, 0);
        let start = || {
            let options = StoreOptions { retain_log_bytes, ..small_options() };
            DiskStore::open(Path::new(FOLDER), options, environment(&disk, &ManualClock::default())).unwrap()
        };
        let key = |path: &PathBuf| path.to_string_lossy().ends_with(".key");
        let key = disk.files().into_keys().find(key).unwrap();
        let whole = disk.files().remove(&key).unwrap();
        let go_on_beside = |from: i64| {
            disk.put(&key, whole[..whole.len() / 2].to_vec());
            let store = start();
            assert!(!store.report().damage.is_empty());
            let other = store.table("other").or_else(|_| store.create_table(spec("other"))).unwrap();
            for number in from..from + 4 {
                other.write(Write::upsert(rows(&[(&format!("key {number}"), number)]))).unwrap();
                store.seal().unwrap();
            }
            disk.put(&key, whole.clone());
        };
        go_on_beside(0);
        let store = start();
        assert_eq!(store.report(), &StoreReport::default());
        store.table("t").unwrap().write(Write::upsert(rows(&[("between", 1)]))).unwrap();
        drop(store);
        expected.insert("between".to_owned(), 1);
        go_on_beside(4);
        let store = start();
        assert_eq!(store.report(), &StoreReport::default());
        assert_eq!(content(&store.table("t").unwrap()).unwrap(), expected);
        assert_eq!(store.table("other").unwrap().version().rows(), 8);
    }
}
