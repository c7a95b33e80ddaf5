//! Compresses answers for clients that accept it, piece by piece as the rows come.

use std::io;

use async_compression::tokio::bufread::{GzipEncoder, ZstdEncoder};
use axum::body::{Body, HttpBody};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::middleware::Next;
use axum::response::Response;
use futures::TryStreamExt;
use tokio_util::io::{ReaderStream, StreamReader};

/// Shorter bodies are sent as they are.
const MIN_BYTES: u64 = 1024;
/// Bytes that are compressed and sent at a time.
const PIECE_BYTES: usize = 64 << 10;

/// How an answer is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coding {
    Gzip,
    Zstd,
}

/// Compresses the answer, as a layer.
pub async fn compress(request: Request, next: Next) -> Response {
    let coding = Coding::of(request.headers());
    with_coding(coding, next.run(request).await)
}

/// Compresses the body of the answer, if the client accepts a coding and the body is not short.
pub fn with_coding(coding: Option<Coding>, mut response: Response) -> Response {
    let vary = HeaderValue::from_static("accept-encoding");
    response.headers_mut().append(header::VARY, vary);
    let is_short = response.body().size_hint().exact().is_some_and(|bytes| bytes < MIN_BYTES);
    match coding {
        Some(coding) if !is_short && !response.headers().contains_key(header::CONTENT_ENCODING) => {
            encoded(response, coding)
        }
        _ => response,
    }
}

impl Coding {
    /// The coding that the client likes best of those it accepts; of equal ones the faster.
    pub fn of(headers: &HeaderMap) -> Option<Self> {
        let lists = headers.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
        let (mut best, mut most) = (None, 0.0);
        for item in lists.flat_map(|list| list.split(',')) {
            let (name, weight) = item.split_once(';').unwrap_or((item, ""));
            let weight =
                weight.trim().strip_prefix("q=").map_or(Ok(1.0), str::parse::<f32>).unwrap_or_default();
            let coding = match name.trim().to_ascii_lowercase().as_str() {
                "zstd" => Self::Zstd,
                "gzip" | "x-gzip" => Self::Gzip,
                _ => continue,
            };
            if weight > most || (weight > 0.0 && weight >= most && coding == Self::Zstd) {
                (best, most) = (Some(coding), weight);
            }
        }
        best
    }
}

fn encoded(response: Response, coding: Coding) -> Response {
    let (mut head, body) = response.into_parts();
    let name = match coding {
        Coding::Gzip => "gzip",
        Coding::Zstd => "zstd",
    };
    head.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(name));
    head.headers.remove(header::CONTENT_LENGTH);
    // A body that breaks off stays incomplete: its error ends the stream before the coder can write its end.
    let plain = StreamReader::new(body.into_data_stream().map_err(io::Error::other));
    let body = match coding {
        Coding::Gzip => Body::from_stream(ReaderStream::with_capacity(GzipEncoder::new(plain), PIECE_BYTES)),
        Coding::Zstd => Body::from_stream(ReaderStream::with_capacity(ZstdEncoder::new(plain), PIECE_BYTES)),
    };
    Response::from_parts(head, body)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use async_compression::tokio::bufread::GzipDecoder;
    use axum::body::to_bytes;
    use tokio::io::AsyncReadExt;

    use super::*;

    #[test]
    fn the_best_accepted_coding_is_chosen() {
        let check = |text: &str, expected| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, text.parse().unwrap());
            assert_eq!(Coding::of(&headers), expected, "{text}");
        };
        check("gzip, deflate, br, zstd", Some(Coding::Zstd));
        check("gzip;q=1.0, zstd;q=0.5", Some(Coding::Gzip));
        check("gzip;q=0, br", None);
        check("identity", None);
        check("zstd;q=much, gzip", Some(Coding::Gzip));
    }

    #[tokio::test]
    async fn bodies_are_the_same_afterwards() {
        let rows = "row\n".repeat(100_000);
        let response = encoded(Response::new(Body::from(rows.clone())), Coding::Gzip);
        let bytes = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        assert!(bytes.len() < 10_000);
        let mut plain = String::new();
        GzipDecoder::new(&bytes[..]).read_to_string(&mut plain).await.unwrap();
        assert_eq!(plain, rows);
    }

    #[tokio::test]
    async fn an_answer_that_breaks_off_stays_one() {
        let pieces = [Ok("row\n".repeat(100)), Err(io::Error::other("broken"))];
        let body = Body::from_stream(futures::stream::iter(pieces));
        let response = encoded(Response::new(body), Coding::Zstd);
        assert!(to_bytes(response.into_body(), usize::MAX).await.is_err());
    }
}
