//! `POST /api/v1/query`.

use std::time::Instant;

use axum::Extension;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use nyala_engine::{Answer, Identity, QueryError, Session, SessionOptions, Statement};

use super::formats::Format;
use super::request::{QueryRequest, require_json, unreadable_body};
use super::{ApiError, Peer, Shared, body};

/// Answers one statement in a session of its own.
///
/// When the client goes away this future or the body it returned is dropped, and the query with it.
pub(super) async fn query(
    State(shared): State<Shared>,
    ConnectInfo(Peer(peer)): ConnectInfo<Peer>,
    Extension(identity): Extension<Identity>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Result<Response, ApiError> {
    let started = Instant::now();
    let format = requested_format(&headers)?;
    require_json(&headers)?;
    let body = body.map_err(|rejection| unreadable_body(&rejection, shared.max_body_bytes))?;
    let request = QueryRequest::parse(&body)?;
    let session = shared.engine.session(SessionOptions {
        user: user_of(&identity),
        application: text(&headers, header::USER_AGENT).unwrap_or("http").to_owned(),
        client: peer.to_string(),
        identity,
    });
    for setting in request.settings() {
        let (name, value) = setting?;
        session.set(name, &value)?;
    }
    let parameters = request.parameters()?;
    let answer = execute(&session, &request.sql, parameters).await?;
    respond(answer, format, started).await
}

pub(super) fn user_of(identity: &Identity) -> String {
    match identity {
        Identity::Role(role) => role.clone(),
        Identity::Owner => String::new(),
    }
}

async fn execute(
    session: &Session,
    sql: &str,
    parameters: Vec<datafusion::common::ScalarValue>,
) -> Result<Answer, ApiError> {
    let prepared = match session.recall(sql) {
        Some(prepared) => prepared,
        None => session.prepare(parse_one(session, sql)?).await?,
    };
    let (needed, given) = (prepared.parameter_types().len(), parameters.len());
    if needed != given {
        let message = format!("the statement has {needed} parameters, but {given} were given");
        return Err(ApiError::new(StatusCode::BAD_REQUEST, "invalid_parameter", message));
    }
    Ok(session.execute(&prepared, parameters).await?)
}

fn parse_one(session: &Session, sql: &str) -> Result<Statement, ApiError> {
    let mut statements = session.parse(sql)?.into_iter();
    match (statements.next(), statements.next()) {
        (Some(statement), None) => Ok(statement),
        _ => {
            let message = "`sql` must hold exactly one statement";
            Err(ApiError::new(StatusCode::BAD_REQUEST, "invalid_request", message)
                .hint("send one request for each statement"))
        }
    }
}

pub(super) async fn respond(answer: Answer, format: Format, started: Instant) -> Result<Response, ApiError> {
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

pub(super) fn requested_format(headers: &HeaderMap) -> Result<Format, ApiError> {
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
