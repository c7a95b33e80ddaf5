//! Turns a stream of batches into a response body that is complete or visibly broken.
//!
//! The status line leaves only when the first [`AHEAD_BYTES`] are encoded or the result has ended, so
//! that an error early in a query has its proper status. A later error aborts the connection: a short
//! body that looks whole would be a wrong answer. The rest is pulled as the client reads; dropping the
//! body drops the query.

use std::time::Instant;

use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use futures::{StreamExt, stream};
use nyala_engine::{ErrorKind, QueryError, RowStream, hide_values};

use super::formats::{Encode, Format, Summary};
use crate::http::ApiError;
use crate::route::route_of;

/// How much of a result is encoded before the status line is sent.
const AHEAD_BYTES: usize = 64 << 10;

/// Options of an answer.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wanted {
    /// Most rows of the answer.
    pub max_rows: Option<u64>,
    /// Whether the answer tells how it was computed.
    pub route: bool,
}

impl Wanted {
    /// Fails if the format has no place for the options: only a document of JSON has an end with further fields.
    pub fn check(self, format: Format) -> Result<(), ApiError> {
        let field = if self.route { "route" } else { "max_rows" };
        if format == Format::Json || !(self.route || self.max_rows.is_some()) {
            return Ok(());
        }
        let message = format!("`{field}` needs an answer of `application/json`");
        Err(ApiError::new(StatusCode::BAD_REQUEST, "invalid_request", message).hint(
            "leave it out, write LIMIT, or ask `GET /api/v1/queries/{id}` for the number in `x-nyala-query`",
        ))
    }
}

/// The body of a statement that gives rows.
pub async fn of_rows(
    rows: RowStream,
    format: Format,
    wanted: Wanted,
    started: Instant,
) -> Result<Body, QueryError> {
    let encoder = format.encoder(rows.schema()).map_err(not_encodable)?;
    let mut producer = Producer {
        rows,
        batch: None,
        encoder,
        rows_per_chunk: format.rows_per_chunk(),
        started,
        row_count: 0,
        wanted,
        stage: Stage::Head,
    };
    let mut first = Vec::new();
    while first.len() < AHEAD_BYTES {
        match producer.next_chunk().await? {
            Some(chunk) => first.extend_from_slice(&chunk),
            None => return Ok(Body::from(first)),
        }
    }
    let rest = stream::try_unfold(producer, |mut producer| async move {
        match producer.next_chunk().await {
            Ok(chunk) => Ok(chunk.map(|chunk| (Bytes::from(chunk), producer))),
            Err(error) => {
                tracing::warn!(
                    error = hide_values(&error.message),
                    rows = producer.row_count,
                    "query failed while its result was being sent"
                );
                Err(error)
            }
        }
    });
    let first = stream::once(async move { Ok::<_, QueryError>(Bytes::from(first)) });
    Ok(Body::from_stream(first.chain(rest)))
}

/// The body of a statement that gives no rows.
pub fn of_completion(
    tag: String,
    rows: Option<u64>,
    format: Format,
    started: Instant,
) -> Result<Body, QueryError> {
    let schema = std::sync::Arc::new(arrow::datatypes::Schema::empty());
    let rows = rows.unwrap_or(0);
    let summary = Summary { rows, elapsed: started.elapsed(), tag: Some(tag), ..Summary::default() };
    let mut out = Vec::new();
    let write = || {
        let mut encoder = format.encoder(schema)?;
        // A CSV header without columns would be an empty line, which reads as one row.
        if format != Format::Csv {
            encoder.head(&mut out)?;
        }
        encoder.tail(&summary, &mut out)
    };
    write().map_err(not_encodable)?;
    Ok(Body::from(out))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Head,
    Rows,
    Done,
}

struct Producer {
    rows: RowStream,
    /// The batch being written, and its first row that is not written yet.
    batch: Option<(RecordBatch, usize)>,
    encoder: Box<dyn Encode>,
    rows_per_chunk: usize,
    started: Instant,
    row_count: u64,
    wanted: Wanted,
    stage: Stage,
}

impl Producer {
    /// The next bytes; none after the last.
    async fn next_chunk(&mut self) -> Result<Option<Vec<u8>>, QueryError> {
        let mut out = Vec::new();
        match self.stage {
            Stage::Head => {
                self.encoder.head(&mut out).map_err(not_encodable)?;
                self.stage = Stage::Rows;
            }
            Stage::Rows => match self.next_rows().await? {
                Some(rows) => self.encoder.rows(&rows, &mut out).map_err(not_encodable)?,
                None => {
                    let summary = self.summary();
                    self.encoder.tail(&summary, &mut out).map_err(not_encodable)?;
                    self.stage = Stage::Done;
                }
            },
            Stage::Done => return Ok(None),
        }
        Ok(Some(out))
    }

    /// The facts that the end of the answer tells.
    fn summary(&mut self) -> Summary {
        // If a row beyond the wanted ones was computed, there are more.
        let more = self.wanted.max_rows.map(|_| self.batch.is_some());
        if self.batch.take().is_some() {
            self.rows.enough();
        }
        let route = self.wanted.route.then(|| route_of(&self.rows.profile()));
        Summary { rows: self.row_count, elapsed: self.started.elapsed(), tag: None, more, route }
    }

    /// The next rows, as many as are encoded at one go; none if there are no more or no more are wanted.
    async fn next_rows(&mut self) -> Result<Option<RecordBatch>, QueryError> {
        let (batch, start) = match self.batch.take() {
            Some(pending) => pending,
            None => match self.rows.next().await.transpose()? {
                Some(batch) => (batch, 0),
                None => return Ok(None),
            },
        };
        let left = batch.num_rows().saturating_sub(start);
        let wanted = self.wanted.max_rows.map_or(u64::MAX, |most| most.saturating_sub(self.row_count));
        let count = left.min(self.rows_per_chunk).min(usize::try_from(wanted).unwrap_or(usize::MAX));
        if count == 0 && left > 0 {
            self.batch = Some((batch, start));
            return Ok(None);
        }
        self.row_count = self.row_count.saturating_add(count as u64);
        let rows = batch.slice(start, count);
        if count < left {
            self.batch = Some((batch, start + count));
        }
        Ok(Some(rows))
    }
}

/// The error for a value or type that the format cannot hold.
fn not_encodable(error: ArrowError) -> QueryError {
    let message = format!("the result cannot be written in this format: {error}");
    QueryError::new(ErrorKind::Data, message)
        .hint("cast the column to text, or ask for `application/vnd.apache.arrow.stream`")
}
