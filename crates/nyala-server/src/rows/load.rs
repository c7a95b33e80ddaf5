//! One load, from its first byte to its last row.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::array::timezone::Tz;
use arrow::datatypes::SchemaRef;
use futures::FutureExt;
use futures::future::BoxFuture;
use nyala_engine::{ErrorKind, Ingest, Ingested, Loading, QueryError, Session};

use super::arrow::ArrowStream;
use super::dialect::Dialect;
use super::ndjson::NdJson;
use super::parquet_file::ParquetFile;
use super::rejects::{Reject, Rejects};
use super::texts::Texts;

/// Bytes are gathered up to here before they are decoded.
const CHUNK_BYTES: usize = 512 << 10;

/// The format of the bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowFormat {
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

impl RowFormat {
    /// The decoder of this format.
    pub fn decoder(&self) -> Box<dyn Decode> {
        match self {
            Self::Text(dialect) => Box::new(Texts::new(dialect.clone())),
            Self::NdJson => Box::<NdJson>::default(),
            Self::Arrow => Box::<ArrowStream>::default(),
            Self::Parquet { limit_bytes } => Box::new(ParquetFile::new(*limit_bytes)),
        }
    }
}

/// Decodes bytes of one format into rows.
pub trait Decode: Send {
    /// Takes bytes, and gives the rows that are whole by now, or some of them: called without bytes until it gives nothing, because
    /// few bytes can hold many rows, which must not be in memory all at once.
    fn decode(
        &mut self,
        bytes: &[u8],
        target: &mut Target,
        rejects: &mut Rejects,
    ) -> Result<Vec<RecordBatch>, QueryError>;

    /// Gives the remaining rows after the last byte, or some of them: called until it gives nothing.
    fn finish(&mut self, target: &mut Target, rejects: &mut Rejects) -> Result<Vec<RecordBatch>, QueryError>;
}

/// The table that rows are written to, known before their columns are.
pub struct Target {
    table: Table,
    /// Columns that the statement names.
    named: Vec<String>,
    label: Option<String>,
    at_once: bool,
    ingest: Option<Ingest>,
}

/// Where the columns of rows come from.
enum Table {
    Live {
        session: Arc<Session>,
        name: String,
    },
    /// A table of a test of decoders, which needs no engine.
    #[cfg(test)]
    MadeUp(SchemaRef),
}

impl Target {
    /// A made-up table of these columns.
    #[cfg(test)]
    pub(crate) fn made_up(schema: SchemaRef) -> Self {
        Self { table: Table::MadeUp(schema), named: Vec::new(), label: None, at_once: false, ingest: None }
    }

    /// The columns of the table for rows with columns of these names. Without names they are the statement's columns, or all. Decoders ask for
    /// every batch, always with the same names.
    pub(crate) fn columns(&mut self, names: &[String]) -> Result<SchemaRef, QueryError> {
        #[cfg(test)]
        if let Table::MadeUp(schema) = &self.table {
            return made_up_columns(schema, names);
        }
        let ingest = match self.ingest.take() {
            Some(ingest) => ingest,
            // The statement's list of columns counts, if there is one: then a header is only skipped.
            None if !self.named.is_empty() => self.begin(&self.named)?,
            None => self.begin(names)?,
        };
        let schema = Arc::clone(ingest.schema());
        self.ingest = Some(ingest);
        Ok(schema)
    }

    /// The zone of the session.
    pub(crate) fn zone(&self) -> Option<Tz> {
        match &self.table {
            Table::Live { session, .. } => session.setting("timezone")?.parse().ok(),
            #[cfg(test)]
            Table::MadeUp(_) => None,
        }
    }

    fn begin(&self, columns: &[String]) -> Result<Ingest, QueryError> {
        match &self.table {
            Table::Live { session, name } => {
                session.ingest(name, columns, self.label.as_deref(), self.at_once)
            }
            #[cfg(test)]
            Table::MadeUp(_) => Err(QueryError::internal("a table that is made up takes no rows")),
        }
    }
}

#[cfg(test)]
fn made_up_columns(schema: &SchemaRef, names: &[String]) -> Result<SchemaRef, QueryError> {
    let all: Vec<String> = schema.fields().iter().map(|field| field.name().clone()).collect();
    let names = if names.is_empty() { &all } else { names };
    let indices = names.iter().map(|name| schema.index_of(name)).collect::<Result<Vec<_>, _>>()?;
    Ok(Arc::new(schema.project(&indices)?))
}

/// The request for a load.
pub struct LoadRequest {
    /// The text that the load is listed under while it runs.
    pub text: String,
    /// The table: `name` or `schema.name`.
    pub table: String,
    /// The columns of the rows; if empty, those of the header, or all.
    pub columns: Vec<String>,
    /// Decodes the bytes.
    pub decoder: Box<dyn Decode>,
    /// Most rows that may be left out because they cannot be read.
    pub max_rejects: u64,
    /// A load with this label is done only once.
    pub label: Option<String>,
    /// Whether the load is one statement, so that all rows are written or none. A load with a label always is.
    pub at_once: bool,
}

/// The result of a load.
#[derive(Debug)]
pub struct Loaded {
    /// Counts of rows, and the LSN at which they were written.
    pub done: Ingested,
    /// The first rows that were left out.
    pub rejects: Vec<Reject>,
}

/// A load into one table.
pub struct Load {
    loading: Loading,
    parts: Option<Parts>,
    gathered: Vec<u8>,
    /// Number of columns of the rows, unless they have a header.
    width: usize,
    /// The result of an earlier load with the same label. Then the bytes are skipped.
    known: Option<Ingested>,
}

