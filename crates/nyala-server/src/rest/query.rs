//! `POST /api/v1/query`.

use std::time::Instant;

use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use nyala_engine::{Answer, QueryError, Session, Statement, Text};

use super::body;
use super::formats::Format;
use super::request::{QueryRequest, require_json, unreadable_body};
use crate::http::{ApiError, Caller, Shared};

/// Answers one statement in a session of its own.
///
/// When the client goes away this future or the body it returned is dropped, and the query with it.
pub async fn query(
    State(shared): State<Shared>,
    Caller(options): Caller,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, ApiError> {
    let started = Instant::now();
    let format = requested_format(&headers)?;
    require_json(&headers)?;
    let body = body.map_err(|rejection| unreadable_body(&rejection, shared.max_body_bytes))?;
    let request = QueryRequest::parse(&body)?;
    let session = shared.engine.session(options);
    for setting in request.settings() {
        let (name, value) = setting?;
        session.set(name, &value)?;
    }
    let parameters = request.parameters()?;
    let answer = execute(&session, &request.sql, parameters).await?;
    respond(answer, format, started).await
}

async fn execute(
    session: &Session,
    sql: &str,
    parameters: Vec<datafusion::common::ScalarValue>,
) -> Result<Answer, ApiError> {
    let prepared = match session.read(sql)? {
        Text::Ready(prepared) => prepared,
        Text::Statements(statements) => session.prepare(only(statements)?).await?,
    };
    let (needed, given) = (prepared.parameter_types().len(), parameters.len());
    if needed != given {
        let message = format!("the statement has {needed} parameters, but {given} were given");
        return Err(ApiError::new(StatusCode::BAD_REQUEST, "invalid_parameter", message));
    }
    Ok(session.execute(&prepared, parameters).await?)
}

fn only(statements: Vec<Statement>) -> Result<Statement, ApiError> {
    let mut statements = statements.into_iter();
    match (statements.next(), statements.next()) {
        (Some(statement), None) => Ok(statement),
        _ => {
            let message = "`sql` must hold exactly one statement";
            Err(ApiError::new(StatusCode::BAD_REQUEST, "invalid_request", message)
                .hint("send one request for each statement"))
        }
    }
}

pub async fn respond(answer: Answer, format: Format, started: Instant) -> Result<Response, ApiError> {
    let body: Result<_, QueryError> = match answer {
        Answer::Rows(rows) => body::of_rows(rows, format, started).await,
        Answer::Done(done) => body::of_completion(done.tag, done.rows, format, started),
    };
    let content_type = HeaderValue::from_static(format.media_type());
    // Results are of one moment, and may be large.
    let headers =
        [(header::CONTENT_TYPE, content_type), (header::CACHE_CONTROL, HeaderValue::from_static("no-store"))];
    Ok((headers, body?).into_response())
}

pub fn requested_format(headers: &HeaderMap) -> Result<Format, ApiError> {
    let accept = text(headers, header::ACCEPT);
    Format::negotiate(accept).ok_or_else(|| {
        let known: Vec<_> =
            Format::ALL.iter().filter_map(|format| format.media_type().split(';').next()).collect();
        let message = format!("none of `{}` can be written", accept.unwrap_or_default());
        ApiError::new(StatusCode::NOT_ACCEPTABLE, "not_acceptable", message)
            .hint(format!("accept one of {}", known.join(", ")))
    })
}

fn text(headers: &HeaderMap, name: header::HeaderName) -> Option<&str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}
