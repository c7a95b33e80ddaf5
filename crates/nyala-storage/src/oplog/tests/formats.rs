//! Stores written by older versions.
//!
//! The promise: such stores open, and go on as if this version had written them. Format 1 has no labels; all else is as in format 2.

use std::path::PathBuf;

use super::fixture::*;
use crate::oplog::vfs::sim::SimDisk;
use crate::oplog::*;

/// Turns the manifests and logs of this version into the first version's. They must have no labels.
fn make_oldest(disk: &SimDisk) {
    for (path, bytes) in disk.files() {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.starts_with("manifest-") {
            let (first, second) = bytes.split_at(bytes.len() / 2);
            disk.put(&path, [manifest_copy(first), manifest_copy(second)].concat());
        } else if name.ends_with(".log") {
            disk.put(&path, [log_header(&bytes[..64], 1), bytes[64..].to_vec()].concat());
        }
    }
}

/// Magic, format, length, body, checksum. The body ends with the number of tables that have labels.
fn manifest_copy(copy: &[u8]) -> Vec<u8> {
    let body = &copy[16..copy.len() - 4];
    let (labelled, body) = body.split_last().unwrap();
    assert_eq!((copy[8], *labelled), (2, 0), "format 2, no labels");
    let length = (body.len() as u32).to_le_bytes();
    with_checksum([&copy[..8], &1_u32.to_le_bytes(), &length, body].concat())
}

fn log_header(header: &[u8], format: u32) -> Vec<u8> {
    with_checksum([&header[..8], &format.to_le_bytes(), &header[12..60]].concat())
}

fn with_checksum(bytes: Vec<u8>) -> Vec<u8> {
    let crc = crc32c::crc32c(&bytes).to_le_bytes();
    [bytes, crc.to_vec()].concat()
}

/// The last step on a store before the next start.
const STEPS: [fn(&DiskStore) -> Result<()>; 3] = [DiskStore::seal, DiskStore::checkpoint, |_| Ok(())];

/// A store with sealed rows, rows of a checkpoint and a log, all in the oldest format.
fn oldest_store() -> SimDisk {
    let disk = SimDisk::new(1);
    let store = open(&disk);
    let table = store.create_table(spec("t")).unwrap();
    for (step, number) in STEPS.iter().zip(0..) {
        let both = [(format!("key {number}"), number), (format!("other {number}"), -number)];
        table
            .write(Write::upsert(rows(&both.each_ref().map(|(key, value)| (key.as_str(), *value)))))
            .unwrap();
        step(&store).unwrap();
    }
    table.write(Write::delete(keys(&["other 1"]))).unwrap();
    drop((table, store));
    make_oldest(&disk);
    disk
}

#[test]
fn a_store_of_the_first_format_opens_and_goes_on() {
    let disk = oldest_store();
    let mut expected = map(&[("key 0", 0), ("other 0", 0), ("key 1", 1), ("key 2", 2), ("other 2", -2)]);
    let store = open(&disk);
    assert_eq!(store.report(), &StoreReport::default());
    let table = store.table("t").unwrap();
    assert_eq!(content(&table).unwrap(), expected);
    let label = Label::new("load 1").unwrap();
    table.write(Write::upsert(rows(&[("key 1", 10), ("new", 3)])).labelled(label)).unwrap();
    expected.extend(map(&[("key 1", 10), ("new", 3)]));
    drop((table, store));
    for step in STEPS {
        let store = open(&disk);
        assert_eq!(store.report(), &StoreReport::default());
        let table = store.table("t").unwrap();
        assert_eq!(content(&table).unwrap(), expected);
        assert!(table.label("load 1").is_some());
        step(&store).unwrap();
    }
}

#[test]
fn a_log_of_a_format_to_come_is_refused() {
    let disk = oldest_store();
    let logs =
        || disk.files().into_iter().filter(|(path, _)| path.extension().is_some_and(|end| end == "log"));
    let (path, bytes): (PathBuf, Vec<u8>) = logs().next_back().unwrap();
    disk.put(&path, [log_header(&bytes[..64], 3), bytes[64..].to_vec()].concat());
    let store = open(&disk);
    let damage = &store.report().damage;
    assert!(damage.iter().any(|damage| damage.file == path), "{damage:?}");
    assert!(store.check_writable().is_err());
}
