//! Damage in a file.

/// The error about a number in a Parquet file that cannot be right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the Parquet file is damaged: {0}")]
pub struct DamagedFile(pub &'static str);

impl From<DamagedFile> for parquet::errors::ParquetError {
    fn from(damage: DamagedFile) -> Self {
        Self::External(Box::new(damage))
    }
}
