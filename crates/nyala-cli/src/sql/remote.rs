//! Runs statements on a server, over the PostgreSQL protocol.

use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use arrow::array::{ArrayRef, StringArray};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use futures::StreamExt;
use futures::stream::{self, Fuse};
use nyala_client::report::Hinted;
use nyala_client::tls::{Mode, PostgresServer, hint};
use tokio_postgres::types::Type;
use tokio_postgres::{CancelToken, SimpleQueryMessage, SimpleQueryRow, SimpleQueryStream};

use super::client::{Outcome, Rows};

/// Rows gathered into one batch.
const BATCH_ROWS: usize = 1024;

/// The library's error text for unexpected messages. It has no error code for them.
const NOT_UNDERSTOOD: &str = "unexpected message from server";

/// A connection to a server.
pub struct Remote {
    server: PostgresServer,
    client: tokio_postgres::Client,
    cancel: CancelToken,
}

impl Remote {
    /// Connects to `postgres://host:port/database`.
    pub async fn connect(url: &str, ca: Option<&Path>) -> Result<Self> {
        let server = PostgresServer::parse(url, ca, Mode::Prefer, "nyala sql")?;
        let (client, connection) = server
            .connect()
            .await
            .map_err(explain)
            .with_context(|| format!("cannot connect to `{}`", server.place()))?;
        tokio::spawn(async move {
            // The waiting call only learns that the connection is closed, so the cause is logged here.
            if let Err(error) = connection.await {
                tracing::warn!(%error, "the connection to the server broke");
            }
        });
        let cancel = client.cancel_token();
        Ok(Self { server, client, cancel })
    }

    /// Runs one statement. Its columns are asked for first, because the results that follow are texts.
    pub async fn run(&self, statement: &str) -> Result<Outcome> {
        let prepared = self.client.prepare(statement).await.map_err(explain)?;
        let fields: Vec<Field> = prepared
            .columns()
            .iter()
            .map(|column| Field::new(column.name(), data_type(column.type_(), column.type_modifier()), true))
            .collect();
        let mut messages = self.send(statement).await?;
        if fields.is_empty() {
            return done(&mut messages, statement).await;
        }
        let schema = Arc::new(Schema::new(fields));
        let batches =
            stream::try_unfold((messages, Arc::clone(&schema)), |(mut messages, schema)| async move {
                let batch = next_batch(&mut messages, &schema).await?;
                Ok(batch.map(|batch| (batch, (messages, schema))))
            });
        Ok(Outcome::Rows(Rows { schema, batches: batches.boxed() }))
    }

    async fn send(&self, statement: &str) -> Result<Messages> {
        let stream = self.client.simple_query_raw(statement).await.map_err(explain)?;
        let (server, cancel) = (self.server.clone(), self.cancel.clone());
        Ok(Messages { stream: Box::pin(stream.fuse()), server, cancel, ended: false })
    }

    /// Asks the server to cancel the running statement.
    pub async fn cancel(&self) {
        if let Err(error) = self.server.cancel(&self.cancel).await {
            tracing::warn!(%error, "cannot cancel the statement");
        }
    }
}

/// The messages of a running statement. Dropping them early cancels the statement: otherwise the server would go on
/// sending unwanted rows, and the next statement would wait for them.
struct Messages {
    /// Fused, because the stream itself reports a closed connection when it is read beyond its end.
    stream: Pin<Box<Fuse<SimpleQueryStream>>>,
    server: PostgresServer,
    cancel: CancelToken,
    ended: bool,
}

impl Messages {
    async fn next(&mut self) -> Result<Option<SimpleQueryMessage>> {
        let message = self.stream.next().await.transpose();
        self.ended = match &message {
            Ok(message) => message.is_none(),
            // The end of the statement, or of the connection. After an unexpected message the statement runs until it is
            // cancelled: a server that waits for the rows of COPY would wait for ever.
            Err(error) => error.as_db_error().is_some() || error.is_closed(),
        };
        message.map_err(explain)
    }
}

impl Drop for Messages {
    fn drop(&mut self) {
        if !self.ended {
            let (server, cancel) = (self.server.clone(), self.cancel.clone());
            tokio::spawn(async move { server.cancel(&cancel).await });
        }
    }
}

