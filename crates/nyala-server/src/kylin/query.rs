//! `POST /query`, from its body (`query_request`) to its answer (`query_answer`).

use std::sync::Arc;
use std::time::Instant;

use arrow::datatypes::Schema;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest, Request as HttpRequest, State};
use axum::response::{IntoResponse, Response};
use nyala_engine::{Answer, ErrorKind, Prepared, QueryError, Session, Text};

use super::answer::Dialect;
use super::names::{Lowered, LoweredStatements, WrittenNames};
use super::query_answer::{End, head, nothing, of_rows, whole};
use super::query_request::Request;
use super::session::session_in;
use super::translate::translate;
use crate::http::{Caller, Shared, caller};

/// Answers one statement of a client that has been let in.
pub async fn query(shared: &Shared, lowered: &LoweredStatements, request: HttpRequest) -> Response {
    let options = match caller(&request) {
        Ok(options) => options,
        Err(refusal) => return refusal.into_response(),
    };
    let dialect = Dialect::asked(request.headers());
    let body = Bytes::from_request(request, &()).await;
    let started = Instant::now();
    let answered = async {
        let request = Request::parse(body)?;
        request.check_user(&options)?;
        let session = session_in(shared, options, request.project.as_deref())?;
        let (answer, names) = execute(shared, lowered, &session, &request).await?;
        Ok::<_, QueryError>((answer, names, request.part()))
    };
    match answered.await {
        Ok((Answer::Rows(rows), names, part)) => {
            let first = head(dialect, &rows.schema(), &names);
            of_rows(rows, part, first, dialect, started).await
        }
        Ok((Answer::Done(done), ..)) => nothing(dialect, &End::done(done.rows.unwrap_or(0)), started),
        Err(error) => nothing(dialect, &End::failed(&error), started),
    }
}

/// The columns of a statement, which is not run.
pub async fn prepare(
    State(shared): State<Shared>,
    Caller(options): Caller,
    dialect: Dialect,
    body: Result<Bytes, BytesRejection>,
    lowered: Arc<LoweredStatements>,
) -> Response {
    let started = Instant::now();
    let prepared = async {
        let request = Request::parse(body)?;
        request.check_user(&options)?;
        let session = session_in(&shared, options, request.project.as_deref())?;
        let (prepared, names) = prepared(&shared, &lowered, &session, &request).await?;
        let schema = prepared.schema().unwrap_or_else(|| Arc::new(Schema::empty()));
        Ok::<_, QueryError>(head(dialect, &schema, &names))
    };
    match prepared.await {
        Ok(head) => whole(head, dialect, &End::done(0), started),
        Err(error) => nothing(dialect, &End::failed(&error), started),
    }
}

async fn execute(
    shared: &Shared,
    lowered: &LoweredStatements,
    session: &Session,
    request: &Request,
) -> Result<(Answer, WrittenNames), QueryError> {
    if request.forced_to_push_down {
        session.set("nyala.use_cubes", "off")?;
    }
    if request.forced_to_index {
        session.set("nyala.pushdown", "off")?;
    }
    let (prepared, names) = prepared(shared, lowered, session, request).await?;
    let needed = prepared.parameter_types();
    let given = request.params.as_deref().unwrap_or_default();
    if given.len() < needed.len() {
        let (needed, given) = (needed.len(), given.len());
        let message = format!("the statement has {needed} parameters, but {given} were given");
        return Err(QueryError::new(ErrorKind::InvalidParameter, message));
    }
    // Drivers also count the placeholders in comments.
    let values = given.iter().zip(needed).map(|(given, needed)| given.value(needed.as_ref())).collect();
    Ok((session.execute(&prepared, values).await?, names))
}

/// Prepares the statement as it is written, or with names in lower case if its names are not known. Columns of the latter are shown by the
/// names that the client wrote.
async fn prepared(
    shared: &Shared,
    statements: &LoweredStatements,
    session: &Session,
    request: &Request,
) -> Result<(Prepared, WrittenNames), QueryError> {
    let sql = translate(&request.sql);
    let Some(lowered) = Lowered::of(&sql, statements) else {
        return Ok((read(session, &sql).await?, WrittenNames::default()));
    };
    let project = request.project.as_deref().unwrap_or_default();
    let key = statements.key(&lowered, project, &shared.engine.catalog().snapshot());
    if statements.has(key) {
        match read(session, &lowered.sql).await {
            // The key may be that of another statement with the same hash, so the statement is tried as it is written, too.
            Err(error) if is_unknown_name(&error) => {}
            read => return Ok((read?, lowered.names)),
        }
    }
    match read(session, &sql).await {
        Err(error) if is_unknown_name(&error) => {
            // The first error has the names as the client wrote them.
            let read = read(session, &lowered.sql).await;
            let prepared = read.map_err(|second| if is_unknown_name(&second) { error } else { second })?;
            statements.add(key);
            Ok((prepared, lowered.names))
        }
        read => Ok((read?, WrittenNames::default())),
    }
}

async fn read(session: &Session, sql: &str) -> Result<Prepared, QueryError> {
    let mut statements = match session.read(sql)? {
        Text::Ready(prepared) => return Ok(prepared),
        Text::Statements(statements) => statements.into_iter(),
    };
    match (statements.next(), statements.next()) {
        (Some(statement), None) => session.prepare(statement).await,
        _ => Err(QueryError::new(ErrorKind::InvalidText, "`sql` must hold exactly one statement")),
    }
}

fn is_unknown_name(error: &QueryError) -> bool {
    matches!(error.kind, ErrorKind::UndefinedTable | ErrorKind::UndefinedColumn)
}
