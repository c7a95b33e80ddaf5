//! Backups of a whole data folder while it is in use, and data folders made of them.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use nyala_engine::ErrorKind;

use crate::harness::{TestEngine, flip};
use crate::program::{PATIENCE, nyala, run, try_run};
use crate::server::Server;

const SUM: &str = "SELECT shop, sum(amount), count(*) FROM sales GROUP BY shop ORDER BY shop";

/// A live table with a cube that is built all the time, and another table in a store outside of the data folder.
async fn sales() -> TestEngine {
    let test = TestEngine::with_config(|config| config.cubes.check_files_ms = 100).await;
    let elsewhere = test.path("elsewhere");
    for statement in [
        "CREATE DISK STORE small WITH (seal_bytes = 32768, checkpoint_bytes = 8192, checkpoint_interval_ms = 100)",
        "CREATE LIVE TABLE sales (id BIGINT PRIMARY KEY, shop BIGINT, amount BIGINT) WITH (disk_store = small)",
        format!("CREATE DISK STORE fast DIR '{}'", elsewhere.display()).as_str(),
        "CREATE LIVE TABLE notes (id BIGINT PRIMARY KEY, note TEXT) WITH (disk_store = fast)",
        "INSERT INTO notes VALUES (1, 'kept elsewhere')",
        "CREATE CUBE c WITH (fold_rows = 200, fold_after = '1 second', auto_refresh = on) AS \
         SELECT shop, sum(amount), count(*) FROM sales GROUP BY CUBE (shop)",
    ] {
        test.run(statement).await;
    }
    test
}

fn insert(from: i64, rows: i64) -> String {
    let row = |id: i64| format!("({id}, {}, {})", id % 7, id * 3);
    let values: Vec<String> = (from..from + rows).map(row).collect();
    format!("INSERT INTO sales VALUES {}", values.join(", "))
}

fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let (mut found, mut waiting) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = waiting.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            match entry.path() {
                path if path.is_dir() => waiting.push(path),
                path if path.to_str().unwrap().ends_with(ending) => found.push(path),
                _ => {}
            }
        }
    }
    found.sort();
    found
}

fn restore(backup: &Path, target: &Path) -> String {
    run(nyala(&["restore"]).arg(backup).arg(target))
}

/// During a backup rows are written and added to segments: it has all rows acknowledged before, and no gaps.
#[tokio::test(flavor = "multi_thread")]
async fn a_backup_is_of_one_moment() {
    let test = sales().await;
    let (written, stop) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicBool::new(false)));
    let writer = {
        let (session, written, stop) =
            (test.engine.session(Default::default()), Arc::clone(&written), Arc::clone(&stop));
        tokio::spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                let from = written.load(Ordering::Relaxed);
                session.query(&insert(from, 20)).await.map(|_| ()).unwrap();
                written.store(from + 20, Ordering::Relaxed);
            }
        })
    };
    for round in 0..3 {
        while written.load(Ordering::Relaxed) < (round + 1) * 600 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        let acknowledged = written.load(Ordering::Relaxed);
        let (backup, target) =
            (test.path(&format!("backup {round}")), test.path(&format!("restored {round}")));
        test.run(&format!("BACKUP TO '{}'", backup.display())).await;
        restore(&backup, &target.join("data"));
        let restored = TestEngine::over(&target).await;
        let rows = restored.run("SELECT count(*), min(id), max(id) FROM sales").await.remove(0);
        let count: i64 = rows[0].parse().unwrap();
        assert!(count >= acknowledged, "{count} rows of {acknowledged} that were acknowledged before");
        assert_eq!((count % 20, rows[1].as_str(), rows[2].clone()), (0, "0", (count - 1).to_string()));
        restored.check_same(SUM).await;
        assert_eq!(restored.run("SELECT note FROM notes").await, [["kept elsewhere"]]);
        let checked = restored.run("CHECK CUBE c").await;
        assert!(checked.iter().all(|row| row[3] != "damaged" && row[3] != "differs"), "{checked:?}");
        restored.run(&insert(count, 1)).await;
        restored.engine.shutdown(std::time::Duration::ZERO).await;
    }
    stop.store(true, Ordering::Relaxed);
    tokio::time::timeout(PATIENCE, writer).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_shares_with_an_earlier_one_what_is_the_same() {
    let test = sales().await;
    test.run(&insert(0, 500)).await;
    test.run("BUILD CUBE c").await;
    let (first, second) = (test.path("first"), test.path("second"));
    test.run(&format!("BACKUP TO '{}'", first.display())).await;
    test.run(&insert(500, 500)).await;
    let expected = test.run(SUM).await;
    test.run(&format!("BACKUP TO '{}' BASE '{}'", second.display(), first.display())).await;
    let inode = |path: &Path| std::fs::metadata(path).unwrap().ino();
    let shared = files(&first, ".parquet").into_iter().filter(|file| {
        let other = second.join(file.strip_prefix(&first).unwrap());
        other.exists() && inode(&other) == inode(file)
    });
    assert!(shared.count() > 0);
    // The later backup does not need the earlier one.
    std::fs::remove_dir_all(&first).unwrap();
    restore(&second, &test.path("restored/data"));
    let restored = TestEngine::over(&test.path("restored")).await;
    assert_eq!(restored.run(SUM).await, expected);
    restored.engine.shutdown(std::time::Duration::ZERO).await;
    let full = format!("BACKUP TO '{}'", second.display());
    test.error(&full, ErrorKind::InvalidParameter, "is not empty").await;
    test.error("BACKUP TO 'here'", ErrorKind::InvalidParameter, "is not an absolute path").await;
    let nothing = format!("BACKUP TO '{}' BASE '/nowhere'", test.path("third").display());
    test.error(&nothing, ErrorKind::InvalidParameter, "is no whole backup").await;
}

