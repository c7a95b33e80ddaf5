//! Errors of a disk store, by the caller's next step.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::meta::TableMeta;
use super::unit::Facts;

/// The result of work on a disk store.
pub type Result<T, E = OplogError> = std::result::Result<T, E>;

/// A place in a file that is not as it was written. Nothing is served from there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The file.
    pub file: PathBuf,
    /// The offset in the file, in bytes.
    pub offset: u64,
    /// The expectation that failed.
    pub reason: String,
    /// The rows that cannot be served because of the damage, as far as they are known.
    pub rows: Option<Box<LostRows>>,
}

/// Rows of a unit that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostRows {
    /// The table of the rows.
    pub table: String,
    /// The number of rows.
    pub rows: u64,
    /// The lowest and the highest LSN at which they were last written.
    pub lsns: (u64, u64),
    /// The lowest and the highest value of the first key column, if they are known. Long ones are cut.
    pub keys: Option<(String, String)>,
}

impl Damage {
    /// Whether the other damage is at the same place.
    pub(crate) fn is_at(&self, other: &Self) -> bool {
        (&self.file, self.offset) == (&other.file, other.offset)
    }
}

impl LostRows {
    pub(crate) fn new(meta: &TableMeta, rows: u32, facts: &Facts) -> Self {
        Self { table: meta.name.clone(), rows: rows.into(), lsns: facts.lsns, keys: facts.keys.clone() }
    }
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}` is damaged at byte {}: {}", self.file.display(), self.offset, self.reason)?;
        let Some(lost) = &self.rows else { return Ok(()) };
        let (first, last) = lost.lsns;
        write!(f, "; {} rows of table `{}`, written at LSN {first} to {last}", lost.rows, lost.table)?;
        match &lost.keys {
            Some((lowest, highest)) => write!(f, " with keys from `{lowest}` to `{highest}`, cannot be read"),
            None => f.write_str(" cannot be read"),
        }
    }
}

/// The reason why a disk store refused or failed an operation.
#[derive(Debug, Clone, thiserror::Error)]
pub enum OplogError {
    /// The operating system failed. The operation had no effect.
    #[error("cannot {action} `{}`: {source}", file.display())]
    Io {
        /// The action that failed, such as "read".
        action: &'static str,
        /// The file or folder.
        file: PathBuf,
        /// The operating system's error.
        source: Arc<io::Error>,
    },
    /// A file is not as it was written. Restore it, or salvage the undamaged part.
    #[error("{0}; restore a backup, or copy out what is whole with `nyala disk-store salvage`")]
    Damaged(Damage),
    /// The disk is full. Deleting still works; writing goes on by itself when there is space.
    #[error("the disk of store `{}` is full: it takes deletes only until there is space", folder.display())]
    DiskFull {
        /// The store's folder.
        folder: PathBuf,
    },
    /// The store takes no more writes in this process. Reading goes on.
    #[error("store `{}` is read-only: {reason}; check the disk and start again", folder.display())]
    ReadOnly {
        /// The store's folder.
        folder: PathBuf,
        /// The cause.
        reason: String,
    },
    /// The write may or may not be found after a restart; it is not visible now.
    #[error("a write could not be confirmed: {reason}; ask for the row before you write it again")]
    Unconfirmed {
        /// The cause.
        reason: String,
    },
    /// Another process works in the folder.
    #[error("disk store `{}` is in use by {holder}", folder.display())]
    InUse {
        /// The store's folder.
        folder: PathBuf,
        /// The other process, as it describes itself in the lock file.
        holder: String,
    },
    /// A row was not in the version that the write was made for. Read it again and retry.
    #[error("row {row} was written at LSN {found}, not {expected}; read it again and retry")]
    Conflict {
        /// Position in the statement: rows to insert first, then rows to delete.
        row: usize,
        /// The version that was expected; 0 for none.
        expected: u64,
        /// The version that is there; 0 for none.
        found: u64,
    },
    /// The table's columns changed while the statement was on its way. Plan it again.
    #[error("table `{table}` was altered meanwhile; try again")]
    SchemaChanged {
        /// The table's name.
        table: String,
    },
    /// There is a table of this name.
    #[error("table `{table}` exists in this store")]
    TableExists {
        /// The table's name.
        table: String,
    },
    /// There is no such table, or it was dropped.
    #[error("table `{table}` does not exist in this store")]
    NoTable {
        /// The table's name.
        table: String,
    },
    /// The request cannot be carried out as it is.
    #[error("{reason}")]
    Invalid {
        /// The fault of the request, and the remedy.
        reason: String,
    },
    /// A column that allows no null was to get one.
    #[error("rows for table `{table}` have a null in column `{column}`, which allows none")]
    NullValue {
        /// Name of the table.
        table: String,
        /// Name of the column.
        column: String,
    },
    /// The changes after this LSN are no longer kept, or the LSN is of a change that was lost in a power cut. Copy the
    /// table, then follow from its LSN.
    #[error(
        "changes after LSN {after} are not kept, or it has not come yet; the oldest are after {oldest}: read the table anew"
    )]
    ChangesGone {
        /// The requested LSN.
        after: u64,
        /// The lowest LSN that can be requested.
        oldest: u64,
    },
    /// The store was closed.
    #[error("store `{}` is closed", folder.display())]
    Closed {
        /// The store's folder.
        folder: PathBuf,
    },
}

impl OplogError {
    pub(crate) fn invalid(reason: impl Into<String>) -> Self {
        Self::Invalid { reason: reason.into() }
    }

    pub(crate) fn damaged(file: &Path, offset: u64, reason: impl Into<String>) -> Self {
        Self::Damaged(Damage { file: file.to_owned(), offset, reason: reason.into(), rows: None })
    }

    /// Whether the disk had no space left.
    pub fn is_full(&self) -> bool {
        match self {
            Self::Io { source, .. } => {
                matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
            }
            Self::DiskFull { .. } => true,
            _ => false,
        }
    }

    /// The damage, if the error is one.
    pub fn damage(&self) -> Option<&Damage> {
        match self {
            Self::Damaged(damage) => Some(damage),
            _ => None,
        }
    }
}
