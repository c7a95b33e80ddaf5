//! Loads with labels are done once.
//!
//! The crash simulation has labels in its model: after a crash a label is known if and only if its rows are there.

use std::path::Path;

use super::fixture::*;
use crate::oplog::vfs::sim::SimDisk;
use crate::oplog::*;

fn load(label: &str, values: &[(&str, i64)]) -> Write {
    Write::upsert(rows(values)).labelled(Label::new(label).unwrap())
}

fn names(table: &LiveTable) -> Vec<String> {
    table.labels().iter().map(|(name, _)| name.to_string()).collect()
}

#[test]
fn a_label_is_done_once_and_says_what_it_did() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    let table = store.create_table(spec("t")).unwrap();
    let first = load("monday", &[("a", 1), ("a", 2), ("b", 3)]);
    let first = first.clone().labelled(first.label.unwrap().rejecting(7));
    let done = table.write(first).unwrap();
    assert_eq!(done.before, None);
    let known = Labelled { lsn: done.lsn, rows: 3, rejected: 7 };
    table.write(Write::upsert(rows(&[("a", 9)]))).unwrap();
    for step in ["at once", "sealed", "compacted", "truncated"] {
        let again = table.write(load("monday", &[("a", 1), ("c", 1)])).unwrap();
        assert_eq!((again.before, again.lsn, again.inserted), (Some(known), done.lsn, 0), "{step}");
        assert_eq!(table.label("monday"), Some(known), "{step}");
        assert_eq!(table.version().rows(), if step == "truncated" { 0 } else { 2 }, "{step}");
        match step {
            "at once" => store.seal().unwrap(),
            "sealed" => {
                table.write(Write::delete(keys(&["c"]))).unwrap();
                store.maintain().unwrap();
            }
            "compacted" => drop(table.truncate().unwrap()),
            _ => {}
        }
    }
    let other = store.create_table(spec("u")).unwrap();
    assert_eq!(other.write(load("monday", &[("a", 1)])).unwrap().before, None, "labels are of one table");
    other.drop_table().unwrap();
    let other = store.create_table(spec("u")).unwrap();
    assert_eq!(other.label("monday"), None, "they go with their table");
    store.close().unwrap();
    let store = open(&disk);
    assert_eq!(store.table("t").unwrap().label("monday"), Some(known));
}

#[test]
fn the_newest_labels_are_known_after_a_crash() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    let table = store.create_table(spec("t")).unwrap();
    for number in 0..7_i64 {
        if number == 3 {
            store.checkpoint().unwrap();
        }
        table.write(load(&format!("load {number}"), &[("a", number)])).unwrap();
    }
    let expected: Vec<String> = (3..7).map(|number| format!("load {number}")).collect();
    assert_eq!(names(&table), expected);
    let left = disk.image().after_crash(1);
    drop((table, store));
    disk.set_image(left);
    let again = open(&disk);
    let table = again.table("t").unwrap();
    assert_eq!(names(&table), expected);
    let forgotten = table.write(load("load 0", &[("a", 0)])).unwrap();
    assert_eq!(forgotten.before, None, "beyond the window a load is a new one");
}

#[test]
fn a_label_that_was_forgotten_and_came_again_is_the_newest_after_a_crash() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    let table = store.create_table(spec("t")).unwrap();
    for number in [0, 1, 2, 3, 4, 0] {
        if number == 4 {
            store.checkpoint().unwrap();
        }
        let done = table.write(load(&format!("load {number}"), &[("a", number)])).unwrap();
        assert_eq!(done.before, None);
    }
    let expected = ["load 2", "load 3", "load 4", "load 0"];
    assert_eq!(names(&table), expected);
    let known = table.label("load 0");
    drop((table, store));
    let table = open(&disk).table("t").unwrap();
    assert_eq!(names(&table), expected);
    assert_eq!(table.label("load 0"), known);
}

#[test]
fn a_load_without_rows_has_its_label() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    let table = store.create_table(spec("t")).unwrap();
    let empty = table.write(load("empty", &[])).unwrap();
    table.write(Write::upsert(rows(&[("a", 1)]))).unwrap();
    drop((table, store));
    let store = open(&disk);
    let table = store.table("t").unwrap();
    assert_eq!(table.label("empty"), Some(Labelled { lsn: empty.lsn, rows: 0, rejected: 0 }));
    store.checkpoint().unwrap();
    drop((table, store));
    assert_eq!(content(&open(&disk).table("t").unwrap()).unwrap(), map(&[("a", 1)]));
    let verified = verify(Path::new(FOLDER), &environment(&disk, &ManualClock::default()));
    assert_eq!(verified.unwrap().damage().count(), 0);
}

#[test]
fn of_loads_that_come_at_once_one_is_done() {
    let disk = SimDisk::new(1);
    let options = StoreOptions { background: true, ..small_options() };
    let environment = environment(&disk, &ManualClock::default());
    let store = DiskStore::open(Path::new(FOLDER), options, environment).unwrap();
    let table = store.create_table(spec("t")).unwrap();
    for round in 0..20 {
        let label = format!("load {round}");
        let tickets: Vec<Ticket> =
            (0..8).map(|value| table.submit(load(&label, &[("a", value)])).unwrap()).collect();
        let done: Vec<Committed> = tickets.iter().map(|ticket| ticket.wait().unwrap()).collect();
        let first: Vec<&Committed> = done.iter().filter(|done| done.before.is_none()).collect();
        assert_eq!(first.len(), 1, "{done:?}");
        assert!(done.iter().all(|done| done.lsn == first[0].lsn), "{done:?}");
    }
}

#[test]
fn backups_and_feeds_know_of_labelled_rows() {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    let table = store.create_table(spec("t")).unwrap();
    table.write(load("monday", &[("a", 1)])).unwrap();
    assert!(matches!(&table.changes(0).next(1 << 20).unwrap()[..], [Change::Upserted { .. }]));
    store.backup(Path::new("/copy")).unwrap();
    let environment = environment(&disk, &ManualClock::default());
    let copy = DiskStore::open(Path::new("/copy"), small_options(), environment).unwrap();
    assert_eq!(copy.table("t").unwrap().label("monday"), table.label("monday"));
}

#[test]
fn labels_are_short_and_printable() {
    for bad in ["", "a\nb", &"x".repeat(129)] {
        assert!(matches!(Label::new(bad), Err(OplogError::Invalid { .. })), "{bad:?}");
    }
    Label::new(&"x".repeat(128)).unwrap();
}
