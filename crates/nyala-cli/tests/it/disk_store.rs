//! `nyala disk-store` on the folder of a store with a live table in it.

use std::path::{Path, PathBuf};

use crate::program::{Finished, nyala, run, try_run};
use crate::server::Server;

/// A data folder with a live table of 1,000 rows, all of them sealed.
fn data() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let sql = "CREATE LIVE TABLE t (id BIGINT PRIMARY KEY, v TEXT); \
               INSERT INTO t SELECT value, 'value ' || value FROM generate_series(1, 1000) AS s (value)";
    run(nyala(&["sql", "-c", sql]).arg("--data-dir").arg(&data));
    (folder, data)
}

fn disk_store(action: &str, folders: &[&Path]) -> Finished {
    try_run(nyala(&["disk-store", action]).args(folders))
}

fn check(finished: &Finished, code: i32, words: &str) {
    assert_eq!(finished.code, Some(code), "{finished:?}");
    assert!(format!("{}{}", finished.stdout, finished.stderr).contains(words), "{words}: {finished:?}");
}

fn count(data: &Path) -> String {
    run(nyala(&["sql", "--format", "csv", "-c", "SELECT count(*) FROM t"]).arg("--data-dir").arg(data))
}

#[test]
fn a_store_is_verified_saved_and_brought_back() {
    let (folder, data) = data();
    let store = data.join("stores/main");
    let (backup, nowhere) = (folder.path().join("backup"), folder.path().join("nowhere"));
    check(&disk_store("verify", &[&store]), 0, "1000 rows, 0 damaged places");
    check(&disk_store("backup", &[&store, &backup]), 0, "1000 rows, 0 damaged places");
    check(&disk_store("backup", &[&store, &backup]), 1, "backup");
    run(nyala(&["sql", "-c", "DELETE FROM t WHERE id > 10"]).arg("--data-dir").arg(&data));
    assert!(count(&data).contains("\n10"));
    std::fs::remove_dir_all(&store).unwrap();
    check(&disk_store("restore", &[&backup, &store]), 0, "1000 rows");
    assert!(count(&data).contains("\n1000"));
    check(&disk_store("verify", &[&nowhere]), 1, "nowhere");
    check(&disk_store("verify", &[folder.path()]), 1, "has no manifest");
    assert!(!nowhere.exists(), "looking at a store makes none");
    let server = Server::start(&data);
    check(&disk_store("verify", &[&store]), 1, "in use by process");
    drop(server);
}

#[test]
fn damage_is_named_and_the_rest_is_salvaged() {
    let (folder, data) = data();
    let store = data.join("stores/main");
    let more = "CREATE LIVE TABLE u (id BIGINT PRIMARY KEY); INSERT INTO u VALUES (1), (2)";
    run(nyala(&["sql", "-c", more]).arg("--data-dir").arg(&data));
    let files = std::fs::read_dir(&store).unwrap().map(|entry| entry.unwrap().path());
    let values = files
        .filter(|file| file.extension().is_some_and(|extension| extension == "seg"))
        .max_by_key(|file| file.metadata().unwrap().len())
        .unwrap();
    let mut bytes = std::fs::read(&values).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&values, bytes).unwrap();
    let name = values.file_name().unwrap().to_str().unwrap();
    let found = disk_store("verify", &[&store]);
    check(&found, 1, name);
    check(&found, 1, "is damaged at byte");
    let copy = folder.path().join("copy");
    let salvaged = disk_store("salvage", &[&store, &copy]);
    check(&salvaged, 0, "public.u: 2 rows");
    check(&salvaged, 0, name);
    check(&disk_store("verify", &[&copy]), 0, "0 damaged places");
    // Meanwhile damaged rows are refused, and intact rows served.
    let read = |sql: &str| try_run(nyala(&["sql", "-c", sql]).arg("--data-dir").arg(&data));
    check(&read("SELECT max(v) FROM t"), 1, "1000 rows of table `public.t`");
    check(&read("SELECT count(*) FROM u"), 0, "2");
}
