//! Why a backup cannot be made or used.

use std::io;
use std::path::PathBuf;

pub(super) type Result<T, E = BackupError> = std::result::Result<T, E>;

/// Why a backup cannot be made or used; the message names the file.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The operating system reported an error.
    #[error("cannot use `{}`: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The folder has contents.
    #[error("folder `{}` is not empty; choose one that is empty or missing", path.display())]
    NotEmpty {
        /// The folder.
        path: PathBuf,
    },
    /// The manifest is missing or damaged.
    #[error("`{}` is no whole backup: {reason}", path.display())]
    NoBackup {
        /// The folder.
        path: PathBuf,
        /// The defect.
        reason: String,
    },
    /// A file differs from the saved one.
    #[error("file `{}` of the backup is damaged: {reason}; take another backup", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The difference.
        reason: String,
    },
}
