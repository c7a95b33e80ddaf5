//! Symptom to avoid: a bit flips in some file of the data folder, and an answer is wrong, or the database empty.
//!
//! Promise: every answer is right, or an error that names the file. A cuboid's file fails one statement; the next reads the
//! tables. `NYALA_FLIPS=20000` makes the tests long, `NYALA_SEED` begins elsewhere.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{Date32Array, Int32Array, Int64Array, StringArray};
use nyala_catalog::Catalog;
use nyala_engine::{Answer, Engine, Extensions, QueryError, Session, SessionOptions};
use nyala_model::config::Config;
use nyala_storage::data_dir::DataDir;
use tempfile::TempDir;

use crate::batch;
use crate::harness::{TestEngine, copy_folder, flip, rows_of};
use crate::program::{PATIENCE, eventually};
use crate::random::Random;

const FLIPS: usize = 150;
/// Bytes at both ends of a file that are flipped more often: headers, footers, lengths.
const ENDS: usize = 64;
/// Part of a large file that gets most of the flips: most of its structures lie here.
const FRONT: usize = 32 << 10;

/// Queries to every folder with a flipped bit: cubes in files and in memory, tables, live tables by scan and by
/// key, and the listings.
const QUERIES: [&str; 12] = [
    "SELECT shop, sum(amount), count(*) FROM sales GROUP BY shop ORDER BY shop",
    "SELECT date_trunc('month', day) AS m, sum(amount) FROM sales GROUP BY 1 ORDER BY 1",
    "SELECT kind, sum(amount) FROM sales WHERE day >= DATE '2024-02-01' GROUP BY kind ORDER BY kind",
    "SELECT count(*), sum(amount) FROM sales",
    "SELECT owner, sum(balance), count(*) FROM accounts GROUP BY owner ORDER BY owner",
    "SELECT id, owner, balance FROM accounts ORDER BY id",
    "SELECT owner FROM accounts WHERE id = 17",
    "SELECT count(*), sum(n) FROM events",
    "SELECT table_name, table_type FROM information_schema.tables WHERE table_schema = 'public' ORDER BY 1",
    "SELECT disk_store FROM system.disk_stores ORDER BY disk_store",
    "SELECT table_name, column_name, data_type FROM information_schema.columns WHERE table_schema = 'public' \
     ORDER BY 1, 2",
    "SELECT grantee, privilege_type FROM information_schema.table_privileges ORDER BY 1, 2",
];

type Rows = Vec<Vec<String>>;

/// A data folder with objects of every kind, and the expected answers.
struct Subject {
    // Keeps the files of external tables.
    _folder: TempDir,
    data: PathBuf,
    answers: BTreeMap<&'static str, Rows>,
}

impl Subject {
    /// A data folder that was closed in order, or that is left as by a killed process.
    async fn new(closed: bool) -> Self {
        let test = filled().await;
        let data = tempfile::tempdir().unwrap().keep();
        let source = test.path("data");
        let folder = if closed {
            let TestEngine { folder, engine, session, .. } = test;
            engine.shutdown(Duration::ZERO).await;
            drop((engine, session));
            // Connections to the catalog close in the background; the last one removes the write-ahead log.
            let log = source.join("catalog.sqlite-wal");
            eventually("the catalog is closed", PATIENCE, || !log.exists());
            copy_folder(&source, &data);
            folder
        } else {
            // After this time logs are written, and nothing changes files.
            tokio::time::sleep(Duration::from_millis(300)).await;
            copy_folder(&source, &data);
            let TestEngine { folder, engine, .. } = test;
            engine.shutdown(Duration::ZERO).await;
            folder
        };
        let mut subject = Self { _folder: folder, data, answers: BTreeMap::new() };
        let copy = subject.copy();
        let opened = Opened::new(copy.path()).await.unwrap();
        for query in QUERIES {
            // Some queries may not be supported: then they fail the same way each time.
            let answer = opened.ask(query).await.unwrap_or_default();
            subject.answers.insert(query, answer);
        }
        let answered = subject.answers.values().filter(|rows| !rows.is_empty()).count();
        assert!(answered >= 11, "{:?}", subject.answers);
        opened.close().await;
        subject
    }

    fn copy(&self) -> TempDir {
        let copy = tempfile::tempdir().unwrap();
        copy_folder(&self.data, copy.path());
        copy
    }

