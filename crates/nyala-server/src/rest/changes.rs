//! `GET /api/v1/tables/{table}/changes`: changes of a live table as server-sent events.
//!
//! Each row is one event: its type what was done, its id the LSN, its data the row as JSON. A client that was cut off goes
//! on with the header `Last-Event-ID`, as browsers do by themselves.

use std::convert::Infallible;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::UInt64Type;
use arrow::error::ArrowError;
use arrow::json::WriterBuilder;
use arrow::json::writer::LineDelimited;
use axum::Extension;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use futures::{Stream, StreamExt, stream};
use nyala_engine::{Follower, Identity, QueryError, SessionOptions};
use serde::Deserialize;

use super::query::user_of;
use super::{ApiError, Shared};

/// What the request may say besides.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FollowOptions {
    /// Changes after this LSN; without it, those that happen from now on.
    after: Option<u64>,
}

/// Sends changes until the client goes away or the server stops.
pub(super) async fn follow(
    State(shared): State<Shared>,
    Extension(identity): Extension<Identity>,
    Path(table): Path<String>,
    options: Result<Query<FollowOptions>, QueryRejection>,
    headers: HeaderMap,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, ApiError> {
    let Query(options) = options.map_err(|rejection| {
        ApiError::new(StatusCode::BAD_REQUEST, "invalid_request", rejection.body_text())
            .hint("there is `after`, an LSN")
    })?;
    let last_seen = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.parse().ok());
    let session = shared.engine.session(SessionOptions {
        user: user_of(&identity),
        application: "http".to_owned(),
        client: String::new(),
        identity,
    });
    let follower = session.follow(&table, last_seen.or(options.after)).await?;
    let events = stream::unfold(Some(follower), |follower| async {
        let mut follower: Follower = follower?;
        match follower.next().await {
            Ok(Some(batches)) => {
                let events = batches.iter().map(events).collect::<Result<Vec<_>, _>>();
                match events {
                    Ok(events) => Some((events.concat(), Some(follower))),
                    Err(error) => Some((vec![failure(&error.into())], None)),
                }
            }
            Ok(None) => None,
            Err(error) => Some((vec![failure(&error)], None)),
        }
    });
    let events = events.flat_map(|events| stream::iter(events.into_iter().map(Ok)));
    Ok(Sse::new(events).keep_alive(KeepAlive::default()))
}

/// The last event, if it goes wrong.
fn failure(error: &QueryError) -> Event {
    // A line break would begin another field of the event.
    Event::default().event("error").data(error.to_string().replace(['\r', '\n'], " "))
}

fn events(batch: &RecordBatch) -> Result<Vec<Event>, ArrowError> {
    let (lsns, operations) =
        (batch.column(0).as_primitive::<UInt64Type>(), batch.column(1).as_string::<i32>());
    let columns: Vec<usize> = (2..batch.num_columns()).collect();
    let mut writer = WriterBuilder::new().build::<_, LineDelimited>(Vec::new());
    writer.write(&batch.project(&columns)?)?;
    writer.finish()?;
    let text =
        String::from_utf8(writer.into_inner()).map_err(|error| ArrowError::JsonError(error.to_string()))?;
    let rows = text.lines().zip(lsns.iter()).zip(operations.iter());
    let event = |((row, lsn), operation): ((&str, Option<u64>), Option<&str>)| {
        let event = Event::default().event(operation.unwrap_or_default()).data(row);
        event.id(lsn.unwrap_or_default().to_string())
    };
    Ok(rows.map(event).collect())
}
