//! The catalog's content: an immutable [`CatalogSnapshot`] of tables, disk stores, cubes and their segments.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::access::Roles;
use crate::cube::CubeEntry;
use crate::ids::{ChangeId, NodeId, SegmentId, SnapshotVersion, TableId};
use crate::lattice::DimensionSet;
use crate::name::QualifiedName;
use crate::range::KeyRange;

/// File format of an external table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileFormat {
    /// Apache Parquet.
    Parquet,
    /// Comma-separated values.
    Csv,
    /// Newline-delimited JSON.
    NdJson,
    /// A Delta Lake table: Parquet files, listed in its transaction log.
    Delta,
}

impl FileFormat {
    /// The format of the table's files.
    #[must_use]
    pub fn of_files(self) -> Self {
        if self == Self::Delta { Self::Parquet } else { self }
    }
}

/// A table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableEntry {
    /// Identity, stable over renames.
    pub id: TableId,
    /// Its name for users.
    pub name: QualifiedName,
    /// Where its rows are.
    pub source: TableSource,
    /// Full schema, partition columns included, as an Arrow IPC schema message.
    #[serde(with = "crate::catalog::hex_bytes")]
    pub schema_ipc: Vec<u8>,
    /// The statement that created it, for people.
    pub definition: String,
}

/// Where the rows of a table are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TableSource {
    /// Files that other programs write.
    External(ExternalSource),
    /// A disk store.
    Live(LiveSource),
    /// Other tables, by a query: the table is a view.
    View(ViewSource),
}

/// Files under a location.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExternalSource {
    /// How the files are read.
    pub format: FileFormat,
    /// Absolute URL of a file or of a folder (then with a trailing slash).
    pub location: String,
    /// Columns taken from `name=value` folder names, outermost first. They come last in the schema.
    pub partition_columns: Vec<String>,
    /// Format options as the user wrote them, keys in lower case (`format.delimiter`, …).
    pub options: BTreeMap<String, String>,
}

/// Rows with a primary key, in memory and in a disk store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveSource {
    /// Name of the disk store.
    pub store: String,
    /// Its name in that store. No other table of the store ever had it.
    pub stored_as: String,
    /// Columns of the primary key, in order.
    pub key: Vec<String>,
    /// Whether the table was made without a primary key. Then its key is a column that only the store has: a number
    /// that each row gets when it is inserted.
    #[serde(default)]
    pub numbered: bool,
    /// Default of each column, as SQL, when an INSERT does not name it; the others get null.
    pub defaults: BTreeMap<String, String>,
}

/// The query of a view.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ViewSource {
    /// The query. It names each table with its schema, as the table was called when the view was made.
    pub query: String,
    /// The tables that it reads, by these names: they may be called something else by now.
    pub reads: Vec<(QualifiedName, TableId)>,
    /// The names that the query gave its columns when the view was made.
    pub columns: Vec<String>,
}

/// A folder that live tables persist to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskStoreEntry {
    /// Unique in the database.
    pub name: String,
    /// The folder: absolute, or relative to the data folder.
    pub folder: String,
    /// Options as the user wrote them, keys in lower case.
    pub options: BTreeMap<String, String>,
    /// Names, in the store, of dropped tables that may still have rows there.
    pub leftovers: BTreeSet<String>,
    /// The node that opens it.
    #[serde(default)]
    pub node: NodeId,
}

impl TableEntry {
    /// Its files, if it is an external table.
    pub fn external(&self) -> Option<&ExternalSource> {
        match &self.source {
            TableSource::External(source) => Some(source),
            TableSource::Live(_) | TableSource::View(_) => None,
        }
    }

    /// Its place in a disk store, if it is a live table.
    pub fn live(&self) -> Option<&LiveSource> {
        match &self.source {
            TableSource::Live(source) => Some(source),
            TableSource::External(_) | TableSource::View(_) => None,
        }
    }

    /// Its query, if it is a view.
    pub fn view(&self) -> Option<&ViewSource> {
        match &self.source {
            TableSource::View(source) => Some(source),
            TableSource::External(_) | TableSource::Live(_) => None,
        }
    }

    /// Its kind: `table` or `view`.
    pub fn kind(&self) -> &'static str {
        if self.view().is_some() { "view" } else { "table" }
    }
}

/// State of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SegmentState {
    /// Its files are being written; no query may read it.
    Building,
    /// Complete; queries may be answered from it.
    Ready,
    /// One of its files is damaged; no query may read the segment, and a build makes its rows anew.
    Damaged,
}

/// Damage of a segment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentDamage {
    /// Name of the file, relative to the segment's location; empty if all files are affected.
    pub file: String,
    /// The kind of damage.
    pub reason: String,
}

/// The rows of a segment, by the partition column of its cube.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SegmentRange {
    /// All rows: the cube is not partitioned.
    Whole,
    /// Rows with keys in the range.
    Keys(KeyRange),
    /// Rows with null in the column.
    Nulls,
    /// Rows of a live table that were last written in this range of LSNs.
    Written(KeyRange),
}

impl SegmentRange {
    /// Whether every row of `other` belongs to this range, too.
    pub fn contains(self, other: Self) -> bool {
        match (self, other) {
            (Self::Whole, _) | (Self::Nulls, Self::Nulls) => true,
            (Self::Keys(own), Self::Keys(other)) | (Self::Written(own), Self::Written(other)) => {
                own.contains(other)
            }
            _ => false,
        }
    }

