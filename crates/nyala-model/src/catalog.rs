//! What the catalog holds: one immutable [`CatalogSnapshot`] of tables, cubes and their segments.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::access::Roles;
use crate::ids::{CubeId, JobId, SegmentId, SnapshotVersion, TableId};
use crate::lattice::{DimensionSet, Lattice};
use crate::name::QualifiedName;
use crate::range::{KeyRange, RangePartition};

/// File format of an external table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileFormat {
    /// Apache Parquet.
    Parquet,
    /// Comma-separated values.
    Csv,
    /// Newline-delimited JSON.
    NdJson,
}

/// An external table: files under a location.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableEntry {
    /// Identity, stable over renames.
    pub id: TableId,
    /// Where users find it.
    pub name: QualifiedName,
    /// How its files are read.
    pub format: FileFormat,
    /// Absolute URL of a file or of a folder (then with a trailing slash).
    pub location: String,
    /// Columns taken from `name=value` folder names, outermost first. They come last in the schema.
    pub partition_columns: Vec<String>,
    /// Format options as the user wrote them, keys in lower case (`format.delimiter`, …).
    pub options: BTreeMap<String, String>,
    /// Full schema, partition columns included, as an Arrow IPC schema message.
    #[serde(with = "crate::catalog::hex_bytes")]
    pub schema_ipc: Vec<u8>,
    /// The statement that created it, for people.
    pub definition: String,
}

/// A group expression of a cube.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dimension {
    /// Column name in every cuboid.
    pub name: String,
    /// The expression over the base columns, as text for people.
    pub expression: String,
    /// Arrow type, as text for people.
    pub data_type: String,
}

/// One column of an aggregate's intermediate state. Part of the on-disk format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateColumn {
    /// Column name in every cuboid.
    pub name: String,
    /// Arrow type, as text: a segment is refused if the running version would read another.
    pub data_type: String,
}

/// An aggregate call of a cube, stored as state columns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measure {
    /// The call over the base columns, as text for people.
    pub expression: String,
    /// Name of the aggregate function.
    pub function: String,
    /// Arrow types of the arguments, as text.
    pub argument_types: Vec<String>,
    /// Whether the call is over distinct arguments.
    pub distinct: bool,
    /// Version of the function's state layout.
    pub state_version: u32,
    /// The state's columns, in the order the function writes them.
    pub states: Vec<StateColumn>,
}

/// What a cube is made of, as worked out when it was created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CubeDefinition {
    /// The SELECT of the cube, fully qualified; planning it anew gives the expressions.
    pub select: String,
    /// Tables the SELECT reads, without repetition.
    pub sources: Vec<QualifiedName>,
    /// Group expressions; [`DimensionSet`] counts in this order.
    pub dimensions: Vec<Dimension>,
    /// Aggregate calls.
    pub measures: Vec<Measure>,
    /// Distinct grouping sets, each after all its supersets.
    pub grouping_sets: Vec<DimensionSet>,
    /// How it is divided into segments; none if one segment holds all rows.
    #[serde(default)]
    pub partition: Option<RangePartition>,
}

impl CubeDefinition {
    /// The grouping sets as a lattice.
    pub fn lattice(&self) -> Lattice {
        Lattice::new(self.grouping_sets.iter().copied())
    }

    /// Names of the dimensions in `set`, in definition order.
    pub fn dimension_names(&self, set: DimensionSet) -> Vec<&str> {
        set.iter().filter_map(|i| self.dimensions.get(i)).map(|d| d.name.as_str()).collect()
    }
}

/// A cube with the segments built so far.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CubeEntry {
    /// Identity.
    pub id: CubeId,
    /// Where users find it.
    pub name: QualifiedName,
    /// What it is made of.
    pub definition: CubeDefinition,
    /// The statement that created it, for people.
    pub statement: String,
    /// Segments, oldest first, whatever their state.
    pub segments: Vec<SegmentEntry>,
}

/// How far a segment has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SegmentState {
    /// Files are being written; no query may read it.
    Building,
    /// Complete; queries may be answered from it.
    Ready,
}

/// The rows a segment was made from, by the column its cube is partitioned by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SegmentRange {
    /// All rows: the cube is not partitioned.
    Whole,
    /// Rows whose key is in the range.
    Keys(KeyRange),
    /// Rows without a value in the column.
    Nulls,
}

impl SegmentRange {
    /// Whether every row of `other` belongs here too.
    pub fn contains(self, other: Self) -> bool {
        match (self, other) {
            (Self::Whole, _) | (Self::Nulls, Self::Nulls) => true,
            (Self::Keys(own), Self::Keys(other)) => own.contains(other),
            _ => false,
        }
    }

