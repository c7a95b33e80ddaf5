//! `GET /debug/flamegraph` and `GET /debug/heap`: profiles of CPU time and memory. For superusers.

use std::time::{Duration, Instant};

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use nyala_engine::{ErrorKind, Identity, QueryError, SessionOptions};
use nyala_model::access::is_superuser;
use serde::Deserialize;

use crate::http::{ApiError, Caller, Shared};
use crate::profile::{CpuRequest, Format, Profile, ProfileError, cpu, heap};

/// Longest profile: while one is taken, no other can be.
const MAX_SECONDS: u32 = 60;
/// Most samples a second: a profile with more would mostly see itself.
const MAX_FREQUENCY: u32 = 999;

/// The query parameters of a CPU profile.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CpuOptions {
    #[serde(default = "default_seconds")]
    seconds: u32,
    #[serde(default = "default_frequency")]
    frequency: u32,
    #[serde(default)]
    format: Format,
}

fn default_seconds() -> u32 {
    10
}

/// Not 100, so that samples do not keep step with events at round intervals.
fn default_frequency() -> u32 {
    99
}

/// The query parameters of a heap profile.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeapOptions {
    #[serde(default)]
    format: Format,
}

/// Watches the process for some seconds. It ends when the client goes away.
pub async fn flamegraph(
    State(shared): State<Shared>,
    Caller(SessionOptions { identity, .. }): Caller,
    options: Result<Query<CpuOptions>, QueryRejection>,
) -> Result<Response, ApiError> {
    require_superuser(&shared, &identity)?;
    let Query(options) = options.map_err(|rejection| {
        invalid(&rejection.body_text(), "there are `seconds`, `frequency` and `format`: svg, folded or pprof")
    })?;
    within("seconds", options.seconds, MAX_SECONDS)?;
    within("frequency", options.frequency, MAX_FREQUENCY)?;
    let duration = Duration::from_secs(options.seconds.into());
    tracing::info!(?identity, ?duration, frequency = options.frequency, "taking a CPU profile");
    let profile = cpu(CpuRequest { duration, frequency: options.frequency }).await.map_err(refusal)?;
    Ok(respond(options.format, &profile, &format!("CPU time in {} s", options.seconds)))
}

/// Gives a profile of the memory in use.
pub async fn memory(
    State(shared): State<Shared>,
    Caller(SessionOptions { identity, .. }): Caller,
    options: Result<Query<HeapOptions>, QueryRejection>,
) -> Result<Response, ApiError> {
    require_superuser(&shared, &identity)?;
    let Query(options) = options
        .map_err(|rejection| invalid(&rejection.body_text(), "there is `format`: svg, folded or pprof"))?;
    let started = Instant::now();
    let profile = heap().await.map_err(refusal)?;
    tracing::info!(?identity, elapsed = ?started.elapsed(), "took a heap profile");
    Ok(respond(options.format, &profile, "memory in use"))
}

fn require_superuser(shared: &Shared, identity: &Identity) -> Result<(), ApiError> {
    match identity {
        Identity::Role(role) if !is_superuser(&shared.engine.catalog().snapshot().roles, role) => {
            let message = "profiles of the server are for superusers only";
            let error = QueryError::new(ErrorKind::PermissionDenied, message);
            Err(error.hint("ask a superuser for one").into())
        }
        _ => Ok(()),
    }
}

fn within(name: &str, value: u32, most: u32) -> Result<(), ApiError> {
    if (1..=most).contains(&value) {
        return Ok(());
    }
    Err(invalid(&format!("`{name}` must be from 1 to {most}, not {value}"), "leave it out for the default"))
}

fn invalid(message: &str, hint: &str) -> ApiError {
    ApiError::new(StatusCode::BAD_REQUEST, "invalid_request", message).hint(hint)
}

fn refusal(error: ProfileError) -> ApiError {
    let message = error.to_string();
    match error {
        ProfileError::Busy => {
            ApiError::new(StatusCode::CONFLICT, "in_use", message).hint("try again when it is done")
        }
        ProfileError::Unavailable { hint, .. } => {
            ApiError::new(StatusCode::NOT_IMPLEMENTED, "unsupported", message).hint(hint)
        }
        ProfileError::Failed(_) => {
            tracing::error!(error = %message, "no profile");
            ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message)
        }
    }
}

fn respond(format: Format, profile: &Profile, title: &str) -> Response {
    let (media_type, body) = format.write(profile, title);
    ([(header::CONTENT_TYPE, media_type), (header::CACHE_CONTROL, "no-store")], body).into_response()
}
