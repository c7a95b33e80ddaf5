//! What a client sends in a call, on its way to the library that cuts it into messages.
//!
//! The library takes a call that its client gives up for one that has ended: a load without its last rows would be written, as when a batch
//! is too large for the client. And it holds each message until it is whole, without a bound for all of them together or for the time that
//! one takes.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::Version;
use axum::middleware::Next;
use axum::response::Response;
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::time::{Sleep, sleep};
use tonic::Status;

use super::receive_budget::{ReceiveBudget, Sender, Share};
use super::sessions::Caller;

/// A message begins with a byte of flags and four of its length.
const HEAD_BYTES: usize = 5;
/// Longest wait for more of a message that has begun: it takes memory that others may need.
const MAX_WAIT: Duration = Duration::from_secs(60);
/// Bytes after which a wait begins anew. Fewer are no progress, or a client that sends one at a time would be waited for without end: the
/// slowest that is waited for sends 1 KiB in a second.
const PROGRESS_BYTES: usize = 64 << 10;

/// Puts a [`CallBody`] in the place of the body of a call.
pub async fn receive(State(budget): State<Arc<ReceiveBudget>>, request: Request, next: Next) -> Response {
    let Some(caller) = request.extensions().get::<Caller>() else {
        return Status::internal("a call came past the login").into_http();
    };
    let has_end = request.version() == Version::HTTP_2;
    let share = budget.share(Sender::of(caller));
    next.run(request.map(|body| Body::new(CallBody::new(body, has_end, share, MAX_WAIT)))).await
}

/// The bytes of a call: they end with the call, or in an error.
struct CallBody<B> {
    body: B,
    /// Whether the protocol tells the end of a call apart from an end of its bytes.
    has_end: bool,
    messages: Messages,
    /// The budget's share for the bytes that the library holds.
    share: Share,
    wait: Wait,
}

impl<B> CallBody<B> {
    fn new(body: B, has_end: bool, share: Share, max_wait: Duration) -> Self {
        Self { body, has_end, messages: Messages::default(), share, wait: Wait::new(max_wait) }
    }

    /// Counts the bytes of the unfinished message, and `more` bytes that the library holds besides.
    fn hold(&mut self, more: usize) -> Result<(), Status> {
        self.share.resize(self.messages.unfinished.saturating_add(more))
    }

    fn count(&mut self, frame: Frame<Bytes>) -> Result<Frame<Bytes>, Status> {
        if let Some(bytes) = frame.data_ref() {
            // Bytes of messages that are whole now count, too: the library holds them until it hands the messages on.
            self.hold(bytes.len())?;
            let with_these = self.messages.unfinished.saturating_add(bytes.len());
            self.messages.take(bytes);
            self.wait.progress(bytes.len(), self.messages.unfinished < with_these);
        }
        Ok(frame)
    }

    /// No bytes are there yet: an error once the unfinished message has been waited for too long.
    fn poll_wait(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        // Between messages, a load may wait for its rows as long as it likes.
        if self.messages.unfinished == 0 {
            return Poll::Pending;
        }
        ready!(self.wait.poll_over(context));
        Poll::Ready(Some(Err(stalled(self.wait.longest))))
    }
}

/// The wait for the rest of a message that has begun. Only time in which the library asks for more is counted: between whole messages it may
/// not ask for as long as rows are written.
#[derive(Debug)]
struct Wait {
    longest: Duration,
    /// None while bytes come as soon as they are asked for.
    timer: Option<Pin<Box<Sleep>>>,
    /// Bytes that have come since the timer was set.
    come: usize,
}

impl Wait {
    fn new(longest: Duration) -> Self {
        Self { longest, timer: None, come: 0 }
    }

    /// Notes that `bytes` more bytes have come. `whole` tells that a message ended in them.
    fn progress(&mut self, bytes: usize, whole: bool) {
        self.come = self.come.saturating_add(bytes);
        if whole || self.come >= PROGRESS_BYTES {
            self.timer = None;
        }
    }

