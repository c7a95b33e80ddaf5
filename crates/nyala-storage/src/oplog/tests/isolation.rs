//! Damage affects only the table it hits.
//!
//! The promise: damage is named, with the lost rows, and stops nothing but their table. Once the file is repaired, the
//! table is whole, even with changes to other tables meanwhile.

use std::path::Path;
use std::sync::{Arc, Mutex};

use super::damage::damaged_store;
use super::fixture::*;
use crate::oplog::vfs::sim::{Image, SimDisk};
use crate::oplog::*;

#[test]
fn a_table_that_cannot_be_read_holds_up_no_other() {
    let (image, expected) = damaged_store();
    let disk = SimDisk::from_image(image, 0);
    let key = disk.files().into_keys().find(|path| path.to_string_lossy().contains("-u1-")).unwrap();
    let whole = disk.files().remove(&key).unwrap();
    disk.put(&key, [&whole[..100], &[0], &whole[101..]].concat());
    let options = StoreOptions { retain_log_bytes: 0, ..small_options() };
    let open = || {
        let environment = environment(&disk, &ManualClock::default());
        DiskStore::open(Path::new(FOLDER), options.clone(), environment).unwrap()
    };
    let logs =
        || disk.files().into_keys().filter(|path| path.extension().is_some_and(|end| end == "log")).count();
    let held = logs();
    for round in 0..5 {
        let store = open();
        let damage = store.report().damage.clone();
        let lost = damage[0].rows.clone().unwrap();
        assert_eq!((damage.len(), &damage[0].file, lost.table.as_str()), (1, &key, "t"));
        assert_eq!(lost.keys, Some(("key 0".to_owned(), "key 99".to_owned())));
        let other = store.table("other").or_else(|_| store.create_table(spec("other"))).unwrap();
        for number in 0..20 {
            other.write(Write::upsert(rows(&[(&format!("key {round} {number}"), number)]))).unwrap();
            store.seal().unwrap();
        }
        assert!(store.stats().log_bytes < 300, "the log is sealed: {:?}", store.stats());
        assert!(logs() <= held + 4, "only what the damaged table needs is kept: {} and {held}", logs());
        let table = store.table("t").unwrap();
        assert_eq!(table.lookup(&keys(&["key 429"])).unwrap().rows, rows(&[("key 429", 429)]));
        table.write(Write::delete(keys(&["key 429"]))).unwrap_err();
    }
    disk.put(&key, whole);
    let store = open();
    let table = store.table("t").unwrap();
    assert_eq!(content(&table).unwrap(), expected);
    assert_eq!(store.table("other").unwrap().version().rows(), 100);
    table.write(Write::delete(keys(&["key 429"]))).unwrap();
    store.close().unwrap();
    drop(table);
    assert!(logs() < held, "nothing is held any more");
    let store = open();
    assert_eq!(content(&store.table("t").unwrap()).unwrap().len(), expected.len() - 1);
}

#[test]
fn a_crash_beside_a_damaged_table_loses_nothing_of_it() {
    let (image, expected) = damaged_store();
    let disk = SimDisk::from_image(image, 0);
    let key = disk.files().into_keys().find(|path| path.to_string_lossy().contains("-u1-")).unwrap();
    let whole = disk.files().remove(&key).unwrap();
    disk.put(&key, whole[..whole.len() / 2].to_vec());
    let images: Arc<Mutex<Vec<Image>>> = Arc::default();
    let seen = images.clone();
    disk.set_hook(Some(Arc::new(move |image| seen.lock().unwrap().push(image.clone()))));
    for round in 0..3 {
        let options = StoreOptions { retain_log_bytes: 0, ..small_options() };
        let environment = environment(&disk, &ManualClock::default());
        let store = DiskStore::open(Path::new(FOLDER), options, environment).unwrap();
        let other = store.table("other").or_else(|_| store.create_table(spec("other"))).unwrap();
        for number in 0..6 {
            other
                .write(Write::upsert(rows(&[(&format!("key {round} {number}"), round * 6 + number)])))
                .unwrap();
            store.seal().unwrap();
        }
    }
    disk.set_hook(None);
    let mut newest = 0;
    for (number, image) in images.lock().unwrap().iter().enumerate() {
        let left = SimDisk::from_image(image.after_crash(number as u64), 0);
        left.put(&key, whole.clone());
        let store = open(&left);
        assert_eq!(store.report().damage, [], "crash {number}");
        assert_eq!(content(&store.table("t").unwrap()).unwrap(), expected, "crash {number}");
        let others = store.table("other").map(|other| content(&other).unwrap()).unwrap_or_default();
        let values: std::collections::BTreeSet<i64> = others.into_values().collect();
        assert!(values.iter().copied().eq(0..values.len() as i64), "crash {number}: {values:?}");
        newest = newest.max(values.len());
    }
    assert_eq!(newest, 18);
}

