//! Bulk loads: rows of Arrow into a live table, which is made if the client wants it.
//!
//! A load is one statement. It is given up if its client gives it up, as it does with a batch that is too large for it. A client may also
//! say how many rows it sends, and a load with another number is refused.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow_flight::sql::CommandStatementIngest;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use nyala_engine::{ErrorKind, QueryError, Session};
use tonic::Status;
use tonic::metadata::MetadataMap;

use super::command::Received;
use super::data::{columns_of, framed};
use super::error::{refused, status};
use super::load_target::Place;
use crate::rows::{ArrowStream, Decode, Load, LoadRequest, Rejects, Target};

/// The header with the label of a load: loads with one label are done once.
const LABEL: &str = "x-nyala-label";
/// The header with the number of rows that a load has.
const ROWS: &str = "x-nyala-rows";

/// The headers of a call that describe its load.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Promise {
    label: Option<String>,
    rows: Option<u64>,
}

impl Promise {
    /// Reads the headers.
    ///
    /// # Errors
    /// A header is not text, or the number of rows is not a number.
    pub fn of(headers: &MetadataMap) -> Result<Self, Status> {
        let text = |name: &'static str| {
            let value = headers.get(name).map(|value| value.to_str().map(str::to_owned));
            value.transpose().map_err(|_| Status::invalid_argument(format!("header `{name}` is no text")))
        };
        let rows = text(ROWS)?.map(|rows| {
            let number = rows.trim().parse::<u64>();
            number.map_err(|_| {
                Status::invalid_argument(format!("header `{ROWS}` is `{rows}`, and no number of rows"))
            })
        });
        Ok(Self { label: text(LABEL)?, rows: rows.transpose()? })
    }
}

/// Loads all rows of the messages, and gives their number.
pub fn ingest<'a>(
    session: &'a Arc<Session>,
    command: CommandStatementIngest,
    promise: Promise,
    mut messages: Received,
) -> BoxFuture<'a, Result<i64, Status>> {
    async move {
        let columns = columns_of(&mut messages).await?;
        let place = Place::of(session, command);
        let exists = refused(place.exists(session).await)?;
        // A load that is sent again must not find its own table in the way.
        if exists
            && promise.label.is_some()
            && !place.is_added_to()
            && let Ok(load) = begin(session, place.name(), &promise).await
            && load.is_known()
        {
            return take(load, &mut messages).await;
        }
        let ready = refused(place.ready(session, exists, &columns).await)?;
        let load = refused(begin(session, ready.name.clone(), &promise).await)?;
        let rows = take(load, &mut messages).await?;
        refused(ready.keep().await)?;
        Ok(rows)
    }
    .boxed()
}

fn begin(
    session: &Arc<Session>,
    table: String,
    promise: &Promise,
) -> BoxFuture<'static, Result<Load, QueryError>> {
    let request = LoadRequest {
        text: format!("load into {table} over Flight SQL"),
        table,
        columns: Vec::new(),
        decoder: Box::new(Counted { rows: ArrowStream::default(), seen: 0, expected: promise.rows }),
        max_rejects: 0,
        label: promise.label.clone(),
        at_once: true,
    };
    Load::begin(Arc::clone(session), request)
}

/// Takes all rows that the client sends, and writes them.
fn take<'a>(mut load: Load, messages: &'a mut Received) -> BoxFuture<'a, Result<i64, Status>> {
    async move {
        while let Some(data) = refused(load.client(messages.next()).await)? {
            // The client has gone, or its message was too large: dropping the load gives it up.
            for part in refused(framed(data?))?.into_iter().flatten() {
                refused(load.push(&part).await)?;
            }
        }
        let loaded = refused(load.finish().await)?;
        Ok(i64::try_from(loaded.done.rows).unwrap_or(i64::MAX))
    }
    .boxed()
}

/// Counts rows, and refuses a load that has not as many as its client said.
struct Counted {
    rows: ArrowStream,
    seen: u64,
    expected: Option<u64>,
}

impl Decode for Counted {
    fn decode(
        &mut self,
        bytes: &[u8],
        target: &mut Target,
        rejects: &mut Rejects,
    ) -> Result<Vec<RecordBatch>, QueryError> {
        let batches = self.rows.decode(bytes, target, rejects)?;
        self.seen += batches.iter().map(|batch| batch.num_rows() as u64).sum::<u64>();
        Ok(batches)
    }

    fn finish(&mut self, target: &mut Target, rejects: &mut Rejects) -> Result<Vec<RecordBatch>, QueryError> {
        let batches = self.rows.finish(target, rejects)?;
        match self.expected {
            Some(expected) if batches.is_empty() && expected != self.seen => {
                let message =
                    format!("{} rows came, but `{ROWS}` says {expected}; none was written", self.seen);
                Err(QueryError::new(ErrorKind::Data, message)
                    .hint("a batch may have been too large for the client: send smaller ones"))
            }
            _ => Ok(batches),
        }
    }
}

/// Refuses a load into another database than Nyala's only one.
pub fn check_catalog(catalog: Option<&str>) -> Result<(), Status> {
    match catalog {
        None | Some("" | super::metadata::DATABASE) => Ok(()),
        Some(other) => {
            let message = format!("there is no database `{other}`");
            Err(status(&QueryError::new(ErrorKind::UndefinedObject, message).hint("the only one is `nyala`")))
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn headers_promise_a_label_and_a_number() {
        let mut headers = MetadataMap::new();
        assert_eq!(Promise::of(&headers).unwrap(), Promise::default());
        headers.insert(LABEL, "monday".parse().unwrap());
        headers.insert(ROWS, "12".parse().unwrap());
        assert_eq!(
            Promise::of(&headers).unwrap(),
            Promise { label: Some("monday".to_owned()), rows: Some(12) }
        );
        headers.insert(ROWS, "many".parse().unwrap());
        assert!(Promise::of(&headers).unwrap_err().message().contains("`many`"));
    }
}
