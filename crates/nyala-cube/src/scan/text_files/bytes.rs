//! The bytes of a text file, or of a part of it that begins and ends with lines.

use std::fs::File;
use std::io::Read;
use std::sync::Arc;

use bytes::Bytes;
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::error::{DataFusionError, Result};
use datafusion_datasource::boundary_stream::AlignedBoundaryStream;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt, stream};
use nyala_sql::error::QueryError;
use object_store::path::Path;
use object_store::{GetOptions, GetResultPayload, ObjectStore};

/// Bytes of a local file that are read at a time.
const CHUNK_BYTES: u64 = 1 << 20;

/// Bytes of a file as they are read.
pub type ByteStream = BoxStream<'static, Result<Bytes>>;

/// All of a file, decompressed.
pub async fn whole(
    store: &Arc<dyn ObjectStore>,
    path: &Path,
    compression: FileCompressionType,
) -> Result<ByteStream> {
    let bytes = match store.get_opts(path, GetOptions::default()).await?.payload {
        GetResultPayload::File(file, _) => stream::iter(chunks(file)).boxed(),
        GetResultPayload::Stream(bytes) => bytes.map_err(DataFusionError::from).boxed(),
    };
    compression.convert_stream(bytes)
}

/// The file, or the lines that begin in its range.
pub async fn part(
    store: &Arc<dyn ObjectStore>,
    file: &PartitionedFile,
    compression: FileCompressionType,
) -> Result<ByteStream> {
    let path = &file.object_meta.location;
    let Some(range) = &file.range else { return whole(store, path, compression).await };
    let byte = |position: i64| u64::try_from(position).map_err(QueryError::internal);
    let (start, end) = (byte(range.start)?, byte(range.end)?);
    let size = file.object_meta.size;
    let lines = AlignedBoundaryStream::new(Arc::clone(store), path.clone(), start, end, size, b'\n').await?;
    Ok(lines.map_err(DataFusionError::from).boxed())
}

/// Whether a part begins with the file.
pub fn is_first(file: &PartitionedFile) -> bool {
    file.range.as_ref().is_none_or(|range| range.start == 0)
}

fn chunks(mut file: File) -> impl Iterator<Item = Result<Bytes>> {
    let mut over = false;
    std::iter::from_fn(move || {
        if over {
            return None;
        }
        let mut chunk = Vec::new();
        match file.by_ref().take(CHUNK_BYTES).read_to_end(&mut chunk) {
            Ok(0) => None,
            Ok(_) => Some(Ok(chunk.into())),
            Err(error) => {
                over = true;
                Some(Err(error.into()))
            }
        }
    })
}

/// An error with the name of the file before it.
pub fn of_file(path: &Path, error: impl Into<QueryError>) -> DataFusionError {
    let error = error.into();
    let message = format!("cannot read file `{path}`: {}", error.message);
    QueryError { message, ..error }.into()
}
