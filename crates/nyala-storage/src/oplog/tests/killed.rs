//! Processes that are killed while they write to a real disk.
//!
//! The promise: statements that a killed process reported as committed are there when another one opens the store.

use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::fixture::*;
use crate::oplog::*;

const FOLDER_VARIABLE: &str = "NYALA_KILLED_FOLDER";

fn open_real(folder: &Path) -> DiskStore {
    let options = StoreOptions { seal_bytes: 64 << 10, checkpoint_bytes: 8 << 10, ..StoreOptions::default() };
    DiskStore::open(folder, options, Environment::default()).unwrap()
}

fn open_table(store: &DiskStore) -> LiveTable {
    store.table("t").or_else(|_| store.create_table(spec("t"))).unwrap()
}

#[test]
fn what_a_killed_process_confirmed_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let mut confirmed = 0;
    for round in 0..6 {
        let own_test = "oplog::tests::killed::writes_until_it_is_killed";
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", own_test, "--ignored", "--nocapture"])
            .env(FOLDER_VARIABLE, folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let reader = std::thread::spawn(move || {
            let numbers = output
                .lines()
                .map_while(Result::ok)
                .filter_map(|line| line.strip_prefix("done ")?.parse().ok());
            numbers.max().unwrap_or(0)
        });
        std::thread::sleep(Duration::from_millis(60 + round * 37));
        child.kill().unwrap();
        child.wait().unwrap();
        confirmed = confirmed.max(reader.join().unwrap());
        let store = open_real(folder.path());
        assert!(store.report().damage.is_empty(), "{:?}", store.report());
        let found = content(&open_table(&store)).unwrap();
        for number in 1..=confirmed {
            assert_eq!(
                found.get(&format!("key {number}")),
                Some(&number),
                "of {confirmed}, in round {round}"
            );
        }
        for (key, number) in &found {
            let other =
                if key.starts_with("key") { format!("pair {number}") } else { format!("key {number}") };
            assert!(found.contains_key(&other), "half of a statement, in round {round}");
        }
    }
    assert!(confirmed > 0, "no process wrote anything");
    let report = verify(folder.path(), &Environment::default()).unwrap();
    assert_eq!(report.damage().count(), 0);
}

/// The body of the process that the other test kills.
#[test]
#[ignore = "it never ends; another test starts and kills it"]
fn writes_until_it_is_killed() {
    let Some(folder) = std::env::var_os(FOLDER_VARIABLE) else { return };
    let store = open_real(Path::new(&folder));
    let table = open_table(&store);
    for number in table.version().rows() as i64 / 2 + 1.. {
        let (key, pair) = (format!("key {number}"), format!("pair {number}"));
        table.write(Write::upsert(rows(&[(&key, number), (&pair, number)]))).unwrap();
        let mut output = std::io::stdout().lock();
        writeln!(output, "\ndone {number}").unwrap();
        output.flush().unwrap();
    }
}
