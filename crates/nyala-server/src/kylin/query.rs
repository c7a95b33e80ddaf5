//! `POST /query`.
//!
//! Columns and rows are sent first, and whether there was an error last, so that an error in the middle of the rows is still told.
//! Drivers take an error of any other status for a broken server.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use arrow::datatypes::{DataType, Schema, TimeUnit};
use axum::body::{Body, Bytes};
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest, Request as HttpRequest, State};
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use datafusion::common::ScalarValue;
use futures::{StreamExt, stream};
use nyala_engine::{
    Answer, ErrorKind, Identity, Outcome, Prepared, QueryError, RowStream, Session, SessionOptions, Text,
    hide_values,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::answer::Dialect;
use super::cells::{columns_of, write_rows};
use super::error::text_of;
use super::names::{Lowered, WrittenNames, is_remembered, remember};
use super::session::session_in;
use super::translate::translate;
use crate::http::{Caller, Shared, caller};

/// Gathered before the first bytes leave.
const AHEAD_BYTES: usize = 64 << 10;
/// Room for a column of an answer, and for the rest of a small one, so that its bytes are seldom moved.
const COLUMN_BYTES: usize = 512;
const REST_BYTES: usize = 4 << 10;
/// Rows written at one go, so that other requests get their turn on the thread in between.
const CHUNK_ROWS: usize = 1024;

/// A query. Kylin's clients send further fields, which have no meaning here.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    sql: String,
    #[serde(default)]
    project: Option<String>,
    #[serde(default)]
    params: Option<Vec<Parameter>>,
    #[serde(default)]
    limit: Option<i64>,
    #[serde(default)]
    offset: Option<i64>,
    #[serde(default)]
    backdoor_toggles: Option<HashMap<String, Value>>,
    /// From the tables, whatever cubes there are.
    #[serde(default)]
    forced_to_push_down: bool,
    /// From cubes, or not at all.
    #[serde(default, rename = "forced_to_index")]
    forced_to_index: bool,
    /// The user that a program wants the query to be of.
    #[serde(default)]
    execute_as: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Parameter {
    #[serde(default)]
    class_name: String,
    #[serde(default)]
    value: Option<Value>,
}

impl Parameter {
    /// The engine casts texts to the type that the statement needs. Where it needs none, the class tells the type.
    fn value(&self, needed: Option<&DataType>) -> ScalarValue {
        let text = match &self.value {
            None | Some(Value::Null) => return ScalarValue::Null,
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        };
        let typed = match self.class_name.as_str() {
            "java.lang.Byte" | "java.lang.Short" | "java.lang.Integer" | "java.lang.Long" => {
                text.parse().ok().map(|value| ScalarValue::Int64(Some(value)))
            }
            "java.lang.Float" | "java.lang.Double" => {
                text.parse().ok().map(|value| ScalarValue::Float64(Some(value)))
            }
            "java.lang.Boolean" => text.parse().ok().map(|value| ScalarValue::Boolean(Some(value))),
            class if needed.is_none() => type_of_class(class, &text)
                .and_then(|data_type| ScalarValue::try_from_string(text.clone(), &data_type).ok()),
            _ => None,
        };
        typed.unwrap_or(ScalarValue::Utf8(Some(text)))
    }
}

/// The type of a class whose values come as texts; none of texts themselves.
fn type_of_class(class: &str, text: &str) -> Option<DataType> {
    Some(match class {
        "java.math.BigDecimal" => {
            // With an exponent it stays a text.
            let number = text.strip_prefix('-').unwrap_or(text);
            let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
            let is_plain = whole.bytes().chain(fraction.bytes()).all(|digit| digit.is_ascii_digit());
            let digits = whole.len() + fraction.len();
            let precision =
                u8::try_from(digits).ok().filter(|digits| is_plain && (1..=38).contains(digits))?;
            DataType::Decimal128(precision, i8::try_from(fraction.len()).ok()?)
        }
        "java.sql.Date" => DataType::Date32,
        "java.sql.Time" => DataType::Time64(TimeUnit::Microsecond),
        "java.sql.Timestamp" => DataType::Timestamp(TimeUnit::Microsecond, None),
        _ => return None,
    })
}

/// Which rows are wanted.
#[derive(Debug, Clone, Copy)]
struct Part {
    skip: u64,
    most: u64,
}

impl Request {
    fn part(&self) -> Part {
        let positive = |number: i64| u64::try_from(number).ok().filter(|number| *number > 0);
        let toggle =
            self.backdoor_toggles.as_ref().and_then(|toggles| toggles.get("ATTR_STATEMENT_MAX_ROWS"));
        let of_statement = toggle.and_then(|value| match value {
            Value::String(text) => text.parse().ok(),
            other => other.as_i64(),
        });
        let limits = [self.limit, of_statement].into_iter().flatten().filter_map(positive);
        Part { skip: self.offset.and_then(positive).unwrap_or(0), most: limits.min().unwrap_or(u64::MAX) }
    }

    /// Refuses to run a query with the privileges of its sender where they should be those of another user.
    fn check_user(&self, options: &SessionOptions) -> Result<(), QueryError> {
        let wanted = self.execute_as.as_deref().map(str::trim).filter(|user| !user.is_empty());
        match (wanted, &options.identity) {
            (Some(wanted), Identity::Role(role)) if role != wanted => {
                let message = format!("a query of `{role}` cannot run as `{wanted}`");
                let error = QueryError::new(ErrorKind::PermissionDenied, message);
                Err(error.hint(format!("log in as `{wanted}`, or leave out `executeAs`")))
            }
            _ => Ok(()),
        }
    }
}

/// Answers one statement of a client that has been let in.
pub async fn query(shared: &Shared, request: HttpRequest) -> Response {
    let options = match caller(&request) {
        Ok(options) => options,
        Err(refusal) => return refusal.into_response(),
    };
    let dialect = Dialect::asked(request.headers());
    let body = Bytes::from_request(request, &()).await;
    let started = Instant::now();
    let answered = async {
        let request = parse(body)?;
        request.check_user(&options)?;
        let session = session_in(shared, options, request.project.as_deref())?;
        let (answer, names) = execute(shared, &session, &request).await?;
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
) -> Response {
    let started = Instant::now();
    let prepared = async {
        let request = parse(body)?;
        request.check_user(&options)?;
        let session = session_in(&shared, options, request.project.as_deref())?;
        let (prepared, names) = prepared(&shared, &session, &request).await?;
        let schema = prepared.schema().unwrap_or_else(|| Arc::new(Schema::empty()));
        Ok::<_, QueryError>(head(dialect, &schema, &names))
    };
    match prepared.await {
        Ok(head) => whole(head, dialect, &End::done(0), started),
        Err(error) => nothing(dialect, &End::failed(&error), started),
    }
}

fn parse(body: Result<Bytes, BytesRejection>) -> Result<Request, QueryError> {
    let invalid = |message: String| QueryError::new(ErrorKind::InvalidText, message);
    let body = body.map_err(|rejection| invalid(rejection.body_text()))?;
    serde_json::from_slice(&body).map_err(|error| invalid(format!("request body: {error}")))
}

async fn execute(
    shared: &Shared,
    session: &Session,
    request: &Request,
) -> Result<(Answer, WrittenNames), QueryError> {
    if request.forced_to_push_down {
        session.set("nyala.use_cubes", "off")?;
    }
    if request.forced_to_index {
        session.set("nyala.pushdown", "off")?;
    }
    let (prepared, names) = prepared(shared, session, request).await?;
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

/// The statement as it is written, or with names in lower case if its names are not known. Columns of the latter are shown by the names
/// that the client wrote.
async fn prepared(
    shared: &Shared,
    session: &Session,
    request: &Request,
) -> Result<(Prepared, WrittenNames), QueryError> {
    let sql = translate(&request.sql);
    let Some(lowered) = Lowered::of(&sql) else {
        return Ok((read(session, &sql).await?, WrittenNames::default()));
    };
    let project = request.project.as_deref().unwrap_or_default();
    let key = lowered.key(project, &shared.engine.catalog().snapshot());
    if is_remembered(key) {
        match read(session, &lowered.sql).await {
            // What is remembered may be of another statement. So it tells only which of the two comes first.
            Err(error) if is_unknown_name(&error) => {}
            read => return Ok((read?, lowered.names)),
        }
    }
    match read(session, &sql).await {
        Err(error) if is_unknown_name(&error) => {
            // The first error has the names as the client knows them.
            let read = read(session, &lowered.sql).await;
            let prepared = read.map_err(|second| if is_unknown_name(&second) { error } else { second })?;
            remember(key);
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

/// The end of an answer.
#[derive(Default)]
struct End {
    rows: u64,
    affected: u64,
    partial: bool,
    error: Option<String>,
    /// What is known of the statement; none if it gave no rows.
    outcome: Option<Outcome>,
}

impl End {
    fn done(affected: u64) -> Self {
        Self { affected, ..Self::default() }
    }

    fn failed(error: &QueryError) -> Self {
        Self { error: Some(text_of(error)), ..Self::default() }
    }

    fn fields(&self, started: Instant) -> Fields<'_> {
        let outcome = self.outcome.as_ref();
        let route = outcome.and_then(|outcome| outcome.route.as_ref());
        let answered_from = route.and_then(|route| route.answered_from.as_deref());
        let chosen = route.into_iter().flat_map(|route| &route.aggregations);
        let cubes = chosen.filter_map(|aggregation| aggregation.chosen.as_ref()).map(|chosen| &*chosen.cube);
        let bytes = outcome.map(|outcome| outcome.bytes).unwrap_or_default();
        Fields {
            affected_row_count: self.affected,
            is_exception: self.error.is_some(),
            exception_message: self.error.as_deref(),
            query_id: outcome.map(|outcome| outcome.query_id.to_string()),
            duration: u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
            cube: answered_from.unwrap_or_default(),
            push_down: answered_from.is_none() && self.error.is_none(),
            partial: self.partial,
            total_scan_count: outcome.map_or(0, |outcome| outcome.rows_read),
            total_scan_bytes: bytes.memory + bytes.disk + bytes.store,
            result_row_count: self.rows,
            hit_exception_cache: false,
            storage_cache_used: outcome.is_some_and(|outcome| outcome.from_result_cache),
            is_timeout: false,
            trace_url: (),
            realizations: cubes.map(Realization::of).collect(),
            server: "nyala",
        }
    }
}

/// What an answer has behind its rows.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Fields<'a> {
    affected_row_count: u64,
    is_exception: bool,
    exception_message: Option<&'a str>,
    query_id: Option<String>,
    duration: u64,
    cube: &'a str,
    push_down: bool,
    partial: bool,
    total_scan_count: u64,
    total_scan_bytes: u64,
    result_row_count: u64,
    hit_exception_cache: bool,
    storage_cache_used: bool,
    is_timeout: bool,
    trace_url: (),
    realizations: Vec<Realization<'a>>,
    server: &'static str,
}

/// A cube that a part of the answer comes from.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Realization<'a> {
    model_id: &'a str,
    model_alias: &'a str,
    layout_id: i32,
    index_type: &'static str,
}

impl<'a> Realization<'a> {
    fn of(cube: &'a str) -> Self {
        Self { model_id: cube, model_alias: cube, layout_id: -1, index_type: "Agg Index" }
    }
}

/// Appends the JSON of texts and numbers, which all have one.
fn add_json(value: &impl Serialize, out: &mut Vec<u8>) {
    // Memory takes all bytes.
    let _ = serde_json::to_writer(out, value);
}

/// The beginning of an answer, to which its rows and its end are added.
fn head(dialect: Dialect, schema: &Schema, names: &WrittenNames) -> Vec<u8> {
    let mut out = Vec::with_capacity(schema.fields().len() * COLUMN_BYTES + REST_BYTES);
    if dialect.has_envelope() {
        out.extend_from_slice(b"{\"code\":\"000\",\"data\":");
    }
    out.extend_from_slice(b"{\"columnMetas\":");
    add_json(&columns_of(schema, names), &mut out);
    out.extend_from_slice(b",\"results\":[");
    out
}

fn add_tail(dialect: Dialect, end: &End, started: Instant, out: &mut Vec<u8>) {
    out.push(b']');
    let fields = out.len();
    add_json(&end.fields(started), out);
    // The last brace of the fields closes the answer. The first one is that of the head, whose fields go on.
    if let Some(brace) = out.get_mut(fields) {
        *brace = b',';
    }
    if dialect.has_envelope() {
        out.extend_from_slice(b",\"msg\":\"\"}");
    }
}

/// An answer without rows.
fn whole(mut head: Vec<u8>, dialect: Dialect, end: &End, started: Instant) -> Response {
    add_tail(dialect, end, started, &mut head);
    respond(Body::from(head))
}

/// An answer without rows and columns.
fn nothing(dialect: Dialect, end: &End, started: Instant) -> Response {
    whole(head(dialect, &Schema::empty(), &WrittenNames::default()), dialect, end, started)
}

fn respond(body: Body) -> Response {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("application/json")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    (headers, body).into_response()
}

async fn of_rows(
    rows: RowStream,
    part: Part,
    mut ahead: Vec<u8>,
    dialect: Dialect,
    started: Instant,
) -> Response {
    let mut writer =
        Writer { rows, part, batch: None, written: 0, outcome: None, dialect, started, ended: false };
    while ahead.len() < AHEAD_BYTES {
        if !writer.add_chunk(&mut ahead).await {
            return respond(Body::from(ahead));
        }
    }
    let rest = stream::unfold(writer, |mut writer| async move {
        let mut chunk = Vec::new();
        let is_more = writer.add_chunk(&mut chunk).await;
        is_more.then(|| (Ok::<_, QueryError>(Bytes::from(chunk)), writer))
    });
    let ahead = stream::once(async move { Ok(Bytes::from(ahead)) });
    respond(Body::from_stream(ahead.chain(rest)))
}

struct Writer {
    rows: RowStream,
    part: Part,
    /// Rows of the last batch that are not written.
    batch: Option<arrow::record_batch::RecordBatch>,
    written: u64,
    /// What was known of the statement when the client had enough rows. Afterwards the operators, which count what they read, are gone.
    outcome: Option<Outcome>,
    dialect: Dialect,
    started: Instant,
    ended: bool,
}

impl Writer {
    /// Adds the next bytes; false after the last.
    async fn add_chunk(&mut self, out: &mut Vec<u8>) -> bool {
        if self.ended {
            return false;
        }
        let before = out.len();
        let end = match self.add_rows(out).await {
            Ok(true) => return true,
            Ok(false) => End::default(),
            Err(error) => {
                tracing::debug!(error = hide_values(&error.message), "a query of a Kylin client failed");
                // Without a row that is written in part.
                out.truncate(before);
                End::failed(&error)
            }
        };
        self.ended = true;
        let (rows, outcome) =
            (self.written, Some(self.outcome.take().unwrap_or_else(|| self.rows.outcome())));
        add_tail(self.dialect, &End { rows, outcome, ..end }, self.started, out);
        true
    }

    /// Adds some rows; false if there are no more, or no more are wanted.
    async fn add_rows(&mut self, out: &mut Vec<u8>) -> Result<bool, QueryError> {
        if self.part.most == 0 {
            self.outcome = Some(self.rows.outcome());
            self.rows.enough();
            return Ok(false);
        }
        let batch = match self.batch.take() {
            Some(batch) => batch,
            None => match self.rows.next().await.transpose()? {
                Some(batch) => batch,
                None => return Ok(false),
            },
        };
        let skipped = usize::try_from(self.part.skip).unwrap_or(usize::MAX).min(batch.num_rows());
        self.part.skip -= skipped as u64;
        let wanted = usize::try_from(self.part.most).unwrap_or(usize::MAX);
        let count = (batch.num_rows() - skipped).min(CHUNK_ROWS).min(wanted);
        write_rows(&batch.slice(skipped, count), self.written == 0, out)?;
        self.written += count as u64;
        self.part.most = self.part.most.saturating_sub(count as u64);
        let rest = skipped + count;
        if rest < batch.num_rows() {
            self.batch = Some(batch.slice(rest, batch.num_rows() - rest));
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    #[test]
    fn limits_of_request_and_statement_both_count() {
        let part = |body: &str| serde_json::from_str::<Request>(body).unwrap().part();
        assert_eq!(part(r#"{"sql": "x"}"#).most, u64::MAX);
        assert_eq!(part(r#"{"sql": "x", "limit": 0, "offset": 0}"#).most, u64::MAX);
        let toggled = r#"{"sql": "x", "limit": 50000, "offset": 7, "backdoorToggles": {"ATTR_STATEMENT_MAX_ROWS": "5"}}"#;
        assert_eq!((part(toggled).skip, part(toggled).most), (7, 5));
        assert_eq!(part(r#"{"sql": "x", "acceptPartial": false, "unknown": {}, "project": null}"#).skip, 0);
    }

    #[test]
    fn parameters_have_the_types_of_their_classes() {
        let value =
            |body: &str| serde_json::from_str::<Parameter>(body).unwrap().value(Some(&DataType::Utf8));
        assert_eq!(value(r#"{"className": "java.lang.Integer", "value": "7"}"#), ScalarValue::Int64(Some(7)));
        assert_eq!(
            value(r#"{"className": "java.lang.Double", "value": "0.5"}"#),
            ScalarValue::Float64(Some(0.5))
        );
        let text = |text: &str| ScalarValue::Utf8(Some(text.to_owned()));
        assert_eq!(value(r#"{"className": "java.sql.Date", "value": "1997-03-31"}"#), text("1997-03-31"));
        assert_eq!(value(r#"{"className": "java.lang.Long", "value": "x"}"#), text("x"));
        assert_eq!(value(r#"{"className": "java.lang.Object"}"#), ScalarValue::Null);
        let alone = |class: &str, text: &str| {
            Parameter { class_name: class.to_owned(), value: Some(json!(text)) }.value(None)
        };
        let decimal = |value, precision, scale| ScalarValue::Decimal128(Some(value), precision, scale);
        assert_eq!(alone("java.math.BigDecimal", "-12.50"), decimal(-1250, 4, 2));
        assert_eq!(alone("java.math.BigDecimal", "7"), decimal(7, 1, 0));
        assert_eq!(alone("java.math.BigDecimal", "1E+3"), text("1E+3"));
        assert_eq!(alone("java.sql.Date", "1997-03-31"), ScalarValue::Date32(Some(9951)));
        let at = ScalarValue::TimestampMicrosecond(Some(859_852_798_500_000), None);
        assert_eq!(alone("java.sql.Timestamp", "1997-03-31 23:59:58.5"), at);
        assert_eq!(alone("java.sql.Time", "00:00:01"), ScalarValue::Time64Microsecond(Some(1_000_000)));
        assert_eq!(alone("java.lang.String", "1997-03-31"), text("1997-03-31"));
    }

    #[test]
    fn a_query_does_not_run_as_another_user() {
        let as_user = |user: &str| -> Request {
            serde_json::from_value(json!({ "sql": "SELECT 1", "executeAs": user })).unwrap()
        };
        let of = |identity| SessionOptions { identity, ..SessionOptions::default() };
        let ann = of(Identity::Role("ann".to_owned()));
        for user in ["ann", ""] {
            as_user(user).check_user(&ann).unwrap();
        }
        assert_eq!(as_user("bob").check_user(&ann).unwrap_err().kind, ErrorKind::PermissionDenied);
        as_user("bob").check_user(&of(Identity::Owner)).unwrap();
    }

    #[test]
    fn the_end_closes_what_the_head_has_opened() {
        for dialect in [Dialect::Bare, Dialect::Named, Dialect::Envelope] {
            let mut body = head(dialect, &Schema::empty(), &WrittenNames::default());
            add_tail(dialect, &End::done(3), Instant::now(), &mut body);
            let whole: Value = serde_json::from_slice(&body).unwrap();
            let answer = if dialect.has_envelope() { &whole["data"] } else { &whole };
            assert_eq!(answer["affectedRowCount"], 3);
            assert_eq!(answer["isException"], false);
            assert_eq!(answer["results"], json!([]));
        }
    }
}
