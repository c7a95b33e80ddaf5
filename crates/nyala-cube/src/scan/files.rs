//! The present files of a table, from which a segment's freshness is judged.

use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::common::Statistics;
use datafusion::common::stats::Precision;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::execution::SessionState;
use nyala_model::{QualifiedName, SourceFiles};
use nyala_sql::error::Result;

use super::external::ExternalTable;

/// A listing of one table.
#[derive(Debug, Clone)]
pub struct TableFiles {
    table: QualifiedName,
    files: Vec<SourceFile>,
    /// Whether statistics of columns were asked for.
    statistics: bool,
    /// Digest of all files.
    all: blake3::Hash,
}

/// One file of a listing.
#[derive(Debug, Clone)]
struct SourceFile {
    identity: blake3::Hash,
    statistics: Option<Arc<Statistics>>,
}

/// The range of one column in one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ColumnRange {
    /// The file may have any value.
    Unknown,
    /// All values of the file lie within bounds, if it has any.
    Known {
        /// Smallest and largest value; none if all rows are null.
        bounds: Option<(ScalarValue, ScalarValue)>,
        /// Whether some row may be null.
        nulls: bool,
    },
}

impl TableFiles {
    /// Lists the files of `table`. `statistics` asks for the ranges of their columns, which takes a look into
    /// every file that was not looked into before.
    pub async fn list(table: &ExternalTable, state: &SessionState, statistics: bool) -> Result<Self> {
        let mut files: Vec<SourceFile> =
            table.files(state, statistics).await?.into_iter().map(SourceFile::new).collect();
        files.sort_by(|a, b| a.identity.as_bytes().cmp(b.identity.as_bytes()));
        let all = digest(files.iter());
        Ok(Self { table: table.entry().name.clone(), files, statistics, all })
    }

    /// Whether both list the same files.
    pub fn same_as(&self, other: &Self) -> bool {
        self.all == other.all
    }

    /// Whether statistics of columns were asked for.
    pub fn has_statistics(&self) -> bool {
        self.statistics
    }

    /// The files for which `wanted` holds, given the range of one of their columns.
    pub fn fingerprint(&self, column: Option<usize>, wanted: impl Fn(&ColumnRange) -> bool) -> SourceFiles {
        let chosen: Vec<&SourceFile> =
            self.files.iter().filter(|file| wanted(&file.column(column))).collect();
        let fingerprint =
            digest(chosen.iter().copied()).to_hex().as_str().get(..32).unwrap_or_default().to_owned();
        SourceFiles { table: self.table.clone(), files: chosen.len() as u64, fingerprint, live: None }
    }

    /// The range of a column in each file, with the file's rows if they were counted.
    pub fn column(&self, column: usize) -> impl Iterator<Item = (ColumnRange, Option<u64>)> {
        self.files.iter().map(move |file| (file.column(Some(column)), file.rows()))
    }
}

fn digest<'a>(files: impl Iterator<Item = &'a SourceFile>) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    for file in files {
        hasher.update(file.identity.as_bytes());
    }
    hasher.finalize()
}

impl SourceFile {
    fn new(file: PartitionedFile) -> Self {
        let meta = &file.object_meta;
        let mut hasher = blake3::Hasher::new();
        hasher.update(meta.location.as_ref().as_bytes());
        hasher.update(&[0]);
        hasher.update(&meta.size.to_le_bytes());
        hasher.update(&meta.last_modified.timestamp_micros().to_le_bytes());
        hasher.update(meta.e_tag.as_deref().unwrap_or_default().as_bytes());
        Self { identity: hasher.finalize(), statistics: file.statistics }
    }

    fn rows(&self) -> Option<u64> {
        match self.statistics.as_ref()?.num_rows {
            Precision::Exact(rows) => Some(rows as u64),
            _ => None,
        }
    }

    fn column(&self, column: Option<usize>) -> ColumnRange {
        let known = column.and_then(|column| Some((self.statistics.as_ref()?, column)));
        let Some((statistics, column)) = known else { return ColumnRange::Unknown };
        if statistics.num_rows == Precision::Exact(0) {
            return ColumnRange::Known { bounds: None, nulls: false };
        }
        let Some(found) = statistics.column_statistics.get(column) else { return ColumnRange::Unknown };
        let nulls = match found.null_count {
            Precision::Exact(nulls) => nulls,
            _ => return ColumnRange::Unknown,
        };
        match (&found.min_value, &found.max_value) {
            (Precision::Exact(min), Precision::Exact(max)) if !min.is_null() && !max.is_null() => {
                ColumnRange::Known { bounds: Some((min.clone(), max.clone())), nulls: nulls > 0 }
            }
            _ if statistics.num_rows == Precision::Exact(nulls) => {
                ColumnRange::Known { bounds: None, nulls: nulls > 0 }
            }
            _ => ColumnRange::Unknown,
        }
    }
}