    /// Whether a row could belong to both ranges.
    pub fn overlaps(self, other: Self) -> bool {
        match (self, other) {
            (Self::Whole, _) | (_, Self::Whole) | (Self::Nulls, Self::Nulls) => true,
            (Self::Keys(own), Self::Keys(other)) | (Self::Written(own), Self::Written(other)) => {
                own.overlaps(other)
            }
            _ => false,
        }
    }
}

/// The source of a segment in one table: its files at that time, or its rows if the table is live.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceFiles {
    /// The table.
    pub table: QualifiedName,
    /// Number of files.
    pub files: u64,
    /// A digest of their names, sizes, times and tags. It differs for other files.
    pub fingerprint: String,
    /// The rows of a live table, which has no files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<LiveRows>,
}

/// Rows of a live table as they were when a segment was made.
///
/// A row that is written again gets a later LSN. So the number of rows with an LSN up to `up_to` can only
/// fall, and while it is unchanged, the rows are the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveRows {
    /// The table's name in its store. No other table of the store ever had it.
    pub stored_as: String,
    /// The largest LSN that the rows may have.
    pub up_to: u64,
    /// Number of rows.
    pub rows: u64,
}

/// A part of a cube: its cuboids over one range of rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentEntry {
    /// Identity.
    pub id: SegmentId,
    /// Its state.
    pub state: SegmentState,
    /// The rows it was made from.
    pub range: SegmentRange,
    /// The files it was made from; while the present files differ, no query uses it.
    pub sources: Vec<SourceFiles>,
    /// Folder that holds all its files, relative to the data folder, with a trailing slash.
    pub location: String,
    /// Rows of the flat join that were aggregated.
    pub source_rows: u64,
    /// Time when it became ready, in milliseconds since the Unix epoch (0 before).
    pub built_at_ms: u64,
    /// Tables of the cube's join, by position in its FROM clause, that kept every row exactly once
    /// in this build: the segment can answer queries without them.
    pub droppable_joins: Vec<usize>,
    /// Smallest and largest key of its rows, both included; none if no row has a key or the cube is not
    /// partitioned. A range condition that holds for both keys need not be checked on its cells.
    pub key_bounds: Option<(i64, i64)>,
    /// Finished cuboids.
    pub cuboids: Vec<CuboidEntry>,
    /// The damage, if the state is [`SegmentState::Damaged`].
    pub damage: Option<SegmentDamage>,
    /// The node that made it, or makes it.
    pub node: NodeId,
}

impl SegmentEntry {
    /// Whether it only records that its range has no rows: it has no cuboids, and needs none.
    pub fn is_gap(&self) -> bool {
        self.state == SegmentState::Ready
            && self.source_rows == 0
            && self.cuboids.is_empty()
            && matches!(self.range, SegmentRange::Keys(_))
    }
}

/// One grouping set of one segment, on disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CuboidEntry {
    /// Its dimensions.
    pub dimensions: DimensionSet,
    /// Number of cells: the rows of all files.
    pub rows: u64,
    /// Size of all files, in bytes.
    pub bytes: u64,
    /// Number of the first measure that was added later: the cuboid has the states of all smaller numbers.
    pub measures: u32,
    /// Whether its files still have a dropped dimension: then several rows may belong to one cell.
    pub repeats: bool,
    /// Whether its files have columns that were dropped from the cube.
    pub wider: bool,
    /// The files; each is sorted, and no cell is in two files, but their ranges overlap.
    pub files: Vec<CuboidFile>,
}

/// An immutable file of a cuboid.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CuboidFile {
    /// Name relative to the segment's location.
    pub name: String,
    /// Cells in this file.
    pub rows: u64,
    /// Size of the file, in bytes.
    pub bytes: u64,
    /// Offset of its tail: page index and footer, which has the checksums of all blocks before it.
    pub tail_from: u64,
    /// CRC-32C of the tail.
    pub tail_crc: u32,
}

/// One immutable, versioned view of the whole catalog. A query reads exactly one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CatalogSnapshot {
    /// Counts the transactions of the catalog.
    pub version: SnapshotVersion,
    /// The change that made this version.
    pub change: ChangeId,
    /// All schemas, empty ones included.
    pub schemas: BTreeSet<String>,
    /// Tables by name.
    pub tables: BTreeMap<QualifiedName, Arc<TableEntry>>,
    /// Disk stores by name.
    pub disk_stores: BTreeMap<String, Arc<DiskStoreEntry>>,
    /// Cubes by name.
    pub cubes: BTreeMap<QualifiedName, Arc<CubeEntry>>,
    /// Users and groups by name.
    pub roles: Roles,
}

impl CatalogSnapshot {
    /// Whether both snapshots were made by the same change, and so have the same contents.
    pub fn is_same_version(&self, other: &Self) -> bool {
        self.version == other.version && self.change == other.change
    }

    /// This snapshot, with `node` as the owner of all entries without one: a version of Nyala without nodes wrote them.
    pub fn owned_by(mut self, node: &NodeId) -> Self {
        for store in self.disk_stores.values_mut().filter(|store| store.node.0.is_empty()) {
            Arc::make_mut(store).node = node.clone();
        }
        for cube in self.cubes.values_mut() {
            if cube.segments.iter().any(|segment| segment.node.0.is_empty()) {
                let segments = Arc::make_mut(cube).segments.iter_mut();
                segments.filter(|segment| segment.node.0.is_empty()).for_each(|s| s.node = node.clone());
            }
        }
        self
    }
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