#[test]
fn damage_in_a_log_is_that_of_the_tables_whose_rows_it_hits() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    let tables: Vec<LiveTable> =
        ["a", "b"].iter().map(|name| store.create_table(spec(name)).unwrap()).collect();
    for number in 0..10 {
        for table in &tables {
            table.write(Write::upsert(rows(&[(&format!("{} {number}", table.name()), number)]))).unwrap();
        }
    }
    store.checkpoint().unwrap();
    let expected = content(&tables[1]).unwrap();
    drop((tables, store));
    let (log, mut bytes) =
        disk.files().into_iter().rfind(|(path, _)| path.ends_with("0000000002.log")).unwrap();
    let place = bytes.windows(3).position(|text| text == b"a 5").unwrap();
    bytes[place] ^= 1;
    disk.put(&log, bytes);
    let store = open(&disk);
    assert_eq!(store.report(), &StoreReport::default(), "no value was read yet");
    let (a, b) = (store.table("a").unwrap(), store.table("b").unwrap());
    let Err(OplogError::Damaged(damage)) = content(&a) else { panic!("it was read") };
    let lost = damage.rows.unwrap();
    assert!(damage.file == log && (damage.offset..damage.offset + 60).contains(&(place as u64)));
    assert_eq!((lost.rows, lost.keys), (10, Some(("a 0".to_owned(), "a 9".to_owned()))));
    assert_eq!(content(&b).unwrap(), expected);
    b.write(Write::upsert(rows(&[("new", 1)]))).unwrap();
    store.seal().unwrap();
    drop((a, b, store));
    let store = open(&disk);
    assert_eq!(content(&store.table("b").unwrap()).unwrap().len(), 11, "sealed without what is damaged");
    content(&store.table("a").unwrap()).unwrap_err();
}

#[test]
fn damage_that_a_reader_finds_is_told_with_what_is_lost() {
    let (image, _) = damaged_store();
    let disk = SimDisk::from_image(image, 0);
    let (path, mut bytes) = disk.files().into_iter().find(|(path, _)| path.ends_with("t1-u1.seg")).unwrap();
    bytes[200] ^= 1;
    disk.put(&path, bytes);
    let store = open(&disk);
    let table = store.table("t").unwrap();
    let Err(OplogError::Damaged(damage)) = content(&table) else { panic!("it was read") };
    let keys = Some(("key 0".to_owned(), "key 99".to_owned()));
    let lost = LostRows { table: "t".to_owned(), rows: 249, lsns: (2, 2), keys };
    assert_eq!((&damage.file, damage.offset, damage.rows), (&path, 64, Some(Box::new(lost))));
    assert!(table.version().damage().is_empty());
    store.maintain().unwrap();
    assert_eq!(table.version().damage().len(), 1, "everybody is told from then on");
}

/// The damaged unit can never be sealed. Later rows of other tables are sealed, and need no logs.
#[test]
fn a_unit_that_is_damaged_in_its_log_keeps_no_other_logs() {
    let disk = SimDisk::new(1);
    let start = || {
        let options = StoreOptions { retain_log_bytes: 0, ..small_options() };
        DiskStore::open(Path::new(FOLDER), options, environment(&disk, &ManualClock::default())).unwrap()
    };
    let store = start();
    let (table, other) = (store.create_table(spec("t")).unwrap(), store.create_table(spec("other")).unwrap());
    table.write(Write::upsert(rows(&[("a", 1)]))).unwrap();
    store.checkpoint().unwrap();
    drop((table, other, store));
    let (log, mut bytes) =
        disk.files().into_iter().rfind(|(path, _)| path.ends_with("0000000002.log")).unwrap();
    // Filler follows the frames.
    *bytes.iter_mut().rfind(|byte| **byte != 0xA5).unwrap() ^= 1;
    disk.put(&log, bytes);
    let store = start();
    let other = store.table("other").unwrap();
    for number in 0..10 {
        other.write(Write::upsert(rows(&[(&format!("key {number}"), number)]))).unwrap();
        store.seal().unwrap();
    }
    let logs = disk.files().into_keys().filter(|path| path.extension().is_some_and(|end| end == "log"));
    let logs: Vec<_> = logs.collect();
    assert!(logs.contains(&log) && logs.len() <= 3, "{logs:?}");
    content(&store.table("t").unwrap()).unwrap_err();
    drop((other, store));
    assert_eq!(content(&start().table("other").unwrap()).unwrap().len(), 10);
}