    /// Whether a row could belong to both.
    pub fn overlaps(self, other: Self) -> bool {
        match (self, other) {
            (Self::Whole, _) | (_, Self::Whole) | (Self::Nulls, Self::Nulls) => true,
            (Self::Keys(own), Self::Keys(other)) => own.overlaps(other),
            _ => false,
        }
    }
}

/// The files of one table that a segment was made from, as they were then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceFiles {
    /// The table.
    pub table: QualifiedName,
    /// How many there were.
    pub files: u64,
    /// A digest of their names, sizes, times and tags. Other files have another one.
    pub fingerprint: String,
}

/// The cuboids of a cube built in one go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentEntry {
    /// Identity.
    pub id: SegmentId,
    /// How far it has come.
    pub state: SegmentState,
    /// The rows it was made from.
    pub range: SegmentRange,
    /// The files it was made from; while others lie there, it answers nothing.
    pub sources: Vec<SourceFiles>,
    /// Folder that holds all its files, relative to the data folder, with a trailing slash.
    pub location: String,
    /// Rows of the flat join that were aggregated.
    pub source_rows: u64,
    /// Milliseconds since the Unix epoch when it became ready (0 before).
    pub built_at_ms: u64,
    /// Tables of the cube's join, by position in its FROM clause, that were seen to keep every row
    /// exactly once: a query may leave them out and still be answered.
    pub droppable_joins: Vec<usize>,
    /// Smallest and largest key among its rows, both included; none if no row has one or the cube is
    /// not partitioned. A condition that holds for both ends of a range need not be checked on its cells.
    pub key_bounds: Option<(i64, i64)>,
    /// Finished cuboids.
    pub cuboids: Vec<CuboidEntry>,
}

/// One grouping set of one segment, on disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CuboidEntry {
    /// Its dimensions.
    pub dimensions: DimensionSet,
    /// Cells, that is rows of the files together.
    pub rows: u64,
    /// Size of the files together.
    pub bytes: u64,
    /// The files; each is sorted, and no cell is in two of them, but their ranges overlap.
    pub files: Vec<CuboidFile>,
}

/// An immutable file of a cuboid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CuboidFile {
    /// Name relative to the segment's location.
    pub name: String,
    /// Cells in this file.
    pub rows: u64,
    /// Size of the file.
    pub bytes: u64,
}

/// What a job does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobKind {
    /// Builds a segment of a cube.
    Build,
}

/// How far a job has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum JobState {
    /// At work, or was when its process died.
    Running,
    /// Ended well.
    Done,
    /// Ended by an error, which the entry holds.
    Failed,
    /// Ended because someone asked for it.
    Cancelled,
}

/// A background job and its outcome. Jobs are not part of a snapshot: their progress changes far more
/// often than anything a query depends on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobEntry {
    /// Identity.
    pub id: JobId,
    /// What it does.
    pub kind: JobKind,
    /// The cube it works for.
    pub cube: QualifiedName,
    /// How far it has come.
    pub state: JobState,
    /// Rows read from the source so far.
    pub rows_read: u64,
    /// Cuboids finished so far.
    pub cuboids_done: u32,
    /// Cuboids to build in all.
    pub cuboids_total: u32,
    /// Bytes written so far.
    pub bytes_written: u64,
    /// Milliseconds since the Unix epoch.
    pub started_at_ms: u64,
    /// Milliseconds since the Unix epoch; none while running.
    pub ended_at_ms: Option<u64>,
    /// Why it failed.
    pub error: Option<String>,
}

/// One immutable, versioned view of everything the catalog holds. A query reads exactly one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CatalogSnapshot {
    /// Counts the transactions that led here.
    pub version: SnapshotVersion,
    /// All schemas, empty ones included.
    pub schemas: BTreeSet<String>,
    /// Tables by name.
    pub tables: BTreeMap<QualifiedName, Arc<TableEntry>>,
    /// Cubes by name.
    pub cubes: BTreeMap<QualifiedName, Arc<CubeEntry>>,
    /// Users and groups by name.
    pub roles: Roles,
}

/// Bytes as a hexadecimal string, so that entries stay readable as JSON.
mod hex_bytes {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        serializer.serialize_str(&text)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(deserializer)?;
        let digits: Option<Vec<u8>> =
            text.chars().map(|c| c.to_digit(16).and_then(|d| u8::try_from(d).ok())).collect();
        match digits {
            Some(digits) if digits.len() % 2 == 0 => Ok(digits
                .chunks_exact(2)
                .map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit))
                .collect()),
            _ => Err(D::Error::custom("bytes are not written in hexadecimal")),
        }
    }
}