    /// Ready once the wait is over without enough progress. A wait begins with the first call after progress.
    fn poll_over(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.timer.is_none() {
            self.come = 0;
        }
        self.timer.get_or_insert_with(|| Box::pin(sleep(self.longest))).as_mut().poll(context)
    }
}

/// The messages among the bytes of a call.
#[derive(Debug, Default)]
struct Messages {
    /// The first bytes of the message that is not whole.
    head: Vec<u8>,
    /// Bytes that the unfinished message lacks, once its head is there.
    missing: usize,
    /// Bytes of the unfinished message that have come.
    unfinished: usize,
}

impl Messages {
    fn take(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let in_head = HEAD_BYTES.saturating_sub(self.head.len());
            let wanted = if in_head > 0 { in_head } else { self.missing };
            let (part, rest) = bytes.split_at(wanted.min(bytes.len()));
            bytes = rest;
            self.unfinished = self.unfinished.saturating_add(part.len());
            if in_head > 0 {
                self.head.extend_from_slice(part);
                self.missing = self.length();
            } else {
                self.missing = self.missing.saturating_sub(part.len());
            }
            if self.head.len() == HEAD_BYTES && self.missing == 0 {
                *self = Self::default();
            }
        }
    }

    /// The length of the message, as its head states it.
    fn length(&self) -> usize {
        let length = self.head.last_chunk().copied().map(u32::from_be_bytes);
        usize::try_from(length.unwrap_or_default()).unwrap_or(usize::MAX)
    }
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
        // The library asks for more only when it has handed on the whole messages. Giving bytes back never fails.
        let _ = this.hold(0);
        let Poll::Ready(next) = Pin::new(&mut this.body).poll_frame(context) else {
            return this.poll_wait(context);
        };
        Poll::Ready(match next {
            Some(Ok(frame)) => Some(this.count(frame)),
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

fn stalled(longest: Duration) -> Status {
    Status::deadline_exceeded(format!(
        "the client began to send a message, and sent less than {} KiB more of it in {} s; \
         send smaller batches, or look at the network [57014]",
        PROGRESS_BYTES >> 10,
        longest.as_secs()
    ))
}

/// The status of a call that broke off: not `CANCELLED`, which the library takes for the end of a call.
fn broken_off(reason: &dyn fmt::Display) -> Status {
    Status::aborted(format!("the client gave up the call before its end: {reason}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::task::Waker;

    use futures::{FutureExt, StreamExt, stream};
    use http_body_util::{BodyExt, StreamBody};
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

    fn call<B>(body: B, has_end: bool, budget: &Arc<ReceiveBudget>) -> CallBody<B> {
        CallBody::new(body, has_end, budget.share(Sender::Connection(1)), MAX_WAIT)
    }

    /// The code that ends a call; none if it ends well.
    fn end_of(behind: Option<Status>, ended: bool, has_end: bool) -> Option<Code> {
        let body = Sent { piece: Some(Bytes::from_static(b"piece")), behind, ended };
        call(body, has_end, &ReceiveBudget::new(0))
            .collect()
            .now_or_never()
            .unwrap()
            .err()
            .map(|status| status.code())
    }

    #[test]
    fn a_call_that_is_given_up_does_not_end_well() {
        assert_eq!(end_of(None, true, true), None);
        assert_eq!(end_of(None, false, true), Some(Code::Aborted));
        assert_eq!(end_of(Some(Status::cancelled("reset")), false, true), Some(Code::Aborted));
        // Before HTTP/2, bytes that end too soon are an error by themselves.
        assert_eq!(end_of(None, false, false), None);
    }

    fn message(length: u32) -> Vec<u8> {
        let mut message = vec![0];
        message.extend(length.to_be_bytes());
        message.resize(HEAD_BYTES + length as usize, b'x');
        message
    }

    #[test]
    fn messages_are_cut_wherever_their_bytes_are() {
        let all = [message(300), message(0), message(7), vec![0, 0]].concat();
        for size in [1, 2, 5, 6, 100, all.len()] {
            let mut messages = Messages::default();
            all.chunks(size).for_each(|piece| messages.take(piece));
            assert_eq!(messages.unfinished, 2, "in pieces of {size} bytes");
        }
    }

    /// Takes the next piece, which is there.
    fn next<B>(call: &mut CallBody<B>) -> Result<(), Status>
    where
        B: HttpBody<Data = Bytes> + Unpin,
        B::Error: fmt::Display,
    {
        call.frame().now_or_never().unwrap().unwrap().map(|_| ())
    }

    #[test]
    fn messages_that_are_not_whole_are_bounded_together() {
        const PIECE: usize = 100 << 10;
        let budget = ReceiveBudget::new(2 * PIECE);
        let pieces = |sent: Vec<u8>| {
            let pieces: Vec<_> = sent
                .chunks(PIECE)
                .map(|piece| Ok::<_, Status>(Frame::data(Bytes::copy_from_slice(piece))))
                .collect();
            call(StreamBody::new(stream::iter(pieces)), false, &budget)
        };
        let [mut one, mut other] = [(); 2].map(|()| pieces(message(10 * PIECE as u32)));
        next(&mut one).unwrap();
        next(&mut one).unwrap();
        next(&mut other).unwrap();
        let error = next(&mut other).unwrap_err();
        assert_eq!(error.code(), Code::ResourceExhausted, "{error}");
        // Statements of other calls go on meanwhile.
        next(&mut pieces(message(1000))).unwrap();
        drop(one);
        next(&mut other).unwrap();
        // The bytes of whole messages are given back when the next message is asked for.
        drop(other);
        let many = (0..100).flat_map(|_| message(PIECE as u32)).collect();
        let mut many = pieces(many);
        (0..100).for_each(|_| next(&mut many).unwrap());
    }

    /// A call that sends these bytes, and then neither more bytes nor an end.
    fn stalling(
        sent: Vec<u8>,
        longest: Duration,
    ) -> CallBody<impl HttpBody<Data = Bytes, Error = Status> + Unpin> {
        let sent = stream::iter([Ok::<_, Status>(Frame::data(Bytes::from(sent)))]);
        let share = ReceiveBudget::new(0).share(Sender::Connection(1));
        CallBody::new(StreamBody::new(sent.chain(stream::pending())), true, share, longest)
    }

    #[tokio::test]
    async fn a_message_that_is_not_sent_on_ends_its_call() {
        // The call stops within a head, right behind a head, and in a second message.
        for sent in [
            message(9)[..3].to_vec(),
            message(9)[..5].to_vec(),
            [message(7), message(9)[..8].to_vec()].concat(),
        ] {
            let mut call = stalling(sent, Duration::from_millis(1));
            next(&mut call).unwrap();
            let error = call.frame().await.unwrap().map(|_| ()).unwrap_err();
            assert_eq!(error.code(), Code::DeadlineExceeded, "{error}");
            assert!(error.message().contains("[57014]"), "{error}");
        }
    }

    #[tokio::test]
    async fn a_call_is_waited_for_between_messages() {
        let mut call = stalling(message(9), Duration::ZERO);
        next(&mut call).unwrap();
        assert!(call.frame().now_or_never().is_none());
        assert!(call.wait.timer.is_none());
    }

    #[tokio::test]
    async fn a_wait_begins_anew_after_progress() {
        let mut wait = Wait::new(MAX_WAIT);
        let mut context = Context::from_waker(Waker::noop());
        for (come, whole, begins_anew) in [
            (&[1][..], true, true),
            (&[1][..], false, false),
            (&[PROGRESS_BYTES - 1, 1][..], false, true),
            (&[PROGRESS_BYTES - 1][..], false, false),
        ] {
            assert!(wait.poll_over(&mut context).is_pending());
            come.iter().for_each(|bytes| wait.progress(*bytes, whole));
            assert_eq!(wait.timer.is_none(), begins_anew, "{come:?} bytes, whole: {whole}");
            wait.timer = None;
        }
    }

    #[test]
    fn the_library_keeps_the_error() {
        for (error, code) in
            [(broken_off(&"reset"), Code::Aborted), (stalled(MAX_WAIT), Code::DeadlineExceeded)]
        {
            let status = Status::from_error(Box::new(axum::Error::new(error)));
            assert_eq!(status.code(), code, "{status}");
        }
    }
}
