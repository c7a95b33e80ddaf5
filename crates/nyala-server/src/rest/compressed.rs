//! Decompresses request bodies, after [`login`](super::login), so that only known clients cause the work.
//!
//! The handler sees the decompressed body, and its limits count the decompressed bytes. A streamed body has no
//! length, so it may only grow to so many times the received bytes: a gigabyte of zeros is a megabyte of gzip.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_compression::tokio::bufread::{GzipDecoder, ZstdDecoder};
use async_compression::zstd::DParameter;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::StreamExt;
use tokio::io::AsyncRead;
use tokio_util::io::{ReaderStream, StreamReader};

use crate::http::{ApiError, Shared};

/// The greatest ratio: good compression makes rows fifty times shorter.
const MAX_RATIO: u64 = 250;
/// The longest window of zstd, which takes memory: 8 MiB, as RFC 9659 asks of clients.
const ZSTD_WINDOW_LOG: u32 = 23;
/// Decompressed bytes that are handed on at a time.
const PIECE_BYTES: usize = 64 << 10;
const CODINGS: &str = "gzip, zstd";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Coding {
    Gzip,
    Zstd,
}

/// A body became too long for the bytes received.
#[derive(Debug, thiserror::Error)]
#[error("the body becomes more than {MAX_RATIO} times as long as what was sent")]
struct Expands;

/// The request with its body decompressed, if it is compressed.
pub fn decompressed(request: Request, shared: &Shared) -> Result<Request, UnknownCoding> {
    let Some(coding) = coding(request.headers())? else {
        return Ok(request);
    };
    let (mut head, body) = request.into_parts();
    head.headers.remove(header::CONTENT_ENCODING);
    head.headers.remove(header::CONTENT_LENGTH);
    let body = plain(body, coding, shared.max_body_bytes as u64);
    Ok(Request::from_parts(head, body))
}

/// How the body is compressed.
fn coding(headers: &HeaderMap) -> Result<Option<Coding>, UnknownCoding> {
    let given: Vec<&[u8]> =
        headers.get_all(header::CONTENT_ENCODING).iter().map(HeaderValue::as_bytes).collect();
    let [given] = given.as_slice() else {
        return if given.is_empty() { Ok(None) } else { Err(UnknownCoding("several".to_owned())) };
    };
    match given.trim_ascii().to_ascii_lowercase().as_slice() {
        b"" | b"identity" => Ok(None),
        b"gzip" | b"x-gzip" => Ok(Some(Coding::Gzip)),
        b"zstd" => Ok(Some(Coding::Zstd)),
        _ => Err(UnknownCoding(String::from_utf8_lossy(given).into_owned())),
    }
}

/// The body has a content coding that this server does not know: its name.
#[derive(Debug, PartialEq, Eq)]
pub struct UnknownCoding(String);

impl IntoResponse for UnknownCoding {
    fn into_response(self) -> Response {
        let message = format!("the content encoding `{}` is not understood", self.0);
        let refusal = ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message)
            .hint(format!("send {CODINGS}, or the body as it is"));
        // RFC 9110, section 15.5.16.
        ([(header::ACCEPT_ENCODING, HeaderValue::from_static(CODINGS))], refusal).into_response()
    }
}

/// The decompressed body; the ratio does not limit its first `free_bytes`.
fn plain(body: Body, coding: Coding, free_bytes: u64) -> Body {
    let received = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&received);
    let counted = body.into_data_stream().map(move |piece| {
        let piece = piece.map_err(io::Error::other)?;
        counter.fetch_add(piece.len() as u64, Ordering::Relaxed);
        Ok::<_, io::Error>(piece)
    });
    let mut written = 0_u64;
    let pieces = ReaderStream::with_capacity(decoder(StreamReader::new(counted), coding), PIECE_BYTES);
    Body::from_stream(pieces.map(move |piece| -> Result<_, Box<dyn Error + Send + Sync>> {
        let piece = piece?;
        written = written.saturating_add(piece.len() as u64);
        let allowed = received.load(Ordering::Relaxed).saturating_mul(MAX_RATIO).max(free_bytes);
        if written > allowed { Err(Box::new(Expands)) } else { Ok(piece) }
    }))
}

fn decoder(
    compressed: impl tokio::io::AsyncBufRead + Send + Unpin + 'static,
    coding: Coding,
) -> Box<dyn AsyncRead + Send + Unpin> {
    // Several compressed files in a row count as one, as the programs `gzip` and `zstd` read them.
    match coding {
        Coding::Gzip => {
            let mut decoder = GzipDecoder::new(compressed);
            decoder.multiple_members(true);
            Box::new(decoder)
        }
        Coding::Zstd => {
            let window = [DParameter::window_log_max(ZSTD_WINDOW_LOG)];
            let mut decoder = ZstdDecoder::with_params(compressed, &window);
            decoder.multiple_members(true);
            Box::new(decoder)
        }
    }
}

/// The error for a body that cannot be read to its end.
pub fn unreadable(error: &axum::Error) -> ApiError {
    let mut source: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = source {
        if let Some(expands) = error.downcast_ref::<Expands>() {
            return ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", expands.to_string());
        }
        source = error.source();
    }
    ApiError::new(StatusCode::BAD_REQUEST, "invalid_request", format!("the body broke off: {error}"))
}

#[cfg(test)]
#[path = "compressed_tests.rs"]
mod tests;