#[test]
fn a_server_is_saved_and_a_damaged_backup_is_refused() {
    let (folder, place) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (backup, target) = (place.path().join("backup"), place.path().join("target"));
    let server = Server::start(folder.path());
    server.query("CREATE LIVE TABLE t (id BIGINT PRIMARY KEY, n BIGINT)");
    server.query("INSERT INTO t SELECT value, value FROM generate_series(1, 1000) AS s (value)");
    server.query("CREATE CUBE c AS SELECT n % 10 AS d, count(*), sum(n) FROM t GROUP BY d");
    server.query("BUILD CUBE c");
    let in_use = try_run(nyala(&["backup", "--data-dir"]).arg(folder.path()).arg(&backup));
    assert!(in_use.stderr.contains("in use by") && in_use.stderr.contains("--url"), "{}", in_use.stderr);
    let told = run(nyala(&["backup", "--url", &server.url()]).arg(&backup));
    assert!(told.contains("files are saved in"), "{told}");
    server.query("DROP CUBE c");
    server.query("DELETE FROM t");
    drop(server);
    let verified = run(nyala(&["restore", "--verify"]).arg(&backup).arg(&target));
    assert!(verified.contains("all as they were saved") && !target.exists(), "{verified}");
    for ending in [".parquet", "catalog.sqlite", "backup.manifest", ".log"] {
        let file = files(&backup, ending).remove(0);
        let whole = std::fs::read(&file).unwrap();
        flip(&file, whole.len() * 4);
        let refused = try_run(nyala(&["restore"]).arg(&backup).arg(&target));
        assert_eq!(refused.code, Some(1), "{ending}");
        assert!(refused.stderr.contains(file.file_name().unwrap().to_str().unwrap()), "{}", refused.stderr);
        assert!(!target.exists(), "{ending}: nothing is made of it");
        std::fs::write(&file, whole).unwrap();
    }
    restore(&backup, &target);
    let server = Server::start(&target);
    assert_eq!(server.query("SELECT count(*), sum(n) FROM t"), [["1000", "500500"]]);
    assert!(server.explain("SELECT n % 10, count(*) FROM t GROUP BY 1").contains("answered from cube"));
    drop(server);
    let again = try_run(nyala(&["restore"]).arg(&backup).arg(&target));
    assert!(again.stderr.contains("is not empty"), "{}", again.stderr);
}
