//! `GET /api/v1/tables/{table}/changes`: changes of a live table as server-sent events.
//!
//! Each row is one event: its type is the operation, its data the row as JSON. A statement's last event has the LSN
//! as its id, and no other has one. So a client that was cut off within a statement still has the id of the one
//! before: when it goes on with the header `Last-Event-ID`, as browsers do by themselves, it gets the statement
//! from its beginning. For the first statement the stream begins with an id alone, which clients keep and do not
//! take for an event.
//!
//! Source: HTML standard, "Server-sent events", interpretation of an event stream.

use std::convert::Infallible;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::UInt64Type;
use arrow::error::ArrowError;
use arrow::json::WriterBuilder;
use arrow::json::writer::LineDelimited;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use futures::{Stream, StreamExt, stream};
use nyala_engine::{Follower, QueryError};
use serde::Deserialize;

use crate::http::{ApiError, Caller, Shared};

/// The query parameters of the request.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FollowOptions {
    /// Changes after this LSN; without it, changes from now on.
    after: Option<u64>,
}

/// Sends changes until the client goes away or the server stops.
pub async fn follow(
    State(shared): State<Shared>,
    Caller(owner): Caller,
    Path(table): Path<String>,
    options: Result<Query<FollowOptions>, QueryRejection>,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, ApiError> {
    let Query(options) = options.map_err(|rejection| {
        ApiError::new(StatusCode::BAD_REQUEST, "invalid_request", rejection.body_text())
            .hint("there is `after`, an LSN")
    })?;
    let last_seen = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse().ok());
    let session = shared.engine.session(owner);
    let follower = session.follow(&table, last_seen.or(options.after)).await?;
    let begin = follower.lsn().map(|lsn| Ok(Event::default().id(lsn.to_string())));
    let events = stream::unfold(Some(follower), |follower| async {
        let mut follower: Follower = follower?;
        match follower.next().await {
            Ok(Some(batches)) => match events(&batches) {
                Ok(events) => Some((events, Some(follower))),
                Err(error) => Some((vec![failure(&error.into())], None)),
            },
            Ok(None) => None,
            Err(error) => Some((vec![failure(&error)], None)),
        }
    });
    let events = events.flat_map(|events| stream::iter(events.into_iter().map(Ok)));
    Ok(Sse::new(stream::iter(begin).chain(events)).keep_alive(KeepAlive::default()))
}

/// The last event, if the stream fails.
fn failure(error: &QueryError) -> Event {
    // A line break would begin another field of the event.
    Event::default().event("error").data(error.to_string().replace(['\r', '\n'], " "))
}

/// Events of whole statements: a follower never gives a part of one.
fn events(batches: &[RecordBatch]) -> Result<Vec<Event>, ArrowError> {
    let mut all = Vec::new();
    for (at, batch) in batches.iter().enumerate() {
        rows_of(batch, &mut all)?;
        let lsn = lsn_of(batch);
        // Deleted rows and written rows of a statement are two batches.
        let ends = batches.get(at + 1).is_none_or(|next| lsn_of(next) != lsn);
        if let Some(lsn) = lsn.filter(|_| ends)
            && let Some(last) = all.pop()
        {
            all.push(last.id(lsn.to_string()));
        }
    }
    Ok(all)
}

/// The LSN of a batch, which all its rows have; none without rows.
fn lsn_of(batch: &RecordBatch) -> Option<u64> {
    batch.column(0).as_primitive::<UInt64Type>().values().first().copied()
}

/// An event for each row, without an id.
fn rows_of(batch: &RecordBatch, events: &mut Vec<Event>) -> Result<(), ArrowError> {
    let operations = batch.column(1).as_string::<i32>();
    let columns: Vec<usize> = (2..batch.num_columns()).collect();
    let mut writer = WriterBuilder::new().build::<_, LineDelimited>(Vec::new());
    writer.write(&batch.project(&columns)?)?;
    writer.finish()?;
    let text =
        String::from_utf8(writer.into_inner()).map_err(|error| ArrowError::JsonError(error.to_string()))?;
    let rows = text.lines().zip(operations.iter());
    events
        .extend(rows.map(|(row, operation)| Event::default().event(operation.unwrap_or_default()).data(row)));
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, StringArray, UInt64Array};
    use axum::body::to_bytes;
    use axum::response::IntoResponse;

    use super::*;

    /// A batch of `rows` rows that one statement wrote or deleted.
    fn batch(lsn: u64, operation: &str, rows: usize) -> RecordBatch {
        let columns: [(&str, ArrayRef); 3] = [
            ("_lsn", Arc::new(UInt64Array::from(vec![lsn; rows]))),
            ("_op", Arc::new(StringArray::from(vec![operation; rows]))),
            ("n", Arc::new(Int64Array::from_iter_values(0..rows as i64))),
        ];
        RecordBatch::try_from_iter(columns).unwrap()
    }

    /// Type and id of each event.
    async fn sent(batches: &[RecordBatch]) -> Vec<(String, Option<String>)> {
        let events = events(batches).unwrap().into_iter().map(Ok::<_, Infallible>);
        let body = Sse::new(stream::iter(events)).into_response().into_body();
        let text = String::from_utf8(to_bytes(body, 1 << 20).await.unwrap().to_vec()).unwrap();
        let of = |event: &str, name: &str| {
            event.lines().find_map(|line| line.strip_prefix(name)).map(|value| value.trim().to_owned())
        };
        let events = text.split("\n\n").filter(|event| !event.is_empty());
        events.map(|event| (of(event, "event:").unwrap(), of(event, "id:"))).collect()
    }

    #[tokio::test]
    async fn only_the_last_event_of_a_statement_has_its_lsn_as_id() {
        let all = [
            batch(17, "upsert", 3),
            batch(18, "delete", 2),
            batch(18, "upsert", 1),
            batch(21, "truncate", 1),
            batch(22, "upsert", 2),
        ];
        let expected = [
            ("upsert", None),
            ("upsert", None),
            ("upsert", Some("17")),
            ("delete", None),
            ("delete", None),
            ("upsert", Some("18")),
            ("truncate", Some("21")),
            ("upsert", None),
            ("upsert", Some("22")),
        ];
        let expected = expected.map(|(kind, id)| (kind.to_owned(), id.map(str::to_owned)));
        assert_eq!(sent(&all).await, expected);
    }
}