    /// All files, with their sizes.
    fn files(&self) -> Vec<(PathBuf, usize)> {
        let (mut files, mut waiting) = (Vec::new(), vec![self.data.clone()]);
        while let Some(folder) = waiting.pop() {
            for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
                match entry.metadata().unwrap() {
                    found if found.is_dir() => waiting.push(entry.path()),
                    found => {
                        let relative = entry.path().strip_prefix(&self.data).unwrap().to_owned();
                        files.push((relative, usize::try_from(found.len()).unwrap()));
                    }
                }
            }
        }
        files.sort();
        files
    }

    /// Flips one bit, and asks all queries.
    async fn flip(&self, file: &Path, bit: usize) -> Fate {
        let copy = self.copy();
        let path = copy.path().join(file);
        flip(&path, bit);
        let context = format!("{} bit {bit}", file.display());
        let opened = match Opened::new(copy.path()).await {
            Ok(opened) => opened,
            Err(error) => {
                check_named(file, &error, &context);
                return Fate::Refused;
            }
        };
        let mut fate = Fate::Harmless;
        // In the second round cuboids are in memory, and damaged ones are out of use.
        for round in 0..2 {
            for (query, expected) in &self.answers {
                let context = format!("{context}, round {round}: {query}");
                match opened.ask(query).await {
                    Ok(rows) => assert_eq!(&rows, expected, "{context}"),
                    Err(_) if expected.is_empty() => {}
                    Err(error) => {
                        fate = Fate::Noticed;
                        check_named(file, &text_of(&error), &context);
                        if file.starts_with("cubes") {
                            let again = opened.ask(query).await;
                            let again = again.unwrap_or_else(|error| panic!("{context}: {error}, again"));
                            assert_eq!(&again, expected, "{context}, again");
                        }
                    }
                }
            }
            opened.settle().await;
        }
        opened.close().await;
        fate
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.data);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// The folder is not opened.
    Refused,
    /// A statement says so.
    Noticed,
    /// All answers are right.
    Harmless,
}

/// An engine over a folder, opened as `nyala serve` opens it.
struct Opened {
    engine: Arc<Engine>,
    session: Arc<Session>,
    _lock: DataDir,
}

impl Opened {
    async fn new(data: &Path) -> Result<Self, String> {
        let lock = DataDir::lock(data, "test").map_err(|error| error.to_string())?;
        lock.check_catalog().map_err(|error| error.to_string())?;
        let config = Config { data_dir: data.to_owned(), ..Config::default() };
        let catalog = Catalog::open_sqlite(&lock.catalog_file()).await.map_err(|error| error.to_string())?;
        let engine = Engine::open(&config, Arc::new(catalog), Extensions::default()).await;
        let engine = engine.map_err(|error| text_of(&error))?;
        let session = engine.session(SessionOptions::default());
        Ok(Self { engine, session, _lock: lock })
    }

    async fn ask(&self, query: &str) -> Result<Rows, QueryError> {
        match self.session.query(query).await? {
            Answer::Rows(rows) => Ok(rows_of(&rows.collect().await?)),
            Answer::Done(_) => Ok(Vec::new()),
        }
    }

