//! Symptom to avoid: after a crash the catalog misses an acknowledged change, or holds half of one.
//!
//! Promise: at any moment of a crash, the reopened catalog is exactly the state after its first n
//! changes, and n counts at least every acknowledged one. The tests can compute that state, because
//! each change follows from the version alone and the rules are pure.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nyala_model::{CatalogSnapshot, SegmentRange, SegmentState};

use crate::conformance::fixtures::{create_cube, create_table, cuboid, drop_table, name, publish};
use crate::sqlite::mark::Mark;
use crate::{Catalog, Change, SqliteStore, rules};

const CHILD: &str = "sqlite::tests::crash::writes_until_killed";
const FILE: &str = "NYALA_TEST_CATALOG_FILE";
const ACKNOWLEDGED: &str = "NYALA_TEST_ACKNOWLEDGED_FILE";

#[tokio::test]
async fn nothing_acknowledged_is_lost_by_kill_9() {
    let folder = tempfile::tempdir().unwrap();
    let (file, acknowledged) = (folder.path().join("catalog.db"), folder.path().join("acknowledged"));
    let mut previous = 0;
    for round in 0..6 {
        let mut child = start_child(&file, &acknowledged);
        wait_for_progress(&acknowledged, previous);
        // Kills at another moment of a commit each time.
        std::thread::sleep(Duration::from_micros(round * 7_919));
        child.kill();
        let promised = last_acknowledged(&acknowledged);
        let found = Catalog::open_sqlite(&file).await.unwrap().snapshot();
        assert!(
            found.version.0 == promised || found.version.0 == promised + 1,
            "{} {promised}",
            found.version
        );
        assert_eq!(*found, state_at(found.version.0));
        previous = promised;
    }
}

/// The other process of [`nothing_acknowledged_is_lost_by_kill_9`]; does nothing when run by itself.
#[tokio::test]
#[ignore = "is started, and killed, by another test"]
async fn writes_until_killed() {
    let (Some(file), Some(acknowledged)) = (std::env::var_os(FILE), std::env::var_os(ACKNOWLEDGED)) else {
        return;
    };
    let catalog = Catalog::open_sqlite(Path::new(&file)).await.unwrap();
    let mut acknowledged = fs::File::options().create(true).append(true).open(acknowledged).unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while Instant::now() < deadline {
        let committed = catalog.commit(change_after(&catalog.snapshot())).await.unwrap();
        acknowledged.write_all(&committed.snapshot.version.0.to_le_bytes()).unwrap();
    }
}

/// A power cut may leave any prefix of the bytes appended to the log.
#[tokio::test]
async fn a_torn_log_gives_the_state_after_some_change() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalog.db");
    let catalog = Catalog::open_sqlite(&path).await.unwrap();
    for _ in 0..30 {
        catalog.commit(change_after(&catalog.snapshot())).await.unwrap();
    }
    // The log is smaller than the size at which SQLite restarts it: the file is still as at the start.
    let (file, log) = (fs::read(&path).unwrap(), fs::read(folder.path().join("catalog.db-wal")).unwrap());
    let mut versions = Vec::new();
    for cut in (0..log.len()).step_by(log.len() / 60).chain([log.len()]) {
        versions.push(version_with_torn_log(&file, &log[..cut]).await);
    }
    assert!(versions.is_sorted(), "{versions:?}");
    assert_eq!((versions[0], versions.last()), (1, Some(&catalog.snapshot().version.0)));
    versions.dedup();
    assert!(versions.len() > 20, "{versions:?}");
}

/// No test can cut the power: the test asks SQLite for the settings that make it wait for the disk.
#[tokio::test]
async fn the_writer_waits_for_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&folder.path().join("catalog.db")).await.unwrap();
    let mode: (String,) = sqlx::query_as("PRAGMA journal_mode").fetch_one(&store.writer).await.unwrap();
    let full: (i64,) = sqlx::query_as("PRAGMA synchronous").fetch_one(&store.writer).await.unwrap();
    let keys: (i64,) = sqlx::query_as("PRAGMA foreign_keys").fetch_one(&store.writer).await.unwrap();
    assert_eq!((mode.0.as_str(), full.0, keys.0), ("wal", 2, 1));
}

async fn version_with_torn_log(file: &[u8], log: &[u8]) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalog.db");
    fs::write(&path, file).unwrap();
    fs::write(folder.path().join("catalog.db-wal"), log).unwrap();
    // The mark does not count unacknowledged changes.
    drop(Mark::open(&path, 0).unwrap());
    let found = Catalog::open_sqlite(&path).await.unwrap().snapshot();
    assert_eq!(*found, state_at(found.version.0), "log cut at byte {}", log.len());
    found.version.0
}

/// The next change follows from the snapshot alone, so that a test can compute every state.
fn change_after(snapshot: &CatalogSnapshot) -> Change {
    let version = snapshot.version.0;
    let Some(cube) = snapshot.cubes.get(&name("revenue")) else {
        let first = !snapshot.tables.contains_key(&name("sales"));
        return if first { create_table("sales") } else { create_cube("revenue", &["sales"]) };
    };
    let building = cube.segments.iter().rev().find(|segment| segment.state == SegmentState::Building);
    match (building, version % 7) {
        (None, 0 | 1) => Change::BeginSegment {
            cube: cube.id,
            revision: cube.definition.revision,
            location: format!("file:///{version}/"),
            range: SegmentRange::Whole,
            sources: vec![],
            node: nyala_model::NodeId::default(),
        },
        (Some(segment), 2..=4) => {
            Change::AddCuboid { segment: segment.id, cuboid: cuboid(version % 5, version) }
        }
        (Some(segment), 5) => publish(segment.id),
        _ => match snapshot.tables.keys().find(|table| table.name != "sales") {
            Some(table) if version.is_multiple_of(2) => drop_table(&table.name),
            _ => create_table(&format!("t{version}")),
        },
    }
}

fn state_at(version: u64) -> CatalogSnapshot {
    let mut snapshot = CatalogSnapshot::default();
    snapshot.schemas.insert("public".to_owned());
    snapshot.version.0 = 1;
    while snapshot.version.0 < version {
        snapshot = rules::decide(&snapshot, &change_after(&snapshot)).unwrap().next;
    }
    snapshot
}

/// A process that does not outlive its test, however the test ends.
struct Writer(Child);

impl Writer {
    /// Sends SIGKILL and waits until the process is gone.
    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.kill();
    }
}

fn start_child(file: &Path, acknowledged: &Path) -> Writer {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", CHILD, "--ignored"])
        .env(FILE, file)
        .env(ACKNOWLEDGED, acknowledged)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    Writer(child)
}

fn wait_for_progress(acknowledged: &Path, previous: u64) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while last_acknowledged(acknowledged) < previous + 20 {
        assert!(Instant::now() < deadline, "the other process makes no progress");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The last whole number in the file, or 0.
fn last_acknowledged(path: &Path) -> u64 {
    let bytes = fs::read(path).unwrap_or_default();
    bytes.as_chunks::<8>().0.last().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}
