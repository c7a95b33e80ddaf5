//! Messages from the client, decoded without trusting a single length in them.
//!
//! ```text
//! ┌──────┬────────────┬──────────────────┐
//! │ type │ length     │ body             │   length counts itself and the body,
//! │ 1 B  │ 4 B, be    │ length - 4 bytes │   not the type
//! └──────┴────────────┴──────────────────┘
//! ```
//!
//! pgwire's own decoders are not used for this direction: they read past the end of a short body,
//! into the next message or into a panic.
//!
//! Source: PostgreSQL documentation, "Message Formats".

use bytes::{Buf, Bytes, BytesMut};

use crate::pgwire::errors::{Failure, sqlstate};

/// A message of the client after start-up.
#[derive(Debug, PartialEq, Eq)]
pub enum Request {
    /// Simple protocol: any number of statements in one text.
    Query(Result<String, Failure>),
    /// Makes a prepared statement. An empty name means the unnamed one.
    Parse { name: String, sql: String, types: Vec<u32> },
    /// Makes a portal of a prepared statement and its parameters.
    Bind(Bind),
    /// Asks for the parameters and columns of a statement or portal.
    Describe { target: Target, name: String },
    /// Runs a portal; 0 rows mean all of them.
    Execute { portal: String, max_rows: usize },
    /// Forgets a statement or portal.
    Close { target: Target, name: String },
    /// Asks for the buffered output of the server.
    Flush,
    /// Ends a batch of extended messages.
    Sync,
    /// The client says goodbye.
    Terminate,
    /// Rows of a COPY. A client may go on sending them after an error.
    CopyData(Bytes),
    /// There are no more rows.
    CopyDone,
    /// There will be no more rows, and the rows so far are not to be kept.
    CopyFail(String),
}

/// The target of [`Request::Describe`] and [`Request::Close`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    Statement,
    Portal,
}

/// Values and formats for a prepared statement.
#[derive(Debug, PartialEq, Eq)]
pub struct Bind {
    pub portal: String,
    pub statement: String,
    /// 0 is text, 1 is binary; none means all text, one counts for all.
    pub parameter_formats: Vec<i16>,
    /// The raw values; none is NULL.
    pub parameters: Vec<Option<Bytes>>,
    /// As `parameter_formats`, for the result columns.
    pub result_formats: Vec<i16>,
}

/// Takes one whole message off the front of `buffer`, as type and body. None means that bytes are missing.
///
/// # Errors
/// A length that is impossible, or beyond `limit_bytes`.
pub fn take_frame(buffer: &mut BytesMut, limit_bytes: usize) -> Result<Option<(u8, Bytes)>, Failure> {
    let mut header = &buffer[..];
    let (Ok(kind), Ok(length)) = (header.try_get_u8(), header.try_get_u32()) else {
        return Ok(None);
    };
    let length = length as usize;
    if length < 4 {
        return Err(Failure::protocol(format!("invalid message length `{length}`")));
    }
    if length > limit_bytes {
        let message = format!("a message of {length} bytes is larger than the limit of {limit_bytes} bytes");
        return Err(Failure::fatal(sqlstate::PROGRAM_LIMIT_EXCEEDED, message));
    }
    if buffer.len() <= length {
        return Ok(None);
    }
    let mut frame = buffer.split_to(length + 1);
    frame.advance(5);
    Ok(Some((kind, frame.freeze())))
}

/// Decodes one message.
///
/// # Errors
/// A type the protocol does not know, or a body that does not fit its type.
pub fn decode(kind: u8, body: Bytes) -> Result<Request, Failure> {
    let mut body = Body { kind, bytes: body };
    let request = match kind {
        // A malformed query fails like any other query: the next message is read, without a Sync.
        b'Q' => return Ok(Request::Query(body.only_text())),
        b'P' => Request::Parse { name: body.text()?, sql: body.text()?, types: body.list(Body::u32)? },
        b'B' => Request::Bind(body.bind()?),
        b'D' => Request::Describe { target: body.target()?, name: body.text()? },
        b'C' => Request::Close { target: body.target()?, name: body.text()? },
        b'E' => Request::Execute {
            portal: body.text()?,
            // A negative count means "all" to PostgreSQL, too.
            max_rows: usize::try_from(body.i32()?).unwrap_or(0),
        },
        b'H' => Request::Flush,
        b'S' => Request::Sync,
        b'X' => Request::Terminate,
        b'd' => return Ok(Request::CopyData(body.bytes)),
        b'c' => Request::CopyDone,
        b'f' => Request::CopyFail(body.text()?),
        _ => return Err(Failure::protocol(format!("invalid frontend message type {kind}"))),
    };
    if body.bytes.has_remaining() { Err(body.malformed()) } else { Ok(request) }
}

/// The rest of a message body.
struct Body {
    kind: u8,
    bytes: Bytes,
}

impl Body {
    fn malformed(&self) -> Failure {
        Failure::protocol(format!("malformed message of type `{}`", char::from(self.kind).escape_default()))
    }

    fn u8(&mut self) -> Result<u8, Failure> {
        self.bytes.try_get_u8().map_err(|_| self.malformed())
    }

