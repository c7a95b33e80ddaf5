//! The two halves of a connection: messages in, messages out.

use std::cell::RefCell;
use std::future::{pending, poll_fn};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::FutureExt;
use pgwire::messages::PgWireBackendMessage;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, ReadBuf, ReadHalf, WriteHalf};

use super::messages::{Request, decode, take_frame};
use crate::net::tls::Stream;
use crate::pgwire::errors::{Failure, Stop};

/// Bytes that a client may send ahead while a statement runs. More stay in the socket.
const READ_AHEAD_BYTES: usize = 1 << 20;

/// Output is sent when this much has gathered, so that rows leave in packets, not one by one.
const FLUSH_BYTES: usize = 64 << 10;

/// How much is received at a time.
const INPUT_BYTES: usize = 64 << 10;
/// Initial capacity of an output buffer.
const OUTPUT_BYTES: usize = 8 << 10;
/// Output buffers that each thread keeps for the next answers.
const SPARE_BUFFERS: usize = 8;

thread_local! {
    /// Output buffers between two answers. A thousand silent connections hold none of them, and connections that
    /// answer one after the other write into the same one, which is still in the processor's cache.
    static SPARE: RefCell<Vec<BytesMut>> = const { RefCell::new(Vec::new()) };

    /// The receive buffer of this thread, shared by its connections: a connection keeps only the bytes that it has received.
    static RECEIVED: RefCell<Vec<u8>> = RefCell::new(vec![0; INPUT_BYTES]);
}

/// How long a last message may take to leave.
const FAREWELL: Duration = Duration::from_secs(1);

/// Splits a connection, of which `read` has been read already.
pub fn split(stream: Stream, read: &[u8]) -> (Input, Output) {
    let (reader, writer) = tokio::io::split(stream);
    let input = Input { reader, buffer: BytesMut::from(read), closed: false };
    (input, Output { writer, buffer: BytesMut::new() })
}

/// Messages from the client.
pub struct Input {
    reader: ReadHalf<Stream>,
    buffer: BytesMut,
    closed: bool,
}

impl Input {
    /// The next message. Dropping the future loses nothing.
    ///
    /// # Errors
    /// [`Stop::Gone`] at the end of the stream, a failure if the bytes are not a message.
    pub async fn next(&mut self, limit_bytes: usize) -> Result<Request, Stop> {
        loop {
            if let Some((kind, body)) = take_frame(&mut self.buffer, limit_bytes)? {
                if self.buffer.is_empty() {
                    // An empty buffer would still hold the memory of the last message.
                    self.buffer = BytesMut::new();
                }
                return Ok(decode(kind, body)?);
            }
            self.fill().await?;
        }
    }

    /// The body of the next message, which must be about a login.
    pub async fn login_message(&mut self, limit_bytes: usize) -> Result<Bytes, Stop> {
        loop {
            match take_frame(&mut self.buffer, limit_bytes)? {
                Some((b'p', body)) => return Ok(body),
                Some(_) => return Err(Failure::protocol("expected a message about the login").into()),
                None => self.fill().await?,
            }
        }
    }

    /// Throws away bytes that have come already: closing a socket that holds unread bytes would reset the connection,
    /// and the last message to the client would be lost with it.
    pub fn discard(&mut self) {
        let mut sink = [0_u8; 4 << 10];
        let mut left = READ_AHEAD_BYTES;
        while let Some(Ok(count @ 1..)) = self.reader.read(&mut sink).now_or_never() {
            left = left.saturating_sub(count);
            if left == 0 {
                return;
            }
        }
    }

    /// Throws away further input for a while: a client that cannot finish sending does not read the last message.
    pub async fn drain(&mut self) {
        let mut sink = vec![0; INPUT_BYTES];
        let rest = async { while let Ok(1..) = self.reader.read(&mut sink).await {} };
        let _ = tokio::time::timeout(FAREWELL, rest).await;
    }

    /// Resolves when the client has closed the connection, and only then; meanwhile keeps the bytes it sends.
    pub async fn gone(&mut self) {
        loop {
            if self.closed {
                return;
            }
            if self.buffer.len() >= READ_AHEAD_BYTES {
                // A client that floods the server while its statement runs is not watched any more:
                // the next write to it will tell.
                return pending().await;
            }
            if self.fill().await.is_err() {
                return;
            }
        }
    }

    /// At least `count` bytes of the start-up phase, which has no message types yet.
    pub async fn peek(&mut self, count: usize) -> Result<&mut BytesMut, Stop> {
        while self.buffer.len() < count {
            self.fill().await?;
        }
        Ok(&mut self.buffer)
    }

    async fn fill(&mut self) -> Result<(), Stop> {
        if self.closed {
            return Err(Stop::Gone);
        }
        match poll_fn(|context| self.receive(context)).await {
            Ok(0) | Err(_) => {
                self.closed = true;
                Err(Stop::Gone)
            }
            Ok(_) => Ok(()),
        }
    }

    /// Receives once, and gives how many bytes came.
    fn receive(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        RECEIVED.with_borrow_mut(|room| {
            let mut room = ReadBuf::new(room);
            ready!(Pin::new(&mut self.reader).poll_read(context, &mut room))?;
            let received = room.filled();
            if self.buffer.is_empty() {
                self.buffer = BytesMut::from(received);
            } else {
                self.buffer.extend_from_slice(received);
            }
            Poll::Ready(Ok(received.len()))
        })
    }
}

/// Messages to the client.
pub struct Output {
    writer: WriteHalf<Stream>,
    buffer: BytesMut,
}

impl Output {
    /// Adds a message to the buffered output.
    ///
    /// # Errors
    /// A message too large for the protocol.
    pub fn put(&mut self, message: &PgWireBackendMessage) -> Result<(), Stop> {
        message.encode(self.buffer()).map_err(|error| Failure::protocol(error.to_string()).into())
    }

    /// Where rows are written directly.
    pub fn buffer(&mut self) -> &mut BytesMut {
        if self.buffer.capacity() == 0 {
            let spare = SPARE.with_borrow_mut(Vec::pop);
            self.buffer = spare.unwrap_or_else(|| BytesMut::with_capacity(OUTPUT_BYTES));
        }
        &mut self.buffer
    }

    /// Whether the buffered output is worth a packet.
    pub fn is_full(&self) -> bool {
        self.buffer.len() >= FLUSH_BYTES
    }

    /// Sends everything. Waits while the client does not read; dropping the future keeps the unsent bytes.
    pub async fn flush(&mut self) -> Result<(), Stop> {
        self.writer.write_all_buf(&mut self.buffer).await?;
        // Encryption takes more bytes than the socket had room for, and sends the rest only on a flush.
        self.writer.flush().await?;
        give_back(std::mem::take(&mut self.buffer));
        Ok(())
    }

    /// Sends as much as leaves within [`FAREWELL`], and closes this direction.
    pub async fn close(&mut self) {
        let farewell = async {
            let _ = self.flush().await;
            let _ = self.writer.shutdown().await;
        };
        // A client that does not read must not keep the connection from ending.
        let _ = tokio::time::timeout(FAREWELL, farewell).await;
    }
}

/// Keeps a buffer for the next answer of this thread. One that a wide row has made large is not kept.
fn give_back(mut buffer: BytesMut) {
    buffer.clear();
    // Takes back the room of the bytes that were sent.
    buffer.reserve(OUTPUT_BYTES);
    SPARE.with_borrow_mut(|spare| {
        if spare.len() < SPARE_BUFFERS && buffer.capacity() <= 4 * FLUSH_BYTES {
            spare.push(buffer);
        }
    });
}
