//! One part becomes one Parquet file.
//!
//! ```text
//! blocking thread: part ─▶ ArrowWriter ─▶ ChunkSink ══ 2 chunks ══▶ BufWriter ─▶ store   (this task)
//! ```
//!
//! The channel between them bounds memory: a slow store makes the thread wait. When either
//! side fails or the task is dropped, the other notices at its next chunk and ends.

use std::io::{self, Write};
use std::sync::Arc;

use anyhow::Context as _;
use arrow::datatypes::SchemaRef;
use object_store::ObjectStore;
use object_store::buffered::BufWriter;
use object_store::path::Path;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use tokio::io::AsyncWriteExt as _;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::plan::Part;
use super::progress::Progress;

/// Rows of a row group. A little more than a file's smallest size, so that such a file has one.
const ROW_GROUP_ROWS: usize = 1 << 20;
/// Bytes handed over at a time, which is also the size of an upload's parts.
const CHUNK_BYTES: usize = 8 << 20;
/// Upload parts of one file that are on their way at the same time.
const UPLOADS_PER_FILE: usize = 2;

/// Size of a file that was written.
pub struct Written {
    /// Rows in the file.
    pub rows: u64,
    /// Length of the file in bytes.
    pub bytes: u64,
}

/// Generates `part` and writes it to `path`. The file appears when it is complete, or not at all.
pub async fn write_part(
    store: Arc<dyn ObjectStore>,
    path: Path,
    schema: SchemaRef,
    part: Part,
    progress: Progress,
) -> anyhow::Result<Written> {
    let (sender, chunks) = mpsc::channel(2);
    let encoder = tokio::task::spawn_blocking(move || encode(schema, part, sender, &progress));
    let mut upload =
        BufWriter::with_capacity(store, path.clone(), CHUNK_BYTES).with_max_concurrency(UPLOADS_PER_FILE);
    match pass_on(chunks, encoder, &mut upload).await {
        Ok(written) => {
            upload.shutdown().await.with_context(|| format!("cannot finish `{path}`"))?;
            Ok(written)
        }
        Err(error) => {
            // The first error is the one to report, whether or not the store forgets the upload.
            upload.abort().await.ok();
            Err(error.context(format!("cannot write `{path}`")))
        }
    }
}

/// Uploads the chunks until the encoder has ended, and well.
async fn pass_on(
    mut chunks: mpsc::Receiver<Vec<u8>>,
    encoder: JoinHandle<anyhow::Result<u64>>,
    upload: &mut BufWriter,
) -> anyhow::Result<Written> {
    let mut bytes = 0;
    while let Some(chunk) = chunks.recv().await {
        bytes += chunk.len() as u64;
        upload.put(chunk.into()).await?;
    }
    // The channel also closes when the encoder fails: only its result tells a whole file from a part.
    let rows = encoder.await.context("the encoder stopped").flatten()?;
    Ok(Written { rows, bytes })
}

/// Writes the part's batches through a Parquet encoder into the channel and counts the rows.
fn encode(
    schema: SchemaRef,
    part: Part,
    sender: mpsc::Sender<Vec<u8>>,
    progress: &Progress,
) -> anyhow::Result<u64> {
    let sink = ChunkSink { sender, chunk: Vec::new() };
    let mut writer = ArrowWriter::try_new_with_options(sink, schema, options()?)?;
    let mut rows = 0;
    for batch in (part.open)()? {
        let batch = batch?;
        writer.write(&batch)?;
        rows += batch.num_rows() as u64;
        progress.add(batch.num_rows() as u64);
    }
    writer.into_inner()?.finish()?;
    Ok(rows)
}

/// Every type used has a Parquet type of its own, so the Arrow schema is left out of the file.
fn options() -> anyhow::Result<ArrowWriterOptions> {
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
        .set_created_by(concat!("nyala ", env!("CARGO_PKG_VERSION")).to_owned())
        .build();
    Ok(ArrowWriterOptions::new().with_properties(properties).with_skip_arrow_metadata(true))
}

/// Collects bytes into chunks and sends them; waits while the channel is full.
struct ChunkSink {
    sender: mpsc::Sender<Vec<u8>>,
    chunk: Vec<u8>,
}

impl ChunkSink {
    fn send(&mut self) -> io::Result<()> {
        let chunk = std::mem::take(&mut self.chunk);
        self.sender.blocking_send(chunk).map_err(|_| io::Error::other("the upload stopped"))
    }

    /// Sends the last, partial chunk.
    fn finish(mut self) -> io::Result<()> {
        if self.chunk.is_empty() { Ok(()) } else { self.send() }
    }
}

impl Write for ChunkSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.chunk.extend_from_slice(bytes);
        if self.chunk.len() >= CHUNK_BYTES {
            self.send()?;
        }
        Ok(bytes.len())
    }

    /// Chunks are sent when they are full; a small one would only make a small upload.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
