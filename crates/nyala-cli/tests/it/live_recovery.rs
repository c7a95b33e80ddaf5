//! A store with a long recovery: only statements on the store wait for it, and system tables show it.
//!
//! A file of the store becomes a pipe without a writer. Opening it blocks until the test is over, so that the test does
//! not depend on the speed of the machine.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use crate::program::{PATIENCE, eventually, run};
use crate::server::Server;

/// A file with keys of the store, put aside, with a pipe in its place.
struct Held {
    file: PathBuf,
    aside: PathBuf,
}

impl Held {
    fn hold(store: &Path) -> Self {
        let files = std::fs::read_dir(store).unwrap().map(|entry| entry.unwrap().path());
        let mut keys = files.filter(|file| file.extension().is_some_and(|extension| extension == "key"));
        let file = keys.next().unwrap();
        let aside = file.with_extension("aside");
        std::fs::rename(&file, &aside).unwrap();
        run(Command::new("mkfifo").arg(&file));
        Self { file, aside }
    }

    fn release(self) {
        std::fs::rename(self.aside, self.file).unwrap();
    }
}

#[test]
fn nothing_waits_for_the_recovery_of_another_store() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(folder.path());
    server.query("CREATE DISK STORE big");
    server.query("CREATE LIVE TABLE held (id BIGINT PRIMARY KEY, v TEXT) WITH (disk_store = big)");
    server
        .query("INSERT INTO held SELECT value, 'value ' || value FROM generate_series(1, 1000) AS s (value)");
    server.query("CREATE LIVE TABLE other (id BIGINT PRIMARY KEY, v TEXT)");
    server.query("INSERT INTO other VALUES (1, 'before')");
    server.process.signal("TERM");
    assert_eq!(server.finish(PATIENCE).code, Some(0));
    let held = Held::hold(&folder.path().join("stores/big"));

    let server = Server::start_with(folder.path(), &[("NYALA_QUERY__STUCK_AFTER_MS", "200")]);
    assert_eq!(server.query("SELECT * FROM other"), [["1", "before"]]);
    server.query("INSERT INTO other VALUES (2, 'meanwhile')");
    server.query("CREATE LIVE TABLE new (id BIGINT PRIMARY KEY, v TEXT)");
    server.query("INSERT INTO new SELECT * FROM other");
    server.query("ALTER TABLE new ADD COLUMN more INT");
    assert_eq!(server.query("SELECT count(*), count(more) FROM new"), [["2", "0"]]);
    server.query("CREATE DISK STORE fresh");
    server.query("CREATE LIVE TABLE newer (id BIGINT PRIMARY KEY) WITH (disk_store = fresh)");
    server.query("DROP TABLE newer");
    server.query("DROP DISK STORE fresh");
    server.query("DROP TABLE new");
    let listed = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' ORDER BY 1";
    assert_eq!(server.query(listed), [["held"], ["other"]]);
    assert_eq!(
        server.query("SELECT \"table\", rows FROM system.live_tables ORDER BY 1"),
        [["held", "NULL"], ["other", "2"]]
    );
    let request = json!({"sql": "SELECT count(*) FROM held", "settings": {"statement_timeout": "300ms"}});
    // A query on the store waits until its timeout, and no longer.
    let refused = server.post(&request.to_string());
    assert_eq!(refused.status, 504, "{}", refused.body);

    let phase = "SELECT phase, percent FROM system.recovery WHERE disk_store = 'big'";
    assert_eq!(server.query(phase), [["keys", "0"]]);
    let tasks = "SELECT what, operator, waits_for FROM system.tasks WHERE kind = 'recovery'";
    assert_eq!(server.query(tasks), [["disk store big", "keys", "0 of 1000 rows"]]);
    eventually("seen by the watchdog", PATIENCE, || {
        let stuck = server.query("SELECT what FROM system.stuck WHERE kind = 'recovery'");
        stuck == [["disk store big"]] && server.process.stderr().contains("no progress")
    });
    drop(server);

    held.release();
    let server = Server::start(folder.path());
    assert_eq!(server.query("SELECT count(*) FROM held"), [["1000"]]);
    eventually("ready", PATIENCE, || {
        server.query("SELECT kind FROM system.tasks WHERE kind = 'recovery'").is_empty()
    });
    assert_eq!(server.query("SELECT count(*) FROM other"), [["2"]]);
}

#[test]
fn a_table_is_dropped_while_its_store_is_recovered() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(folder.path());
    server.query("CREATE DISK STORE big");
    for table in ["held", "gone"] {
        server.query(&format!("CREATE LIVE TABLE {table} (id BIGINT PRIMARY KEY) WITH (disk_store = big)"));
        server.query(&format!("INSERT INTO {table} SELECT value FROM generate_series(1, 1000) AS s (value)"));
    }
    server.query("CREATE LIVE TABLE other (id BIGINT PRIMARY KEY)");
    server.process.signal("TERM");
    assert_eq!(server.finish(PATIENCE).code, Some(0));
    let held = Held::hold(&folder.path().join("stores/big"));

    let server = Server::start(folder.path());
    let soon = json!({"statement_timeout": "20s"});
    for sql in ["DROP TABLE gone", "DROP TABLE IF EXISTS nothing", "DROP TABLE other"] {
        server.query_with(sql, &soon);
    }
    // A statement that waits for the store does not delay others.
    let (alter, create) =
        ("ALTER TABLE held ADD COLUMN more INT", "CREATE LIVE TABLE new (id INT PRIMARY KEY)");
    let (patient, impatient) = (json!({"statement_timeout": "6s"}), json!({"statement_timeout": "4s"}));
    let request = json!({"sql": alter, "settings": patient}).to_string();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| server.post(&request).status);
        std::thread::sleep(std::time::Duration::from_millis(500));
        server.query_with(create, &impatient);
        assert_eq!(waiting.join().unwrap(), 504);
    });
    drop(server);

    held.release();
    let server = Server::start(folder.path());
    assert_eq!(server.query("SELECT count(*) FROM held"), [["1000"]]);
    assert_ne!(server.try_query("SELECT count(*) FROM gone").status, 200);
    server.query("DROP TABLE held");
    server.query("DROP DISK STORE big");
}
