//! What a client sends in a call, on its way to the library that cuts it into messages.
//!
//! The library takes a call that its client gives up for one that has ended: a load would be taken for whole whose client could not send
//! the rest, as when a batch is too large for it.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::Body;
use axum::extract::Request;
use axum::http::Version;
use axum::middleware::Next;
use axum::response::Response;
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tonic::Status;

/// Puts a [`CallBody`] in the place of the body of a call.
pub async fn receive(request: Request, next: Next) -> Response {
    let has_end = request.version() == Version::HTTP_2;
    next.run(request.map(|body| Body::new(CallBody { body, has_end }))).await
}

/// The bytes of a call: they end with the call, or in an error.
struct CallBody<B> {
    body: B,
    /// Whether the protocol tells the end of a call from that of its bytes.
    has_end: bool,
}

impl<B> HttpBody for CallBody<B>
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: fmt::Display,
{
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = &mut *self;
        Poll::Ready(match ready!(Pin::new(&mut this.body).poll_frame(context)) {
            Some(Ok(frame)) => Some(Ok(frame)),
            Some(Err(error)) => Some(Err(broken_off(&error))),
            None if this.has_end && !this.body.is_end_stream() => {
                Some(Err(broken_off(&"its stream was reset")))
            }
            None => None,
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Not `CANCELLED`, which the library takes for an end.
fn broken_off(reason: &dyn fmt::Display) -> Status {
    Status::aborted(format!("the client gave up the call before its end: {reason}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use futures::FutureExt;
    use http_body_util::BodyExt;
    use tonic::Code;

    use super::*;

    /// A body of one piece, and of what comes behind it.
    struct Sent {
        piece: Option<Bytes>,
        behind: Option<Status>,
        ended: bool,
    }

    impl HttpBody for Sent {
        type Data = Bytes;
        type Error = Status;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
            let piece = self.piece.take().map(|piece| Ok(Frame::data(piece)));
            Poll::Ready(piece.or_else(|| self.behind.take().map(Err)))
        }

        fn is_end_stream(&self) -> bool {
            self.ended
        }
    }

    /// The code that ends a call; none if it ends well.
    fn end_of(behind: Option<Status>, ended: bool, has_end: bool) -> Option<Code> {
        let body = Sent { piece: Some(Bytes::from_static(b"piece")), behind, ended };
        let body = CallBody { body, has_end };
        body.collect().now_or_never().unwrap().err().map(|status| status.code())
    }

    #[test]
    fn a_call_that_is_given_up_does_not_end_well() {
        assert_eq!(end_of(None, true, true), None);
        assert_eq!(end_of(None, false, true), Some(Code::Aborted));
        assert_eq!(end_of(Some(Status::cancelled("reset")), false, true), Some(Code::Aborted));
        // Before HTTP/2, bytes that end too soon are an error by themselves.
        assert_eq!(end_of(None, false, false), None);
    }

    #[test]
    fn the_library_keeps_the_error() {
        let status = Status::from_error(Box::new(axum::Error::new(broken_off(&"reset"))));
        assert_eq!(status.code(), Code::Aborted, "{status}");
    }
}