    async fn settle(&self) {
        while self.engine.stats().hot_cuboids.loading > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    async fn close(self) {
        drop(self.session);
        self.engine.shutdown(Duration::ZERO).await;
    }
}

fn text_of(error: &QueryError) -> String {
    format!("{error} / {}", error.hint.clone().unwrap_or_default())
}

/// The error must name the file; files beside the catalog may go by the catalog's name.
fn check_named(file: &Path, error: &str, context: &str) {
    let name = file.file_name().unwrap().to_str().unwrap();
    let of_catalog = name.starts_with("catalog.sqlite") && error.contains("catalog.sqlite");
    assert!(error.contains(name) || of_catalog, "{context}: {error}");
}

async fn filled() -> TestEngine {
    let test = TestEngine::new().await;
    let n = 4000;
    let sales = batch!(
        "day" => Date32Array::from_iter_values((0..n).map(|n| 19_723 + n % 90)),
        "shop" => StringArray::from_iter((0..n).map(|n| (n % 7 != 0).then(|| format!("shop {}", n % 40)))),
        "kind" => Int32Array::from_iter_values((0..n).map(|n| n % 11)),
        "amount" => Int64Array::from_iter_values((0..n).map(|n| i64::from(n * 31 % 997))),
    );
    test.table("sales", &[sales]).await;
    for statement in [
        "CREATE CUBE months PARTITION BY RANGE (day) EVERY INTERVAL '1 month' AS \
         SELECT date_trunc('month', day) AS m, day, kind, sum(amount) FROM sales GROUP BY CUBE (m, day, kind)",
        "CREATE CUBE shops AS SELECT shop, kind, sum(amount), count(*) FROM sales GROUP BY CUBE (shop, kind)",
        "BUILD CUBE months",
        "BUILD CUBE shops",
        "CREATE DISK STORE small WITH (seal_bytes = 16384, checkpoint_bytes = 8192, checkpoint_interval_ms = 50)",
        "CREATE LIVE TABLE accounts (id BIGINT PRIMARY KEY, owner TEXT, balance BIGINT) WITH (disk_store = small)",
        "CREATE LIVE TABLE events (id BIGINT PRIMARY KEY, n BIGINT)",
        "CREATE USER reader PASSWORD 'secret secret'",
        "GRANT SELECT ON sales TO reader",
    ] {
        test.run(statement).await;
    }
    for from in (0..600).step_by(100) {
        let row = |id: i64| format!("({id}, 'owner {}', {})", id % 13, id * 7);
        let values: Vec<String> = (from..from + 100).map(row).collect();
        test.run(&format!("INSERT INTO accounts VALUES {}", values.join(", "))).await;
        test.run(&format!(
            "INSERT INTO events SELECT value, value * 3 FROM generate_series({from}, {from} + 99) AS s (value)"
        ))
        .await;
        tokio::time::sleep(Duration::from_millis(60)).await;
    }
    test.run("CREATE CUBE owners AS SELECT owner, sum(balance), count(*) FROM accounts GROUP BY owner").await;
    test.run("BUILD CUBE owners").await;
    test.run("DELETE FROM accounts WHERE id % 50 = 3").await;
    test.run("UPDATE accounts SET balance = balance + 1 WHERE id % 60 = 4").await;
    for query in &QUERIES[..4] {
        test.run(query).await;
    }
    test
}

/// Bits to flip: some at both ends of every file, then of any file and place, but preferably at the start of logs, not
/// in their unused space.
fn bits(files: &[(PathBuf, usize)], random: &mut Random) -> Vec<(PathBuf, usize)> {
    let flips = std::env::var("NYALA_FLIPS").ok().and_then(|flips| flips.parse().ok()).unwrap_or(FLIPS);
    let files: Vec<_> = files.iter().filter(|(_, bytes)| *bytes > 0).collect();
    let mut bits = Vec::new();
    for (file, bytes) in &files {
        let end = (*bytes).min(ENDS);
        bits.push((file.clone(), random.below(end * 8)));
        bits.push((file.clone(), (bytes - 1 - random.below(end)) * 8 + random.below(8)));
    }
    while bits.len() < flips {
        let (file, bytes) = random.pick(&files);
        let within = if random.chance(75) { (*bytes).min(FRONT) } else { *bytes };
        bits.push((file.clone(), random.below(within * 8)));
    }
    bits
}

async fn check(closed: bool) -> BTreeMap<String, usize> {
    let seed = std::env::var("NYALA_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let subject = Subject::new(closed).await;
    let files = subject.files();
    println!("NYALA_SEED={seed}, {files:#?}");
    let mut fates = BTreeMap::new();
    for (file, bit) in bits(&files, &mut Random(seed)) {
        let fate = subject.flip(&file, bit).await;
        let kind = file.components().next().unwrap().as_os_str().to_str().unwrap().to_owned();
        *fates.entry(format!("{kind} {fate:?}")).or_default() += 1;
    }
    println!("{fates:#?}");
    fates
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flipped_bit_in_a_closed_folder_makes_no_wrong_answer() {
    let fates = check(true).await;
    for noticed in ["catalog.sqlite Refused", "cubes Noticed", "stores Noticed"] {
        assert!(fates.contains_key(noticed), "{noticed}: {fates:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flipped_bit_in_the_folder_of_a_killed_process_makes_no_wrong_answer() {
    let fates = check(false).await;
    assert!(fates.contains_key("catalog.sqlite-wal Refused"), "{fates:?}");
}