    fn i16(&mut self) -> Result<i16, Failure> {
        self.bytes.try_get_i16().map_err(|_| self.malformed())
    }

    fn i32(&mut self) -> Result<i32, Failure> {
        self.bytes.try_get_i32().map_err(|_| self.malformed())
    }

    fn u32(&mut self) -> Result<u32, Failure> {
        self.bytes.try_get_u32().map_err(|_| self.malformed())
    }

    /// A text up to its NUL.
    fn text(&mut self) -> Result<String, Failure> {
        let end = self.bytes.iter().position(|byte| *byte == 0).ok_or_else(|| self.malformed())?;
        let text = self.bytes.split_to(end);
        self.bytes.advance(1);
        String::from_utf8(text.to_vec())
            .map_err(|_| Failure::error(sqlstate::INVALID_CHARACTERS, "text is not valid UTF-8"))
    }

    fn only_text(&mut self) -> Result<String, Failure> {
        let text = self.text()?;
        if self.bytes.has_remaining() { Err(self.malformed()) } else { Ok(text) }
    }

    /// Items after their count.
    fn list<T>(&mut self, item: fn(&mut Self) -> Result<T, Failure>) -> Result<Vec<T>, Failure> {
        let count = self.bytes.try_get_u16().map_err(|_| self.malformed())?;
        (0..count).map(|_| item(self)).collect()
    }

    /// A value after its length; -1 is NULL.
    fn value(&mut self) -> Result<Option<Bytes>, Failure> {
        let length = self.i32()?;
        if length == -1 {
            return Ok(None);
        }
        let length = usize::try_from(length).map_err(|_| self.malformed())?;
        if length > self.bytes.len() {
            return Err(self.malformed());
        }
        Ok(Some(self.bytes.split_to(length)))
    }

    fn target(&mut self) -> Result<Target, Failure> {
        match self.u8()? {
            b'S' => Ok(Target::Statement),
            b'P' => Ok(Target::Portal),
            _ => Err(self.malformed()),
        }
    }

    fn bind(&mut self) -> Result<Bind, Failure> {
        Ok(Bind {
            portal: self.text()?,
            statement: self.text()?,
            parameter_formats: self.list(Self::i16)?,
            parameters: self.list(Self::value)?,
            result_formats: self.list(Self::i16)?,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]
    use super::*;

    #[test]
    fn a_frame_is_taken_only_when_it_is_whole() {
        let mut buffer = BytesMut::from(&b"Q\0\0\0\x06a\0S\0\0"[..]);
        let (kind, body) = take_frame(&mut buffer, 100).unwrap().unwrap();
        assert_eq!(decode(kind, body), Ok(Request::Query(Ok("a".to_owned()))));
        assert_eq!(take_frame(&mut buffer, 100), Ok(None));
        assert_eq!(buffer.len(), 3);
    }

    #[test]
    fn impossible_lengths_are_refused() {
        for bytes in [&b"Q\0\0\0\x03"[..], b"Q\xff\xff\xff\xff", b"Q\0\0\0\xff"] {
            assert!(take_frame(&mut BytesMut::from(bytes), 100).unwrap_err().is_fatal());
        }
    }

    #[test]
    fn malformed_bodies_are_errors_not_panics() {
        let check = |kind, body: &'static [u8]| assert!(decode(kind, Bytes::from_static(body)).is_err());
        for body in [&b"no terminator"[..], b"two\0ends\0", b"\xff\0"] {
            let decoded = decode(b'Q', Bytes::from_static(body));
            assert!(matches!(decoded, Ok(Request::Query(Err(_)))), "{decoded:?}");
        }
        check(b'P', b"\0select 1\0\0\x09");
        check(b'B', b"\0\0\0\0\0\x01\x7f\xff\xff\xff");
        check(b'B', b"\0\0\0\0\0\x01\xff\xff\xff\xfe");
        check(b'D', b"X\0");
        check(b'E', b"\0\0\0");
        check(b'?', b"");
    }

    #[test]
    fn a_bind_with_null_and_formats() {
        let body = b"p\0s\0\0\x01\0\x01\0\x02\xff\xff\xff\xff\0\0\0\x02hi\0\x01\0\x01";
        let Ok(Request::Bind(bind)) = decode(b'B', Bytes::from_static(body)) else { panic!("not a Bind") };
        assert_eq!((bind.portal.as_str(), bind.statement.as_str()), ("p", "s"));
        assert_eq!(bind.parameters, [None, Some(Bytes::from_static(b"hi"))]);
        assert_eq!((bind.parameter_formats, bind.result_formats), (vec![1], vec![1]));
    }

    #[test]
    fn no_bytes_panic_the_decoder() {
        let mut state = 0x2545_f491_u32;
        for length in 0..4000_usize {
            let body: Vec<u8> = (0..length % 40)
                .map(|_| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    (state >> 24) as u8 & 7
                })
                .collect();
            let kind = b"QPBDCEHSXdcf?"[length % 13];
            let _ = decode(kind, Bytes::from(body));
        }
    }
}
