//! An engine over a folder of its own, and ways to ask it things.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use base64::Engine as _;
use nyala_catalog::Catalog;
use nyala_engine::{
    Answer, Engine, ErrorKind, Extensions, Prepared, QueryError, Session, SessionOptions, Statement, Text,
};
use nyala_model::CuboidFile;
use nyala_model::config::Config;
use nyala_storage::StorageError;
use nyala_storage::data_dir::DataDir;
use parquet::arrow::ArrowWriter;
use parquet::file::metadata::KeyValue;
use tempfile::TempDir;

/// An opened engine with its folder.
pub struct TestEngine {
    pub folder: TempDir,
    pub engine: Arc<Engine>,
    pub session: Arc<Session>,
    _lock: DataDir,
}

/// Waits a little for a folder that was closed just now: programs that other tests start hold copies of the lock from
/// when this process is forked until they are loaded.
async fn lock(folder: &Path) -> DataDir {
    for _ in 0..100 {
        match DataDir::lock(folder, "test") {
            Ok(lock) => return lock,
            Err(StorageError::InUse { .. }) => tokio::time::sleep(std::time::Duration::from_millis(20)).await,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("{} stays in use", folder.display())
}

impl TestEngine {
    pub async fn new() -> Self {
        Self::open(tempfile::tempdir().unwrap(), |_| {}).await
    }

    /// An engine over the data folder `data` in `place`, which stays when this is dropped.
    pub async fn over(place: &Path) -> Self {
        let mut folder = tempfile::Builder::new().tempdir_in(place).unwrap();
        folder.disable_cleanup(true);
        let data = place.join("data");
        Self::open(folder, |config| config.data_dir = data).await
    }

    pub async fn with_config(change: impl FnOnce(&mut Config)) -> Self {
        Self::open(tempfile::tempdir().unwrap(), change).await
    }

    /// An engine with parts of other crates.
    pub async fn with_extensions(extensions: Extensions) -> Self {
        Self::open_with(tempfile::tempdir().unwrap(), |_| {}, extensions).await
    }

    async fn open(folder: TempDir, change: impl FnOnce(&mut Config)) -> Self {
        Self::open_with(folder, change, Extensions::default()).await
    }

    async fn open_with(folder: TempDir, change: impl FnOnce(&mut Config), extensions: Extensions) -> Self {
        let mut config = Config { data_dir: folder.path().join("data"), ..Config::default() };
        change(&mut config);
        let lock = lock(&config.data_dir).await;
        let catalog = Arc::new(Catalog::open_sqlite(&lock.catalog_file()).await.unwrap());
        let engine = Engine::open(&config, catalog, extensions).await.unwrap();
        let session = engine.session(SessionOptions::default());
        Self { folder, engine, session, _lock: lock }
    }

    /// Closes the engine and opens another one on the same folder.
    pub async fn reopen(self) -> Self {
        self.reopen_after(|_| {}).await
    }

    /// Opens the engine again after a change to its closed data folder.
    pub async fn reopen_after(self, between: impl FnOnce(&Path)) -> Self {
        let Self { folder, engine, session, _lock } = self;
        engine.shutdown(std::time::Duration::ZERO).await;
        drop((engine, session, _lock));
        between(&folder.path().join("data"));
        Self::open(folder, |_| {}).await
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes batches as `name/part-0.parquet` and registers them as table `name`.
    pub async fn table(&self, name: &str, batches: &[RecordBatch]) {
        write_parquet(&self.path(name).join("part-0.parquet"), batches);
        let location = self.path(name);
        self.run(&format!(
            "CREATE EXTERNAL TABLE {name} STORED AS PARQUET LOCATION '{}/'",
            location.display()
        ))
        .await;
    }

    /// Runs a statement that must succeed; gives its rows as text, unsorted.
    pub async fn run(&self, sql: &str) -> Vec<Vec<String>> {
        self.try_run(sql).await.unwrap_or_else(|error| panic!("{:.2000}\n{error:?}", sql))
    }

    pub async fn try_run(&self, sql: &str) -> Result<Vec<Vec<String>>, QueryError> {
        match self.session.query(sql).await? {
            Answer::Rows(rows) => Ok(rows_of(&rows.collect().await?)),
            Answer::Done(_) => Ok(Vec::new()),
        }
    }

    /// Waits until the cuboids that recent queries requested are in memory, or their loads have failed.
    pub async fn settle(&self) {
        while self.engine.stats().hot_cuboids.loading > 0 {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    }

    /// The operators that run a query.
    pub async fn operators(&self, sql: &str) -> String {
        self.run(&format!("EXPLAIN {sql}")).await[2][1].clone()
    }

    /// The cubes part of EXPLAIN.
    pub async fn explain(&self, sql: &str) -> String {
        let report = self.run(&format!("EXPLAIN {sql}")).await[0][1].clone();
        // EXPLAIN tries every cube, a query only those that the index finds.
        assert!(!report.contains("fewer than the chosen one"), "{sql}\n{report}");
        report
    }

    /// Runs a statement that must fail in this way; gives message and hint.
    pub async fn error(&self, sql: &str, kind: ErrorKind, words: &str) {
        match self.try_run(sql).await {
            Ok(rows) => panic!("succeeded with {} rows: {sql}", rows.len()),
            Err(error) => {
                let text = format!("{error} / {}", error.hint.clone().unwrap_or_default());
                assert_eq!(error.kind, kind, "{sql}: {text}");
                assert!(text.contains(words), "{sql}: {text}");
            }
        }
    }

    /// Checks that a query is answered from a cube and that the tables give the same answer.
    pub async fn check_hit(&self, sql: &str) {
        let report = self.explain(sql).await;
        assert!(report.contains("answered from cube"), "{sql}\n{report}");
        self.check_same(sql).await;
    }

    /// Checks that a query is answered from the tables, for this reason.
    pub async fn check_miss(&self, sql: &str, reason: &str) {
        let report = self.explain(sql).await;
        assert!(report.contains("answered from the tables"), "{sql}\n{report}");
        assert!(report.contains(reason), "{sql}\n{report}");
        self.check_same(sql).await;
    }

    /// Checks that cubes make no difference to the answer.
    pub async fn check_same(&self, sql: &str) {
        let with = sorted(self.run(sql).await);
        self.run("SET nyala.use_cubes = off").await;
        let without = sorted(self.run(sql).await);
        self.run("SET nyala.use_cubes = on").await;
        assert_same(sql, &with, &without);
    }
}

/// The one statement of a text that has no cached plan.
pub fn parsed(session: &Session, sql: &str) -> Statement {
    match session.read(sql).unwrap() {
        Text::Statements(mut statements) if statements.len() == 1 => statements.remove(0),
        other => panic!("{sql}: {other:?}"),
    }
}

/// The statement of a text with a cached plan.
pub fn ready(session: &Session, sql: &str) -> Prepared {
    match session.read(sql).unwrap() {
        Text::Ready(prepared) => prepared,
        Text::Statements(_) => panic!("not ready: {sql}"),
    }
}

/// Sorts rows by their exact values first; floating-point numbers come last, because their last digits may differ.
pub fn sorted(mut rows: Vec<Vec<String>>) -> Vec<Vec<String>> {
    let inexact = |value: &&String| value.contains('.') && value.parse::<f64>().is_ok();
    rows.sort_by_cached_key(|row| {
        let (floats, exact): (Vec<_>, Vec<_>) = row.iter().partition(inexact);
        [exact, floats].concat().into_iter().cloned().collect::<Vec<String>>()
    });
    rows
}

/// Checks that rows are equal but for the last digits of floating-point numbers.
pub fn assert_same(context: &str, left: &[Vec<String>], right: &[Vec<String>]) {
    assert_eq!(left.len(), right.len(), "{context}: numbers of rows differ\n{left:?}\n{right:?}");
    for (a, b) in left.iter().zip(right) {
        let same = a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_value(a, b));
        assert!(same, "{context}\nleft:  {a:?}\nright: {b:?}");
    }
}

fn same_value(a: &str, b: &str) -> bool {
    if a == b {
        return true;
    }
    match (a.parse::<f64>(), b.parse::<f64>()) {
        (Ok(a), Ok(b)) => {
            (a.is_nan() && b.is_nan()) || (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1e-6)
        }
        _ => false,
    }
}

pub fn rows_of(batches: &[RecordBatch]) -> Vec<Vec<String>> {
    let options = FormatOptions::default().with_null("NULL");
    let mut rows = Vec::new();
    for batch in batches {
        let columns: Vec<_> =
            batch.columns().iter().map(|c| ArrayFormatter::try_new(c.as_ref(), &options).unwrap()).collect();
        for row in 0..batch.num_rows() {
            rows.push(columns.iter().map(|column| column.value(row).to_string()).collect());
        }
    }
    rows
}

pub fn write_parquet(path: &Path, batches: &[RecordBatch]) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let file = std::fs::File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batches[0].schema(), None).unwrap();
    for batch in batches {
        writer.write(batch).unwrap();
    }
    writer.close().unwrap();
}

/// Copies a folder with all in it.
pub fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Flips a bit of a file.
pub fn flip(file: &Path, bit: usize) {
    let mut bytes = std::fs::read(file).unwrap();
    bytes[bit / 8] ^= 1 << (bit % 8);
    std::fs::write(file, bytes).unwrap();
}

/// Writes a file of a cuboid with the checksums that `docs/formats/cuboid.md` asks for.
pub fn write_cuboid(folder: &Path, name: &str, batches: &[RecordBatch]) -> CuboidFile {
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batches[0].schema(), None).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.flush().unwrap();
    writer.sync().unwrap();
    let pages = writer.inner().to_vec();
    let sums: Vec<u8> =
        pages.chunks(16 << 10).flat_map(|block| crc32c::crc32c(block).to_le_bytes()).collect();
    let blocks = base64::engine::general_purpose::STANDARD.encode(sums);
    writer.append_key_value_metadata(KeyValue::new("nyala.blocks".to_owned(), blocks));
    writer.close().unwrap();
    assert!(bytes.starts_with(&pages));
    std::fs::write(folder.join(name), &bytes).unwrap();
    CuboidFile {
        name: name.to_owned(),
        rows: batches.iter().map(|batch| batch.num_rows() as u64).sum(),
        bytes: bytes.len() as u64,
        tail_from: pages.len() as u64,
        tail_crc: crc32c::crc32c(&bytes[pages.len()..]),
    }
}

/// A batch from named columns.
#[macro_export]
macro_rules! batch {
    ($($name:literal => $array:expr),* $(,)?) => {
        arrow::array::RecordBatch::try_from_iter_with_nullable([
            $(($name, std::sync::Arc::new($array) as arrow::array::ArrayRef, true)),*
        ]).unwrap()
    };
}
