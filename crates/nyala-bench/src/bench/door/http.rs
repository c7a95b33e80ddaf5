//! The HTTP door of Nyala: `POST /api/v1/query` on a connection that is kept.

use std::io;
use std::path::Path;
use std::pin::{Pin, pin};

use anyhow::Result;
use futures::FutureExt;
use futures::future::{Either, select};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::SendRequest;
use hyper::{Request, Response, StatusCode, header};
use nyala_client::http::{Driver, HttpServer};
use nyala_client::report::Hinted;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;

use super::{Answer, Failure, Mode, same_width};
use crate::bench::workload::{Query, Value};

/// A server that speaks HTTP.
#[derive(Debug, Clone)]
pub struct HttpTarget {
    server: HttpServer,
    mode: Mode,
}

impl HttpTarget {
    /// Reads `http://host:port` or `https://host:port`; none if the URL is of another protocol. `ca` names a file of
    /// authorities to trust instead of the system's.
    pub fn parse(url: &str, mode: Mode, ca: Option<&Path>) -> Result<Option<Self>> {
        match HttpServer::parse(url, ca)? {
            Some(_) if mode == Mode::Prepared => {
                Err(Hinted::error("HTTP cannot prepare statements", "use `--mode extended`"))
            }
            server => Ok(server.map(|server| Self { server, mode })),
        }
    }

    /// Protocol, host and port.
    pub fn place(&self) -> String {
        self.server.place()
    }

    /// Opens one connection.
    pub async fn connect(&self) -> Result<Http, Failure> {
        let failed = |error: io::Error| Failure::Broken(format!("cannot connect: {error}"));
        let (sender, driver) = self.server.connect().await.map_err(failed)?;
        Ok(Http { target: self.clone(), sender, driver: Some(Box::pin(driver)) })
    }
}

/// A connection, polled by the client that waits for its answer.
pub struct Http {
    target: HttpTarget,
    sender: SendRequest<Full<Bytes>>,
    /// None once the connection has ended.
    driver: Option<Pin<Box<Driver>>>,
}

impl Http {
    /// Runs a query and reads its answer to the end.
    pub async fn run(&mut self, query: &Query, values: &[Value]) -> Result<Answer, Failure> {
        let Self { target, sender, driver } = self;
        let request = target.request(query, values)?;
        let running =
            driver.as_mut().ok_or_else(|| Failure::Broken("the connection has ended".to_owned()))?;
        let mut work = pin!(exchange(sender, request));
        let first = match select(work.as_mut(), running).await {
            Either::Left((result, _)) => Some(result),
            Either::Right((Err(error), _)) => Some(Err(error)),
            Either::Right((Ok(()), _)) => None,
        };
        let result = match first {
            Some(result) => result,
            None => {
                // The connection ends together with a last answer, which has arrived by then. A queued request would
                // wait for ever, unless the other end of its queue is dropped.
                *driver = None;
                work.await
            }
        };
        let (status, body) = result.map_err(|error| broken(&error))?;
        read(status, &body)
    }

    /// Whether the server has closed it: as it may after an answer, and when it was asked nothing for long.
    pub fn has_ended(&mut self) -> bool {
        let ended = self.driver.as_mut().is_none_or(|driver| driver.now_or_never().is_some());
        if ended {
            self.driver = None;
        }
        ended
    }
}

impl HttpTarget {
    fn request(&self, query: &Query, values: &[Value]) -> Result<Request<Full<Bytes>>, Failure> {
        let body = match self.mode {
            Mode::Simple => json!({ "sql": query.literal(values) }),
            Mode::Extended | Mode::Prepared => {
                let parameters: Vec<_> = values.iter().map(parameter).collect();
                json!({ "sql": query.shape, "parameters": parameters })
            }
        };
        Request::post("/api/v1/query")
            .header(header::HOST, self.server.authority().as_str())
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::USER_AGENT, "nyala bench")
            .body(Full::new(Bytes::from(body.to_string())))
            .map_err(|error| Failure::Broken(error.to_string()))
    }
}

fn parameter(value: &Value) -> serde_json::Value {
    match value {
        Value::Integer(number) => json!(number),
        Value::Text(text) => json!(text),
    }
}

async fn exchange(
    sender: &mut SendRequest<Full<Bytes>>,
    request: Request<Full<Bytes>>,
) -> Result<(StatusCode, Bytes), hyper::Error> {
    sender.ready().await?;
    let response: Response<Incoming> = sender.send_request(request).await?;
    let status = response.status();
    Ok((status, response.into_body().collect().await?.to_bytes()))
}

/// The required parts of an answer. Values are skipped: they have no size in memory.
#[derive(Deserialize)]
struct Document {
    columns: Vec<IgnoredAny>,
    rows: Vec<Vec<IgnoredAny>>,
}

#[derive(Deserialize)]
struct Refusal {
    error: Reason,
}

#[derive(Deserialize)]
struct Reason {
    message: String,
}

fn read(status: StatusCode, body: &[u8]) -> Result<Answer, Failure> {
    if status != StatusCode::OK {
        let reason = serde_json::from_slice::<Refusal>(body).map(|refusal| refusal.error.message);
        return Err(Failure::Refused(reason.unwrap_or_else(|_| format!("status {status}"))));
    }
    let document: Document = serde_json::from_slice(body)
        .map_err(|error| Failure::Refused(format!("the answer is not of the form expected: {error}")))?;
    let mut columns = Some(document.columns.len());
    for row in &document.rows {
        same_width(&mut columns, row.len())?;
    }
    Ok(Answer { columns, rows: document.rows.len() as u64 })
}

fn broken(error: &hyper::Error) -> Failure {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
    Failure::Broken(format!("{error}{cause}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic)]
    use super::*;

    #[test]
    fn an_answer_is_counted_or_refused() {
        let check = |status, body: &str, expected: Result<(usize, u64), &str>| {
            let answer = read(status, body.as_bytes());
            let found = answer.map(|answer| (answer.columns.unwrap_or_default(), answer.rows));
            match (found, expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{body}"),
                (Err(found), Err(words)) => assert!(found.to_string().contains(words), "{body}: {found}"),
                (found, expected) => panic!("{body}: {found:?} instead of {expected:?}"),
            }
        };
        let ok = StatusCode::OK;
        check(
            ok,
            r#"{"columns":[{"name":"a"},{}],"rows":[[1,"x"],[null,{"b":[2]}]],"row_count":2}"#,
            Ok((2, 2)),
        );
        check(ok, r#"{"columns":[{}],"rows":[]}"#, Ok((1, 0)));
        check(ok, r#"{"columns":[{}],"rows":[[1],[1,2]]}"#, Err("2 columns in an answer of 1"));
        check(ok, r#"{"columns":[{}],"rows":[[1],"#, Err("not of the form"));
        check(StatusCode::SERVICE_UNAVAILABLE, r#"{"error":{"message":"too many"}}"#, Err("too many"));
        check(StatusCode::BAD_GATEWAY, "<html>", Err("502"));
    }
}
