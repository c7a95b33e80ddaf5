//! The request for a generation, and its summary.

use clap::ValueEnum;
use nyala_model::config::StorageConfig;

/// A benchmark with generated data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Dataset {
    /// Star Schema Benchmark: one fact table and four dimensions
    Ssb,
    /// TPC-H: 8 tables
    Tpch,
    /// TPC-DS: 24 tables
    Tpcds,
}

/// One generation.
#[derive(Debug, Clone)]
pub struct Request {
    /// Which benchmark.
    pub dataset: Dataset,
    /// The benchmark's scale factor; fractions are fine. At scale 1 the largest table of SSB and
    /// TPC-H has 6 million rows, that of TPC-DS 11.7 million.
    pub scale: f64,
    /// Folder that gets one folder for each table: a path, `file:///…` or `s3://bucket/prefix`.
    pub out: String,
    /// Whether Parquet files that lie in the tables' folders are replaced. Without it a folder that
    /// holds anything is an error.
    pub overwrite: bool,
    /// Files written at the same time, each with a thread of its own; 0 means one for each core.
    /// More costs about 150 MB of memory each.
    pub threads: usize,
    /// Which locations may be written, and how S3 is reached.
    pub storage: StorageConfig,
}

impl Request {
    /// A request that replaces nothing, uses every core and writes to local files.
    pub fn new(dataset: Dataset, scale: f64, out: impl Into<String>) -> Self {
        Self {
            dataset,
            scale,
            out: out.into(),
            overwrite: false,
            threads: 0,
            storage: StorageConfig::default(),
        }
    }
}

/// The tables that a generation wrote.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// The tables, in the order in which [`super::run::tables`] lists them.
    pub tables: Vec<TableSummary>,
}

/// Rows, files and bytes written for one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableSummary {
    /// The table's name.
    pub name: &'static str,
    /// Rows in all files.
    pub rows: u64,
    /// Number of files.
    pub files: usize,
    /// Size of all files.
    pub bytes: u64,
    /// URL of the table's folder, with a slash at the end.
    pub location: String,
}

impl Summary {
    /// Rows of all tables.
    pub fn rows(&self) -> u64 {
        self.tables.iter().map(|table| table.rows).sum()
    }

    /// Bytes of all tables.
    pub fn bytes(&self) -> u64 {
        self.tables.iter().map(|table| table.bytes).sum()
    }
}
