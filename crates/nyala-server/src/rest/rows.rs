//! `POST /api/v1/tables/{table}/rows`.

use std::time::Duration;

use axum::Json;
use axum::body::{Body, BodyDataStream};
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use futures::StreamExt;
use nyala_engine::Ingested;
use serde::{Deserialize, Serialize};

use super::compressed;
use crate::http::{ApiError, Caller, Shared};
use crate::rows::{Dialect, Load, LoadRequest, Loaded, Reject, RowFormat};

/// Formats by their media types.
const FORMATS: [&str; 4] = [
    "text/csv",
    "application/x-ndjson",
    "application/vnd.apache.arrow.stream",
    "application/vnd.apache.parquet",
];

/// Most bytes that are read after a failure, the longest time for them, and the longest wait for the next ones.
const MAX_REST_BYTES: usize = 64 << 20;
const MAX_REST: Duration = Duration::from_secs(10);
const MAX_PAUSE: Duration = Duration::from_millis(500);

/// The query parameters of the request.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadOptions {
    /// Most rows that may be left out because they cannot be read.
    #[serde(default)]
    max_rejects: u64,
    /// A load with this label is done only once.
    label: Option<String>,
}

/// The result of a load.
#[derive(Debug, Serialize)]
pub struct LoadAnswer {
    rows: u64,
    rejected: u64,
    /// LSN of its last statement.
    lsn: Option<u64>,
    /// Whether an earlier load of the same label wrote the rows, so that this one wrote none.
    applied_before: bool,
    /// The first rejected rows.
    rejects: Vec<Reject>,
}

/// Loads the rows in the body, which is read as it comes.
pub async fn load(
    State(shared): State<Shared>,
    Caller(owner): Caller,
    Path(table): Path<String>,
    options: Result<Query<LoadOptions>, axum::extract::rejection::QueryRejection>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<LoadAnswer>, ApiError> {
    let Query(options) = options.map_err(|rejection| {
        ApiError::new(StatusCode::BAD_REQUEST, "invalid_request", rejection.body_text())
            .hint("there are `max_rejects`, a number of rows, and `label`, under which a load is done once")
    })?;
    let format = format_of(&headers, shared.max_body_bytes)?;
    let session = shared.engine.session(owner);
    let whole = options.label.is_some();
    let request = LoadRequest {
        text: text_of(&table, options.label.as_deref()),
        table,
        columns: Vec::new(),
        decoder: format.decoder(),
        max_rejects: options.max_rejects,
        label: options.label,
        at_once: false,
    };
    let mut bytes = body.into_data_stream();
    let load = match Load::begin(session, request).await {
        Ok(load) => load,
        Err(error) => {
            // A client with `Expect: 100-continue` waits to be told to send, and is not told so for rows that are refused.
            if !headers.contains_key(header::EXPECT) {
                read_rest(&mut bytes).await;
            }
            return Err(error.into());
        }
    };
    match written(load, whole, &mut bytes).await {
        Ok(Loaded { done, rejects }) => {
            let Ingested { rows, rejected, lsn, before } = done;
            Ok(Json(LoadAnswer { rows, rejected, lsn, applied_before: before, rejects }))
        }
        Err(error) => {
            read_rest(&mut bytes).await;
            Err(error)
        }
    }
}

/// Writes the rows in the body. `whole` tells whether all are written or none.
async fn written(mut load: Load, whole: bool, bytes: &mut BodyDataStream) -> Result<Loaded, ApiError> {
    while let Some(piece) = load.client(bytes.next()).await? {
        let piece = piece.map_err(|error| {
            compressed::unreadable(&error).hint(match whole {
                true => "no row was written; load all again",
                false => "rows before may have been written; load all again, which replaces them",
            })
        })?;
        load.push(&piece).await?;
    }
    Ok(load.finish().await?)
}

/// Reads the rest of the body of a load that has failed. If the server closed the connection while the client still sends, the connection
/// would be reset, and many clients would report that and not the answer.
async fn read_rest(bytes: &mut BodyDataStream) {
    let read = async {
        let mut left = MAX_REST_BYTES;
        while let Ok(Some(Ok(piece))) = tokio::time::timeout(MAX_PAUSE, bytes.next()).await {
            match left.checked_sub(piece.len()) {
                Some(fewer) => left = fewer,
                None => break,
            }
        }
    };
    // A client that takes longer gets its answer all the same.
    tokio::time::timeout(MAX_REST, read).await.unwrap_or_default();
}

/// The text that the load is listed under.
fn text_of(table: &str, label: Option<&str>) -> String {
    let label = label.map(|label| format!("?label={label}")).unwrap_or_default();
    format!("POST /api/v1/tables/{table}/rows{label}")
}

fn format_of(headers: &HeaderMap, limit_bytes: usize) -> Result<RowFormat, ApiError> {
    let given = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media_type = given.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match media_type.as_str() {
        "text/csv" => Ok(RowFormat::Text(Dialect::csv())),
        "application/x-ndjson" | "application/ndjson" | "application/jsonl" => Ok(RowFormat::NdJson),
        "application/vnd.apache.arrow.stream" => Ok(RowFormat::Arrow),
        "application/vnd.apache.parquet" => Ok(RowFormat::Parquet { limit_bytes }),
        _ => {
            let message = format!("rows cannot be read from `{given}`");
            Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message)
                .hint(format!("send a Content-Type of {}", FORMATS.join(", "))))
        }
    }
}