/// The state of decoding, which moves to a blocking thread and back.
struct Parts {
    decoder: Box<dyn Decode>,
    target: Target,
    rejects: Rejects,
}

impl Load {
    /// Begins a load.
    pub fn begin(
        session: Arc<Session>,
        request: LoadRequest,
    ) -> BoxFuture<'static, Result<Self, QueryError>> {
        async move {
            let LoadRequest { text, table, columns: named, decoder, max_rejects, label, at_once } = request;
            let mut loading = session.begin_load(text)?;
            let at_once = at_once || label.is_some();
            let table = Table::Live { session, name: table };
            let target = Target { table, named, label, at_once, ingest: None };
            // A load without the needed privileges is refused before a row is read.
            let begun = loading.within(async {
                let mut ingest = target.begin(&target.named)?;
                Ok((ingest.schema().fields().len(), ingest.known().await?))
            });
            let (width, known) = begun.await?;
            let parts = Parts { decoder, target, rejects: Rejects::at_most(max_rejects, at_once) };
            Ok(Self { loading, parts: Some(parts), gathered: Vec::new(), width, known })
        }
        .boxed()
    }

    /// Number of columns that rows have, unless their format names them.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Whether a load with its label was done before.
    pub fn is_known(&self) -> bool {
        self.known.is_some()
    }

    /// Waits for the client's next message, unless the load must end before.
    pub async fn client<T>(&mut self, next: impl Future<Output = T>) -> Result<T, QueryError> {
        self.loading.client(next).await
    }

    /// Takes bytes; waits while too many rows are on their way to the table.
    pub fn push<'a>(&'a mut self, bytes: &'a [u8]) -> BoxFuture<'a, Result<(), QueryError>> {
        async move {
            if self.known.is_some() {
                return Ok(());
            }
            self.gathered.extend_from_slice(bytes);
            if self.gathered.len() < CHUNK_BYTES {
                return Ok(());
            }
            let chunk = std::mem::take(&mut self.gathered);
            self.decode(chunk).await
        }
        .boxed()
    }

    /// Writes the remaining rows, and waits until all rows are as durable as the table asks for.
    pub fn finish(mut self) -> BoxFuture<'static, Result<Loaded, QueryError>> {
        async move {
            if let Some(done) = self.known {
                self.loading.finish();
                return Ok(Loaded { done, rejects: Vec::new() });
            }
            let chunk = std::mem::take(&mut self.gathered);
            self.decode(chunk).await?;
            while self.work(|parts| parts.decoder.finish(&mut parts.target, &mut parts.rejects)).await? > 0 {}
            let Some(Parts { mut target, rejects, .. }) = self.parts.take() else {
                return Err(QueryError::internal("a load was lost"));
            };
            let mut shown = rejects.shown;
            let deadline = self.loading.deadline();
            let done = self.loading.within(async {
                let ingest = match target.ingest.take() {
                    Some(ingest) => ingest,
                    // No rows came, and the label must be recorded all the same.
                    None => target.begin(&target.named)?,
                };
                ingest.finish(rejects.count, &deadline).await
            });
            let done = done.await?;
            self.loading.finish();
            shown.sort_by_key(|reject| reject.line);
            Ok(Loaded { done, rejects: if done.before { Vec::new() } else { shown } })
        }
        .boxed()
    }

    /// Decodes bytes, and hands over their rows part by part.
    async fn decode(&mut self, chunk: Vec<u8>) -> Result<(), QueryError> {
        let first =
            self.work(move |parts| parts.decoder.decode(&chunk, &mut parts.target, &mut parts.rejects));
        let mut batches = first.await?;
        while batches > 0 {
            let more = self.work(|parts| parts.decoder.decode(&[], &mut parts.target, &mut parts.rejects));
            batches = more.await?;
        }
        Ok(())
    }

    /// Decodes on a thread that serves no network, then hands over the rows. Gives the number of batches.
    async fn work(
        &mut self,
        decode: impl FnOnce(&mut Parts) -> Result<Vec<RecordBatch>, QueryError> + Send + 'static,
    ) -> Result<usize, QueryError> {
        let mut parts = self.parts.take().ok_or_else(|| QueryError::internal("a load was lost"))?;
        let work = tokio::task::spawn_blocking(move || {
            let batches = caught(|| decode(&mut parts));
            (parts, batches)
        });
        let pushed = self.loading.within(async {
            let (mut parts, batches) = work.await.map_err(QueryError::internal)?;
            let batches = batches?;
            let (count, mut rows) = (batches.len(), 0);
            for batch in batches {
                if let Some(ingest) = &mut parts.target.ingest {
                    rows += batch.num_rows();
                    ingest.push(batch).await?;
                }
            }
            Ok((parts, rows, count))
        });
        let (parts, rows, count) = pushed.await?;
        self.loading.add_rows(rows);
        self.parts = Some(parts);
        Ok(count)
    }
}

/// Turns a panic of a library into an error, because the checks before it may let a case pass that it does not expect.
pub fn caught<T>(decode: impl FnOnce() -> Result<T, QueryError>) -> Result<T, QueryError> {
    catch_unwind(AssertUnwindSafe(decode)).unwrap_or_else(|_| {
        let message = "the body cannot be decoded: it is damaged, or of another format";
        Err(QueryError::new(ErrorKind::Data, message)
            .hint("check how it was written, and report it if other programs read it"))
    })
}
