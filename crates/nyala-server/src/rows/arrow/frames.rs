//! Cuts a stream into messages.
//!
//! ```text
//! ┌─────────────────┬─────────────────┬────────────────────┬───────────────────────┐
//! │ 0xFFFFFFFF      │ length          │ metadata           │ body                  │
//! │ 4 B, not in old │ 4 B, 0: the end │ length bytes       │ as long as metadata   │
//! │ streams         │                 │ (a flatbuffer)     │ says                  │
//! └─────────────────┴─────────────────┴────────────────────┴───────────────────────┘
//! ```
//!
//! Memory is allocated for received bytes, never for an announced length: room at most doubles as bytes arrive.

use arrow::buffer::Buffer;
use arrow::ipc::{Message, root_as_message_with_opts};
use flatbuffers::VerifierOptions;
use nyala_engine::QueryError;

use super::refusal::{malformed, too_large};

const CONTINUATION: u32 = u32::MAX;
/// Longest metadata: those of ten thousand columns have a megabyte.
const MAX_METADATA_BYTES: usize = 16 << 20;
/// Most tables of a flatbuffer, each counted as often as it is referred to.
const MAX_TABLES: usize = 200_000;
/// Most bytes of a flatbuffer, each counted as often as it is referred to: a schema of many fields may share one long text.
const MAX_EXPANDED_BYTES: usize = 64 << 20;

/// A message.
pub struct Frame {
    /// A flatbuffer that [`message`] reads.
    pub metadata: Vec<u8>,
    pub body: Buffer,
}

/// The part of the stream that comes next.
enum Stage {
    Length { continued: bool },
    Metadata { length: usize },
    Body { length: usize },
    Ended,
}

/// Gathers messages of a stream.
pub struct Frames {
    stage: Stage,
    /// The length, then the metadata.
    head: Vec<u8>,
    body: Vec<u8>,
    limit_bytes: usize,
}

impl Frames {
    /// Takes messages of at most `limit_bytes`.
    pub fn new(limit_bytes: usize) -> Self {
        Self { stage: Stage::Length { continued: false }, head: Vec::new(), body: Vec::new(), limit_bytes }
    }

    /// Takes the bytes of the next message off the front of `bytes`, and gives it once it is whole.
    pub fn next(&mut self, bytes: &mut &[u8]) -> Result<Option<Frame>, QueryError> {
        loop {
            match self.stage {
                Stage::Length { continued } => {
                    let Some(length) = self.length(bytes) else { return Ok(None) };
                    self.stage = self.after_length(length, continued)?;
                }
                Stage::Metadata { length } => {
                    if !fill(&mut self.head, bytes, length) {
                        return Ok(None);
                    }
                    self.stage = Stage::Body { length: self.body_bytes()? };
                }
                Stage::Body { length } => {
                    if !fill(&mut self.body, bytes, length) {
                        return Ok(None);
                    }
                    self.stage = Stage::Length { continued: false };
                    let body = Buffer::from_vec(std::mem::take(&mut self.body));
                    return Ok(Some(Frame { metadata: std::mem::take(&mut self.head), body }));
                }
                Stage::Ended if bytes.is_empty() => return Ok(None),
                Stage::Ended => return Err(malformed("there is data behind its end")),
            }
        }
    }

    /// Whether the stream may end here.
    pub fn is_between_messages(&self) -> bool {
        match self.stage {
            Stage::Ended => true,
            Stage::Length { continued } => !continued && self.head.is_empty(),
            Stage::Metadata { .. } | Stage::Body { .. } => false,
        }
    }

    fn length(&mut self, bytes: &mut &[u8]) -> Option<u32> {
        if !fill(&mut self.head, bytes, size_of::<u32>()) {
            return None;
        }
        let length = self.head.first_chunk().copied().map(u32::from_le_bytes);
        self.head.clear();
        length
    }

    fn after_length(&self, length: u32, continued: bool) -> Result<Stage, QueryError> {
        let length = match length {
            CONTINUATION if !continued => return Ok(Stage::Length { continued: true }),
            0 => return Ok(Stage::Ended),
            length => length as usize,
        };
        if length > MAX_METADATA_BYTES.min(self.limit_bytes) {
            return Err(malformed(format!("a message has metadata of {length} bytes")));
        }
        Ok(Stage::Metadata { length })
    }

    fn body_bytes(&self) -> Result<usize, QueryError> {
        let length = message(&self.head)?.bodyLength();
        let length = usize::try_from(length).map_err(|_| malformed("a message has a negative length"))?;
        match length.saturating_add(self.head.len()) > self.limit_bytes {
            true => Err(too_large(self.limit_bytes)),
            false => Ok(length),
        }
    }
}

/// The metadata of a message: a flatbuffer with every offset inside it.
pub fn message(metadata: &[u8]) -> Result<Message<'_>, QueryError> {
    let options = VerifierOptions {
        max_tables: MAX_TABLES,
        max_apparent_size: MAX_EXPANDED_BYTES,
        ..VerifierOptions::default()
    };
    root_as_message_with_opts(&options, metadata).map_err(malformed)
}

/// Moves bytes to `place` until it has `length` of them; false if there are too few.
fn fill(place: &mut Vec<u8>, bytes: &mut &[u8], length: usize) -> bool {
    let missing = length.saturating_sub(place.len());
    let (taken, rest) = bytes.split_at(missing.min(bytes.len()));
    let needed = place.len() + taken.len();
    if needed > place.capacity() {
        place.reserve_exact(needed.max(2 * place.len()).min(length) - place.len());
    }
    place.extend_from_slice(taken);
    *bytes = rest;
    place.len() >= length
}
