//! The Star Schema Benchmark as files, as tables and as a cube, made by the binary itself.

use std::path::{Path, PathBuf};

use serde_json::{Deserializer, Value};
use tempfile::TempDir;

use crate::program::{nyala, run};
use crate::server::rows_of;

/// Generated files, deleted when this is dropped.
pub struct Star {
    folder: TempDir,
}

impl Star {
    pub fn generate(scale: &str) -> Self {
        let star = Self { folder: tempfile::tempdir().unwrap() };
        run(nyala(&["gen", "ssb", "--scale", scale, "--out"]).arg(star.files()));
        star
    }

    /// Folder with one folder of Parquet files for each table.
    pub fn files(&self) -> PathBuf {
        self.path("ssb")
    }

    /// A path beside the files, to be used as data folder for instance.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Creates tables and cube in a data folder.
    pub fn define(&self, data_dir: &Path) {
        let tables = benchmark("tables.sql").replace("${DATA}", &self.files().to_string_lossy());
        sql(data_dir, &tables);
        self.define_cube(data_dir);
    }

    /// Creates the cube in a data folder that has the tables.
    pub fn define_cube(&self, data_dir: &Path) {
        sql(data_dir, &benchmark("cube.sql"));
    }

    /// A data folder with tables and a built cube.
    pub fn built(&self) -> PathBuf {
        let data_dir = self.path("data");
        self.define(&data_dir);
        sql(&data_dir, "BUILD CUBE ssb");
        data_dir
    }
}

/// Folder of the repository's root.
pub fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap().join(path)
}

fn benchmark(name: &str) -> String {
    std::fs::read_to_string(repository("benchmarks/ssb").join(name)).unwrap()
}

/// The 13 queries by name, such as `q1.1`, without semicolons.
pub fn queries() -> Vec<(String, String)> {
    let folder = std::fs::read_dir(repository("benchmarks/ssb/queries")).unwrap();
    let mut queries: Vec<_> = folder
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "sql"))
        .map(|path| {
            let text = std::fs::read_to_string(&path).unwrap();
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            (name, text.trim().trim_end_matches(';').to_owned())
        })
        .collect();
    queries.sort();
    assert_eq!(queries.len(), 13, "queries of the benchmark");
    queries
}

/// Runs statements on a data folder in a process of their own; gives the rows of the last result.
pub fn sql(data_dir: &Path, statements: &str) -> Vec<Vec<String>> {
    let output = run(nyala(&["sql", "--format", "json", "-c", statements, "--data-dir"]).arg(data_dir));
    let documents: Vec<Value> =
        Deserializer::from_str(&output).into_iter().collect::<Result<_, _>>().expect("JSON documents");
    documents.last().map(rows_of).unwrap_or_default()
}
