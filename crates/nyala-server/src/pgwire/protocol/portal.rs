//! Prepared statements, portals, and the rows that flow out of them.
//!
//! ```text
//! Parse ──▶ Stored (plan, parameter types) ──Bind──▶ Portal ──Execute──▶ Rows ──▶ RowWriter ──▶ client
//! ```

use std::sync::Arc;
use std::time::SystemTime;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::ScalarValue;
use futures::{FutureExt, StreamExt};
use nyala_engine::{Prepared, RowStream};
use pgwire::api::Type;

use super::stream::{Input, Output};
use crate::pgwire::commands::command::Command;
use crate::pgwire::commands::cursors::StoredRows;
use crate::pgwire::errors::{Failure, Stop};
use crate::pgwire::values::encode::{RowWriter, WriteRows};
use crate::route::route_of;

/// Rows encoded between two looks at the socket. Small, so that the first rows leave early and a
/// client that went away is noticed.
const CHUNK_ROWS: usize = 512;

/// The plan of a text.
#[derive(Debug, Clone)]
pub enum Plan {
    /// The text holds no statement.
    Empty,
    /// A statement of the engine, with the tag for its rows.
    Engine(Box<Prepared>, RowsTag),
    /// A command that the door runs itself.
    Command(Box<Command>),
}

impl Plan {
    /// The plan of a query of the engine.
    pub fn query(prepared: Prepared) -> Self {
        Self::Engine(Box::new(prepared), RowsTag::Counted("SELECT"))
    }

    /// The statement of the engine, if the plan is one.
    pub fn prepared(&self) -> Option<&Prepared> {
        match self {
            Self::Engine(prepared, _) => Some(prepared),
            Self::Empty | Self::Command(_) => None,
        }
    }
}

/// A prepared statement.
#[derive(Debug)]
pub struct Stored {
    pub plan: Plan,
    /// Types that the client is told, and that its values are read as.
    pub parameter_types: Vec<Type>,
    /// When the statement was prepared, in microseconds since 1970.
    pub begun_us: i64,
}

impl Stored {
    /// A statement that is prepared now.
    pub fn new(plan: Plan, parameter_types: Vec<Type>) -> Self {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let begun_us = i64::try_from(since.as_micros()).unwrap_or(i64::MAX);
        Self { plan, parameter_types, begun_us }
    }
}

/// A prepared statement with everything needed to run it.
pub struct Bound {
    pub stored: Arc<Stored>,
    pub parameters: Vec<ScalarValue>,
    pub formats: Vec<i16>,
    /// Whether a description goes before its rows, as in the simple protocol.
    pub described_on_run: bool,
}

/// A bound statement, maybe with rows on their way.
pub struct Portal {
    pub bound: Arc<Bound>,
    /// Whether the portal outlives its transaction, if that is committed.
    pub hold: bool,
    /// Whether the portal may go to any row.
    pub scroll: bool,
    /// Whether the portal has outlived its transaction. A later rollback does not close it.
    pub kept: bool,
    pub progress: Progress,
}

/// The state of a portal.
pub enum Progress {
    /// The portal has not run.
    New,
    /// The portal has run, and rows may be left.
    Running(Box<Rows>),
    /// The portal has run, and all its rows are in memory.
    Stored(Box<StoredRows>),
    /// All rows were sent; another Execute gives none.
    Finished,
}

impl Portal {
    /// A portal that has not run.
    pub fn new(bound: Bound) -> Self {
        Self { bound: Arc::new(bound), hold: false, scroll: false, kept: false, progress: Progress::New }
    }
}

impl Bound {
    /// A statement of the extended protocol: its client asks for descriptions itself.
    pub fn new(stored: Arc<Stored>, parameters: Vec<ScalarValue>, formats: Vec<i16>) -> Self {
        Self { stored, parameters, formats, described_on_run: false }
    }
}

