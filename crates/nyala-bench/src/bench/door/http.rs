//! The HTTP APIs of Nyala, on a connection that is kept.

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

use super::api::{self, Api};
use super::{Answer, Failure, Mode};
use crate::bench::workload::{Query, Value};

/// A server that speaks HTTP.
#[derive(Debug, Clone)]
pub struct HttpTarget {
    server: HttpServer,
    api: Api,
    mode: Mode,
}

impl HttpTarget {
    /// Reads `http://host:port`, `https://host:port` or `kylin://user:password@host:port`; none if the URL is of another
    /// protocol. `ca` names a file of authorities to trust instead of the system's.
    pub fn parse(url: &str, mode: Mode, ca: Option<&Path>) -> Result<Option<Self>> {
        let (api, url) = Api::of(url);
        match HttpServer::parse(&url, ca)? {
            Some(_) if mode == Mode::Prepared => {
                Err(Hinted::error("HTTP cannot prepare statements", "use `--mode extended`"))
            }
            server => Ok(server.map(|server| Self { server, api, mode })),
        }
    }

    /// Protocol, host and port.
    pub fn place(&self) -> String {
        match self.api {
            Api::Nyala => self.server.place(),
            Api::Kylin { .. } => format!("kylin://{}", self.server.authority()),
        }
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
        api::read(status, &body)
    }

    /// Whether the server has closed the connection: it may do so after an answer, and after a long silence.
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
        let mut request = Request::post(self.api.path());
        if let Some(authorization) = self.api.authorization() {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        request
            .header(header::HOST, self.server.authority().as_str())
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::USER_AGENT, "nyala bench")
            .body(Full::new(Bytes::from(self.api.body(self.mode, query, values))))
            .map_err(|error| Failure::Broken(error.to_string()))
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

fn broken(error: &hyper::Error) -> Failure {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
    Failure::Broken(format!("{error}{cause}"))
}