/// Reads to the end of a statement without rows. The protocol gives no more than a count, so that the
/// first words of the statement stand for the command tag.
async fn done(messages: &mut Messages, statement: &str) -> Result<Outcome> {
    let mut rows = None;
    while let Some(message) = messages.next().await? {
        if let SimpleQueryMessage::CommandComplete(count) = message {
            rows = Some(count).filter(|count| *count > 0);
        }
    }
    let words: Vec<_> = statement.split_whitespace().take(2).map(str::to_uppercase).collect();
    let tag = match words.first().map(String::as_str) {
        Some("CREATE" | "DROP" | "BUILD") => words.join(" "),
        Some(word) => word.to_owned(),
        None => String::new(),
    };
    Ok(Outcome::Done { tag, rows })
}

async fn next_batch(messages: &mut Messages, schema: &SchemaRef) -> Result<Option<RecordBatch>> {
    let mut rows = Vec::with_capacity(BATCH_ROWS);
    while rows.len() < BATCH_ROWS {
        match messages.next().await? {
            Some(SimpleQueryMessage::Row(row)) => rows.push(row),
            Some(_) => {}
            None => break,
        }
    }
    if rows.is_empty() { Ok(None) } else { batch(schema, &rows).map(Some) }
}

/// Texts as columns of the announced types. A text that is not of its type is an error: showing null
/// instead would be a wrong answer.
fn batch(schema: &SchemaRef, rows: &[SimpleQueryRow]) -> Result<RecordBatch> {
    let strict = CastOptions { safe: false, ..CastOptions::default() };
    let column = |(position, field): (usize, &Arc<Field>)| -> Result<ArrayRef> {
        let texts: Vec<Option<&str>> =
            rows.iter().map(|row| row.try_get(position)).collect::<Result<_, _>>().map_err(explain)?;
        let texts: ArrayRef = Arc::new(StringArray::from(texts));
        cast_with_options(&texts, field.data_type(), &strict)
            .with_context(|| format!("column `{}` is not of its type", field.name()))
    };
    let columns = schema.fields().iter().enumerate().map(column).collect::<Result<_>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}

/// Types with texts that JSON writes without quotes; all others stay texts.
fn data_type(wire: &Type, modifier: i32) -> DataType {
    match *wire {
        Type::BOOL => DataType::Boolean,
        Type::INT2 | Type::INT4 | Type::INT8 => DataType::Int64,
        Type::FLOAT4 => DataType::Float32,
        Type::FLOAT8 => DataType::Float64,
        Type::NUMERIC => numeric(modifier).unwrap_or(DataType::Utf8),
        _ => DataType::Utf8,
    }
}

/// The type that a modifier of `numeric` stands for: precision and scale, offset by 4. Without one the
/// scale may differ by row, and text is the exact form.
fn numeric(modifier: i32) -> Option<DataType> {
    let modifier = modifier.checked_sub(4).filter(|modifier| *modifier >= 0)?;
    let precision = u8::try_from(modifier >> 16).ok().filter(|precision| (1..=38).contains(precision))?;
    let scale = i8::try_from(modifier & 0x7ff).ok()?;
    Some(DataType::Decimal128(precision, scale))
}

/// The server's message and hint, or the error of the connection.
fn explain(error: tokio_postgres::Error) -> anyhow::Error {
    match error.as_db_error() {
        Some(db) => match db.hint() {
            Some(hint) => Hinted::error(db.message(), hint),
            None => anyhow!("{}", db.message()),
        },
        None if error.is_closed() => {
            Hinted::error("the server closed the connection", "start `nyala sql` again")
        }
        None if error.to_string() == NOT_UNDERSTOOD => Hinted::error(
            "the server answers with something else than rows",
            "COPY with STDIN or STDOUT is for a PostgreSQL client, such as psql's \\copy",
        ),
        None => match hint(&error) {
            Some(hint) => Hinted::error(format!("{:#}", anyhow!(error)), hint),
            None => anyhow!(error),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_whose_json_is_bare_are_known() {
        assert_eq!(data_type(&Type::INT4, -1), DataType::Int64);
        assert_eq!(data_type(&Type::TIMESTAMP, -1), DataType::Utf8);
        assert_eq!(data_type(&Type::NUMERIC, -1), DataType::Utf8);
        assert_eq!(data_type(&Type::NUMERIC, ((10 << 16) | 2) + 4), DataType::Decimal128(10, 2));
        assert_eq!(data_type(&Type::NUMERIC, ((500 << 16) | 2) + 4), DataType::Utf8);
    }
}