/// The form of the tag behind a result's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowsTag {
    /// The tag has the number of rows: `SELECT n`, `FETCH n`.
    Counted(&'static str),
    /// The tag is a word alone: `SHOW`, `EXPLAIN`.
    Plain(&'static str),
}

impl RowsTag {
    /// The tag of a statement that gives rows, by its first word.
    pub fn of(sql: &str) -> Self {
        let word: String = sql.trim_start().chars().take_while(char::is_ascii_alphabetic).collect();
        match word.to_ascii_uppercase().as_str() {
            "EXPLAIN" => Self::Plain("EXPLAIN"),
            "SHOW" => Self::Plain("SHOW"),
            "DESCRIBE" | "DESC" => Self::Plain("DESCRIBE"),
            // An INSERT with RETURNING. The 0 was once the object id of a row.
            "INSERT" => Self::Counted("INSERT 0"),
            "UPDATE" => Self::Counted("UPDATE"),
            "DELETE" => Self::Counted("DELETE"),
            _ => Self::Counted("SELECT"),
        }
    }

    /// The text of CommandComplete.
    pub fn text(self, rows: usize) -> String {
        match self {
            Self::Counted(word) => format!("{word} {rows}"),
            Self::Plain(word) => word.to_owned(),
        }
    }
}

/// Rows of one result, taken as the client wants them.
pub struct Rows {
    pub schema: SchemaRef,
    pub tag: RowsTag,
    /// Writes the rows; none until it is needed.
    pub writer: Option<RowWriter>,
    /// The rows still to be computed; none if all of them are in memory.
    stream: Option<RowStream>,
    /// The remaining rows of the current batch.
    rest: Option<RecordBatch>,
}

impl Rows {
    /// The engine's rows.
    pub fn stream(rows: RowStream, tag: RowsTag) -> Self {
        Self { schema: rows.schema(), tag, writer: None, stream: Some(rows), rest: None }
    }

    /// Rows that are in memory.
    pub fn ready(batch: RecordBatch, tag: RowsTag) -> Self {
        Self { schema: batch.schema(), tag, writer: None, stream: None, rest: Some(batch) }
    }

    /// How the rows were computed; none if the door made them.
    pub fn route(&self) -> Option<serde_json::Value> {
        self.stream.as_ref().map(|stream| route_of(&stream.profile()))
    }

    /// Sends rows until there are no more, or `limit` have been sent. Gives how many were sent, and
    /// whether more may follow.
    ///
    /// Waits while the client does not read, unless the statement must end: nothing is gathered but one packet.
    pub async fn send(
        &mut self,
        writer: &mut impl WriteRows,
        limit: Option<usize>,
        input: &mut Input,
        output: &mut Output,
    ) -> Result<(usize, bool), Stop> {
        let mut sent = 0;
        loop {
            let wanted = limit.map_or(CHUNK_ROWS, |limit| CHUNK_ROWS.min(limit - sent));
            if wanted == 0 {
                return Ok((sent, true));
            }
            let Some(chunk) = self.chunk(wanted, input, output).await? else {
                return Ok((sent, false));
            };
            writer.write(&chunk, output.buffer())?;
            sent += chunk.num_rows();
            if output.is_full() {
                unless_ended(self.stream.as_mut(), output.flush()).await?;
            }
        }
    }

    /// The next rows, at most `wanted`.
    async fn chunk(
        &mut self,
        wanted: usize,
        input: &mut Input,
        output: &mut Output,
    ) -> Result<Option<RecordBatch>, Stop> {
        loop {
            if let Some(batch) = self.rest.take().filter(|batch| batch.num_rows() > 0) {
                if batch.num_rows() <= wanted {
                    return Ok(Some(batch));
                }
                self.rest = Some(batch.slice(wanted, batch.num_rows() - wanted));
                return Ok(Some(batch.slice(0, wanted)));
            }
            match self.next_batch(input, output).await? {
                Some(batch) => self.rest = Some(batch),
                None => return Ok(None),
            }
        }
    }

    /// Waits for the engine and watches the socket. Rows sent so far leave first if it takes long.
    async fn next_batch(
        &mut self,
        input: &mut Input,
        output: &mut Output,
    ) -> Result<Option<RecordBatch>, Stop> {
        let Some(stream) = &mut self.stream else { return Ok(None) };
        if let Some(ready) = stream.next().now_or_never() {
            return Ok(ready.transpose()?);
        }
        unless_ended(Some(stream), output.flush()).await?;
        tokio::select! {
            biased;
            batch = stream.next() => Ok(batch.transpose()?),
            () = input.gone() => Err(Stop::Gone),
        }
    }
}

/// Waits for a client to read, but no longer than the statement may go on. Buffered output leaves before the error.
async fn unless_ended(
    stream: Option<&mut RowStream>,
    written: impl Future<Output = Result<(), Stop>>,
) -> Result<(), Stop> {
    let Some(stream) = stream else { return written.await };
    tokio::select! {
        biased;
        done = written => done,
        error = stream.must_end() => Err(error.into()),
    }
}

/// Runs `work` unless the client goes away meanwhile.
pub async fn attended<T, E: Into<Stop>>(
    input: &mut Input,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, Stop> {
    tokio::select! {
        biased;
        result = work => result.map_err(Into::into),
        () = input.gone() => Err(Stop::Gone),
    }
}

/// No such prepared statement.
pub fn unknown_statement(name: &str) -> Failure {
    let failure = |message| Failure::error(crate::pgwire::errors::sqlstate::INVALID_STATEMENT_NAME, message);
    match name {
        "" => failure("unnamed prepared statement does not exist".to_owned()),
        name => failure(format!("prepared statement `{name}` does not exist")),
    }
}

/// No such portal or cursor.
pub fn unknown_portal(name: &str) -> Failure {
    Failure::error(
        crate::pgwire::errors::sqlstate::INVALID_CURSOR_NAME,
        format!("portal `{name}` does not exist"),
    )
    .hint("portals and cursors end with their transaction")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_follow_the_first_word() {
        let check = |sql, text: &str| assert_eq!(RowsTag::of(sql).text(3), text);
        check("SELECT 1", "SELECT 3");
        check(" with x as (select 1) select * from x", "SELECT 3");
        check("(SELECT 1)", "SELECT 3");
        check("VALUES (1)", "SELECT 3");
        check("explain SELECT 1", "EXPLAIN");
        check("SHOW CUBES", "SHOW");
        check("INSERT INTO t VALUES (1) RETURNING a", "INSERT 0 3");
        check("update t SET a = 1 RETURNING a", "UPDATE 3");
    }
}
