//! A server that speaks HTTP, from its URL, and connections to it.

use std::io;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::http::uri::Authority;
use hyper::{Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::report::Hinted;
use crate::tls::{Connector, Policy};

/// Largest answer that [`HttpServer::get`] reads, in bytes.
const MAX_ANSWER_BYTES: usize = 1 << 20;

/// Bytes in both directions, encrypted or not.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// The future that moves the bytes of a connection.
pub type Driver = http1::Connection<TokioIo<Box<dyn Duplex>>, Full<Bytes>>;

/// Address of a server, and protection of connections to it.
#[derive(Debug, Clone)]
pub struct HttpServer {
    authority: Authority,
    /// Set if connections are encrypted.
    connector: Option<Connector>,
}

impl HttpServer {
    /// Reads `http://host:port` or `https://host:port`; none if the URL is of another protocol. The rest of
    /// the URL is ignored. `ca` names a file of authorities to trust instead of the system's.
    ///
    /// # Errors
    /// The URL names no server, or the authorities cannot be read.
    pub fn parse(url: &str, ca: Option<&Path>) -> Result<Option<Self>> {
        if let Some(rest) = url.strip_prefix("http://") {
            return Ok(Some(Self { authority: authority("http", rest, 80)?, connector: None }));
        }
        let Some(rest) = url.strip_prefix("https://") else { return Ok(None) };
        let authority = authority("https", rest, 443)?;
        let connector = Connector::new(&Policy::verified(ca), b"http/1.1")?;
        Ok(Some(Self { authority, connector: Some(connector) }))
    }

    /// A server of this machine. Its certificate names the host that remote clients use, so it is not
    /// checked: between two processes of a machine there is no attacker on the way.
    ///
    /// # Errors
    /// The system has no encryption.
    pub fn local(address: SocketAddr, is_encrypted: bool) -> Result<Self> {
        let authority = address.to_string().parse().context("an address names a server")?;
        let connector =
            if is_encrypted { Some(Connector::new(&Policy::anybody(), b"http/1.1")?) } else { None };
        Ok(Self { authority, connector })
    }

    /// The same server, without a check of its certificate.
    ///
    /// # Errors
    /// The system has no encryption.
    pub fn unverified(self) -> Result<Self> {
        let connector = match self.connector {
            Some(_) => Some(Connector::new(&Policy::anybody(), b"http/1.1")?),
            None => None,
        };
        Ok(Self { connector, ..self })
    }

    /// Protocol, host and port.
    pub fn place(&self) -> String {
        format!("{}://{}", if self.connector.is_some() { "https" } else { "http" }, self.authority)
    }

    /// Host and port, as requests name them.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// Opens one connection. Its driver has to be polled while an answer is waited for.
    ///
    /// # Errors
    /// The server cannot be reached, or is not the one that the URL names.
    pub async fn connect(&self) -> io::Result<(SendRequest<Full<Bytes>>, Driver)> {
        let stream = TcpStream::connect(self.authority.as_str()).await?;
        // Nagle's algorithm would hold back the second packet of a request until the first is acknowledged.
        stream.set_nodelay(true)?;
        let socket: Box<dyn Duplex> = match &self.connector {
            None => Box::new(stream),
            Some(connector) => {
                let host = self.authority.host().trim_start_matches('[').trim_end_matches(']');
                Box::new(connector.encrypt(host, stream).await?)
            }
        };
        http1::handshake(TokioIo::new(socket)).await.map_err(io::Error::other)
    }

    /// Asks for a path on a connection of its own: status and body.
    ///
    /// # Errors
    /// The server cannot be reached, or its answer is not whole.
    pub async fn get(&self, path: &str, user_agent: &str) -> Result<(StatusCode, Bytes)> {
        let (mut sender, driver) =
            self.connect().await.with_context(|| format!("cannot connect to `{}`", self.place()))?;
        // The driver ends with the answer: the sender, which keeps the connection open, is dropped then.
        tokio::spawn(driver);
        let request = Request::get(path)
            .header(header::HOST, self.authority.as_str())
            .header(header::USER_AGENT, user_agent)
            .body(Full::default())?;
        let failed = || format!("`{}` gave no answer", self.place());
        let (head, body) = sender.send_request(request).await.with_context(failed)?.into_parts();
        let body = Limited::new(body, MAX_ANSWER_BYTES).collect().await;
        let body = body.map_err(|error| anyhow!(error)).with_context(failed)?;
        Ok((head.status, body.to_bytes()))
    }
}

/// Host and port of the rest of a URL after the scheme.
fn authority(scheme: &str, rest: &str, default_port: u16) -> Result<Authority> {
    let place = rest.split('/').next().unwrap_or_default();
    let has_port = place.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']'));
    let authority = if has_port { place.to_owned() } else { format!("{place}:{default_port}") };
    match authority.parse::<Authority>() {
        Ok(authority) if !place.is_empty() && !place.contains('@') && authority.port_u16().is_some() => {
            Ok(authority)
        }
        _ => Err(Hinted::error(
            format!("`{scheme}://{place}` is not a server"),
            "write `http://127.0.0.1:8090`; passwords are not sent",
        )),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::report;

    #[test]
    fn a_url_names_a_server() {
        let check = |url: &str, place: Option<&str>| {
            let server = HttpServer::parse(url, None).unwrap();
            assert_eq!(server.map(|server| server.place()).as_deref(), place, "{url}");
        };
        check("http://127.0.0.1:8090/", Some("http://127.0.0.1:8090"));
        check("http://example.org/readyz", Some("http://example.org:80"));
        check("https://[::1]:8090", Some("https://[::1]:8090"));
        check("https://example.org", Some("https://example.org:443"));
        check("postgres://example.org", None);
        check("127.0.0.1:8090", None);
    }

    #[test]
    fn a_url_without_a_server_is_refused() {
        for url in ["http://", "http://h:port", "http://u:p@h:1", "https://h h"] {
            let error = report::text(&HttpServer::parse(url, None).unwrap_err());
            assert!(error.contains("is not a server") && error.contains("hint:"), "{url}: {error}");
        }
    }

    #[test]
    fn a_server_of_this_machine_is_known_by_its_address() {
        let check = |address: &str, is_encrypted, place: &str| {
            let server = HttpServer::local(address.parse().unwrap(), is_encrypted).unwrap();
            assert_eq!(server.place(), place);
        };
        check("127.0.0.1:8090", false, "http://127.0.0.1:8090");
        check("[::1]:8090", true, "https://[::1]:8090");
    }
}
