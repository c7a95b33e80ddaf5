//! `POST /api/v1/query`.

use std::time::Instant;

use axum::body::Bytes;
use axum::extract::{ConnectInfo, FromRequest, Query, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use nyala_engine::{Answer, Prepared, QueryError, Session, Statement, Text};
use serde::Deserialize;

use super::body::{self, Wanted};
use super::compress::{Coding, with_coding};
use super::formats::Format;
use super::front::answered;
use super::request::{QueryRequest, require_json, unreadable_body};
use crate::http::{ApiError, Peer, Shared, caller};

/// The number of the statement on this node, for `GET` and `DELETE` of `/api/v1/queries/{id}`.
const QUERY: HeaderName = HeaderName::from_static("x-nyala-query");
/// How many rows a statement has changed: most formats have no place for it.
const ROWS_AFFECTED: HeaderName = HeaderName::from_static("x-nyala-rows-affected");

/// Answers `POST`: one statement in a session of its own.
///
/// When the client goes away this future or the body it returned is dropped, and the query with it.
pub async fn posted(
    State(shared): State<Shared>,
    ConnectInfo(Peer(peer)): ConnectInfo<Peer>,
    request: Request,
) -> Response {
    answered(&shared, peer, request, |request| async { query(&shared, request).await.into_response() }).await
}

async fn query(shared: &Shared, request: Request) -> Result<Response, ApiError> {
    let mut options = caller(&request)?;
    let (format, is_json) = (requested_format(request.headers()), require_json(request.headers()));
    let coding = Coding::of(request.headers());
    let body = Bytes::from_request(request, &()).await;
    let started = Instant::now();
    // A refusal before the body is read would end the connection, maybe before the client has seen the answer.
    let format = format?;
    is_json?;
    let body = body.map_err(|rejection| unreadable_body(&rejection, shared.max_body_bytes))?;
    let request = QueryRequest::parse(&body)?;
    let wanted = Wanted { max_rows: request.max_rows, route: request.route };
    wanted.check(format)?;
    if let Some(application) = &request.application {
        options.application.clone_from(application);
    }
    let session = shared.engine.session(options);
    if request.route {
        session.set("nyala.show_route", "on")?;
    }
    for setting in request.settings() {
        let (name, value) = setting?;
        session.set(name, &value)?;
    }
    let parameters = request.parameters()?;
    let answer = execute(&session, &request.sql, parameters).await?;
    Ok(with_coding(coding, respond(answer, format, wanted, started).await?))
}

/// The query parameters of a link.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    sql: String,
    /// The schema of names without one.
    search_path: Option<String>,
    max_rows: Option<u64>,
    #[serde(default)]
    route: bool,
    /// The name of a format, for programs that cannot send headers.
    format: Option<String>,
    /// The name of the application in lists and logs, for programs that cannot send headers.
    application: Option<String>,
}

/// `GET /api/v1/query`: an answer behind a link. The statement must change nothing: browsers follow links of other sites, and load links ahead.
pub async fn linked(
    State(shared): State<Shared>,
    ConnectInfo(Peer(peer)): ConnectInfo<Peer>,
    request: Request,
) -> Response {
    answered(&shared, peer, request, |request| async { link(&shared, request).await.into_response() }).await
}

async fn link(shared: &Shared, request: Request) -> Result<Response, ApiError> {
    let started = Instant::now();
    let mut options = caller(&request)?;
    let coding = Coding::of(request.headers());
    let link = Query::<Link>::try_from_uri(request.uri());
    let Query(link) = link.map_err(|rejection| {
        ApiError::new(StatusCode::BAD_REQUEST, "invalid_request", rejection.body_text())
            .hint("there are `sql`, `search_path`, `max_rows`, `route`, `format` and `application`")
    })?;
    let format = match &link.format {
        Some(name) => Format::named(name).ok_or_else(|| {
            let message = format!("there is no format `{name}`");
            ApiError::new(StatusCode::BAD_REQUEST, "invalid_request", message)
                .hint("there are json, ndjson, csv, arrow and parquet")
        })?,
        None => requested_format(request.headers())?,
    };
    let wanted = Wanted { max_rows: link.max_rows, route: link.route };
    wanted.check(format)?;
    if let Some(application) = link.application {
        options.application = application;
    }
    let session = shared.engine.session(options);
    if let Some(schema) = &link.search_path {
        session.set("search_path", schema)?;
    }
    if link.route {
        session.set("nyala.show_route", "on")?;
    }
    let prepared = prepare(&session, &link.sql).await?;
    if prepared.changes() || prepared.statement().ends_work() || prepared.schema().is_none() {
        let message = "a link only asks for rows: this statement gives none, or changes something";
        return Err(ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message)
            .hint("send it with POST"));
    }
    let answer = session.execute(&prepared, Vec::new()).await?;
    Ok(with_coding(coding, respond(answer, format, wanted, started).await?))
}

async fn prepare(session: &Session, sql: &str) -> Result<Prepared, ApiError> {
    Ok(match session.read(sql)? {
        Text::Ready(prepared) => prepared,
        Text::Statements(statements) => session.prepare(only(statements)?).await?,
    })
}

async fn execute(
    session: &Session,
    sql: &str,
    parameters: Vec<datafusion::common::ScalarValue>,
) -> Result<Answer, ApiError> {
    let prepared = prepare(session, sql).await?;
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

pub async fn respond(
    answer: Answer,
    format: Format,
    wanted: Wanted,
    started: Instant,
) -> Result<Response, ApiError> {
    let told = match &answer {
        Answer::Rows(rows) => Some((QUERY, rows.query_id())),
        Answer::Done(done) => done.rows.map(|rows| (ROWS_AFFECTED, rows)),
    };
    let body: Result<_, QueryError> = match answer {
        Answer::Rows(rows) => body::of_rows(rows, format, wanted, started).await,
        Answer::Done(done) => body::of_completion(done.tag, done.rows, format, started),
    };
    let content_type = HeaderValue::from_static(format.media_type());
    // Caches must not keep an answer: it is of one moment, and may be large.
    let headers =
        [(header::CONTENT_TYPE, content_type), (header::CACHE_CONTROL, HeaderValue::from_static("no-store"))];
    let mut response = (headers, body?).into_response();
    if let Some((name, number)) = told {
        response.headers_mut().insert(name, HeaderValue::from(number));
    }
    Ok(response)
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
