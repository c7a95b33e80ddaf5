//! Whether a cuboid's file is the one that the catalog records.

use datafusion::common::DataFusionError;
use nyala_model::CuboidFile;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use parquet::file::metadata::ParquetMetaDataReader;

use super::bounds::check_footer;
use crate::error::QueryError;

/// Length of the footer's length and of the magic number after it, in bytes.
const TAIL_BYTES: u64 = 8;
const MAGIC: &[u8] = b"PAR1";

/// What is wrong with a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FileProblem {
    /// It cannot be read as Parquet, or at all.
    Unreadable(String),
    /// It is whole, but another one than was written.
    Differs(String),
}

/// Compares size and rows of `file` in `folder` with what is recorded. Reads the footer, past every cache.
pub(crate) async fn check_file(
    store: &dyn ObjectStore,
    folder: &str,
    file: &CuboidFile,
) -> Result<(), FileProblem> {
    let path = Path::from(format!("{folder}{}", file.name));
    let unreadable = |reason: String| FileProblem::Unreadable(format!("file `{path}`: {reason}"));
    let of_store =
        |error: object_store::Error| unreadable(QueryError::from(DataFusionError::from(error)).to_string());
    let bytes = store.head(&path).await.map_err(of_store)?.size;
    if bytes != file.bytes {
        let what = format!("file `{path}` has {bytes} bytes, but {} were written", file.bytes);
        return Err(FileProblem::Differs(what));
    }
    let no_parquet = || unreadable("it does not end as Parquet files do".to_owned());
    let tail_from = bytes.checked_sub(TAIL_BYTES).ok_or_else(no_parquet)?;
    let tail = store.get_range(&path, tail_from..bytes).await.map_err(of_store)?;
    let (length, magic) = tail.split_first_chunk::<4>().ok_or_else(no_parquet)?;
    let footer_from = tail_from.checked_sub(u32::from_le_bytes(*length).into()).ok_or_else(no_parquet)?;
    if magic != MAGIC {
        return Err(no_parquet());
    }
    let footer = store.get_range(&path, footer_from..tail_from).await.map_err(of_store)?;
    check_footer(&footer).map_err(|damage| unreadable(damage.to_string()))?;
    let metadata =
        ParquetMetaDataReader::decode_metadata(&footer).map_err(|error| unreadable(error.to_string()))?;
    let rows = u64::try_from(metadata.file_metadata().num_rows()).unwrap_or_default();
    if rows != file.rows {
        let what = format!("file `{path}` has {rows} rows, but {} were written", file.rows);
        return Err(FileProblem::Differs(what));
    }
    Ok(())
}
