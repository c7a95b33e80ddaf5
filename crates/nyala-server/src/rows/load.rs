//! One load, from its first byte to its last row.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use nyala_engine::{Ingest, QueryError, Session};

use super::columnar::{ArrowStream, ParquetFile};
use super::dialect::Dialect;
use super::ndjson::NdJson;
use super::rejects::{Reject, Rejects};
use super::texts::Texts;

/// Bytes are gathered up to here before they are decoded.
const CHUNK_BYTES: usize = 512 << 10;

/// What the bytes are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RowFormat {
    /// CSV, or the text format of COPY.
    Text(Dialect),
    /// One JSON object a line.
    NdJson,
    /// An Arrow IPC stream.
    Arrow,
    /// A Parquet file of this size at most.
    Parquet {
        /// In bytes.
        limit_bytes: usize,
    },
}

/// Bytes of one format to rows.
pub(super) trait Decode: Send {
    /// Takes bytes, and gives the rows that are whole by now.
    fn decode(
        &mut self,
        bytes: &[u8],
        target: &mut Target,
        rejects: &mut Rejects,
    ) -> Result<Vec<RecordBatch>, QueryError>;

    /// Gives what is left when there are no more bytes.
    fn finish(&mut self, target: &mut Target, rejects: &mut Rejects) -> Result<Vec<RecordBatch>, QueryError>;
}

/// Where the rows go, which is known before their columns are.
pub(super) struct Target {
    session: Arc<Session>,
    table: String,
    /// Columns that the statement names.
    named: Vec<String>,
    ingest: Option<Ingest>,
}

impl Target {
    /// The rows have columns of these names, or if there are none, those of the statement, or all. Said again for every
    /// batch, and the same each time.
    pub(super) fn columns(&mut self, names: &[String]) -> Result<SchemaRef, QueryError> {
        let ingest = match self.ingest.take() {
            Some(ingest) => ingest,
            // The statement's list counts, where there is one: a header is only passed over then.
            None if !self.named.is_empty() => self.session.ingest(&self.table, &self.named)?,
            None => self.session.ingest(&self.table, names)?,
        };
        let schema = Arc::clone(ingest.schema());
        self.ingest = Some(ingest);
        Ok(schema)
    }
}

/// What a load did.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// Rows that were written.
    pub(crate) rows: u64,
    /// Rows that were left out.
    pub(crate) rejected: u64,
    /// The first of them.
    pub(crate) rejects: Vec<Reject>,
}

/// A load into one table.
pub(crate) struct Load {
    parts: Option<Parts>,
    gathered: Vec<u8>,
}

/// What decodes, moved to a thread that may compute.
struct Parts {
    decoder: Box<dyn Decode>,
    target: Target,
    rejects: Rejects,
}

impl Load {
    /// Begins a load into `table`. At most so many rows may be left out because they cannot be read.
    pub(crate) fn begin(
        session: Arc<Session>,
        table: String,
        named: Vec<String>,
        format: &RowFormat,
        most_rejects: u64,
    ) -> Result<Self, QueryError> {
        // Also what may not be done is found out before a row is read.
        session.ingest(&table, &named)?;
        let decoder: Box<dyn Decode> = match format {
            RowFormat::Text(dialect) => Box::new(Texts::new(dialect.clone())),
            RowFormat::NdJson => Box::<NdJson>::default(),
            RowFormat::Arrow => Box::<ArrowStream>::default(),
            RowFormat::Parquet { limit_bytes } => Box::new(ParquetFile::new(*limit_bytes)),
        };
        let target = Target { session, table, named, ingest: None };
        let parts = Parts { decoder, target, rejects: Rejects::at_most(most_rejects) };
        Ok(Self { parts: Some(parts), gathered: Vec::new() })
    }

    /// Takes bytes; waits while too many rows are on their way.
    pub(crate) async fn push(&mut self, bytes: &[u8]) -> Result<(), QueryError> {
        self.gathered.extend_from_slice(bytes);
        if self.gathered.len() < CHUNK_BYTES {
            return Ok(());
        }
        let chunk = std::mem::take(&mut self.gathered);
        self.work(move |parts| parts.decoder.decode(&chunk, &mut parts.target, &mut parts.rejects)).await
    }

    /// Writes what is left and waits until all of it is as durable as the table wants it.
    pub(crate) async fn finish(mut self) -> Result<Loaded, QueryError> {
        let chunk = std::mem::take(&mut self.gathered);
        self.work(move |parts| {
            let mut batches = parts.decoder.decode(&chunk, &mut parts.target, &mut parts.rejects)?;
            batches.extend(parts.decoder.finish(&mut parts.target, &mut parts.rejects)?);
            Ok(batches)
        })
        .await?;
        let Some(Parts { target, rejects, .. }) = self.parts.take() else {
            return Err(QueryError::internal("a load was lost"));
        };
        let rows = match target.ingest {
            Some(ingest) => ingest.finish().await?,
            None => 0,
        };
        Ok(Loaded { rows, rejected: rejects.count, rejects: rejects.shown })
    }

    /// Decodes on a thread that serves no network, then hands over the rows.
    async fn work(
        &mut self,
        decode: impl FnOnce(&mut Parts) -> Result<Vec<RecordBatch>, QueryError> + Send + 'static,
    ) -> Result<(), QueryError> {
        let mut parts = self.parts.take().ok_or_else(|| QueryError::internal("a load was lost"))?;
        let work = tokio::task::spawn_blocking(move || {
            let batches = decode(&mut parts);
            (parts, batches)
        });
        let (mut parts, batches) = work.await.map_err(QueryError::internal)?;
        for batch in batches? {
            if let Some(ingest) = &mut parts.target.ingest {
                ingest.push(batch).await?;
            }
        }
        self.parts = Some(parts);
        Ok(())
    }
}
