//! Turns messages of an Arrow IPC stream into batches.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::convert::fb_to_schema;
use arrow::ipc::reader::{RecordBatchDecoder, read_dictionary};
use arrow::ipc::{DictionaryBatch, MessageHeader, MetadataVersion};
use nyala_engine::QueryError;

use super::super::conform::conform;
use super::super::load::{Decode, Target};
use super::super::rejects::Rejects;
use super::frames::{Frame, Frames, message};
use super::layout::check_batch;
use super::refusal::{malformed, too_large};
use super::schema::check_schema;

/// A batch is held until it is whole; a longer one is refused.
const MAX_BATCH_BYTES: usize = 256 << 20;

/// An Arrow IPC stream.
pub struct ArrowStream {
    frames: Frames,
    /// Bytes that came. The first `used` of them are decoded already.
    bytes: Vec<u8>,
    used: usize,
    schema: Option<SchemaRef>,
    dictionaries: HashMap<i64, ArrayRef>,
    limit_bytes: usize,
}

impl Default for ArrowStream {
    fn default() -> Self {
        Self::of_batches(MAX_BATCH_BYTES)
    }
}

impl ArrowStream {
    /// A stream with a limit on the bytes of each batch, and of all dictionaries together.
    pub fn of_batches(limit_bytes: usize) -> Self {
        Self {
            frames: Frames::new(limit_bytes),
            bytes: Vec::new(),
            used: 0,
            schema: None,
            dictionaries: HashMap::new(),
            limit_bytes,
        }
    }

    /// Takes more bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.used.min(self.bytes.len()));
        self.used = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The next batch that is whole by now. One at a time: a compressed batch may take a thousand times its bytes.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>, QueryError> {
        loop {
            let mut unused = self.bytes.get(self.used..).unwrap_or_default();
            let frame = self.frames.next(&mut unused)?;
            self.used = self.bytes.len() - unused.len();
            let Some(frame) = frame else { return Ok(None) };
            // Bytes that pass the checks may still make arrow-ipc panic.
            let taken = catch_unwind(AssertUnwindSafe(|| self.take(&frame)));
            if let Some(batch) = taken.map_err(|_| malformed("a message cannot be decoded"))?? {
                return Ok(Some(batch));
            }
        }
    }

    /// Whether the schema has come.
    pub fn has_schema(&self) -> bool {
        self.schema.is_some()
    }

    fn take(&mut self, frame: &Frame) -> Result<Option<RecordBatch>, QueryError> {
        let message = message(&frame.metadata)?;
        let missing = || malformed("a message has no content");
        match message.header_type() {
            MessageHeader::Schema if self.schema.is_some() => Err(malformed("it has two schemas")),
            MessageHeader::Schema => {
                let schema = message.header_as_schema().ok_or_else(missing)?;
                check_schema(&schema)?;
                self.schema = Some(Arc::new(fb_to_schema(schema)));
                Ok(None)
            }
            MessageHeader::DictionaryBatch => {
                let batch = message.header_as_dictionary_batch().ok_or_else(missing)?;
                self.dictionary(batch, frame, message.version()).map(|()| None)
            }
            MessageHeader::RecordBatch => {
                let (batch, schema) = (message.header_as_record_batch().ok_or_else(missing)?, self.schema()?);
                let columns = schema.fields().iter().map(|field| field.data_type());
                check_batch(batch, columns, &frame.body, self.limit_bytes)?;
                let version = message.version();
                let decoder =
                    RecordBatchDecoder::try_new(&frame.body, batch, schema, &self.dictionaries, &version);
                decoder.and_then(RecordBatchDecoder::read_record_batch).map(Some).map_err(unreadable)
            }
            MessageHeader::NONE => Ok(None),
            other => Err(malformed(format!("messages of type {other:?} are not expected"))),
        }
    }

    fn schema(&self) -> Result<SchemaRef, QueryError> {
        self.schema.clone().ok_or_else(|| malformed("it does not begin with a schema"))
    }

    /// Keeps the values of a dictionary.
    fn dictionary(
        &mut self,
        dictionary: DictionaryBatch<'_>,
        frame: &Frame,
        version: MetadataVersion,
    ) -> Result<(), QueryError> {
        let schema = self.schema()?;
        let batch = dictionary.data().ok_or_else(|| malformed("a dictionary has no values"))?;
        #[allow(deprecated)] // The only way to find the field of a dictionary.
        let fields = schema.fields_with_dict_id(dictionary.id());
        let Some(DataType::Dictionary(_, values)) = fields.first().map(|field| field.data_type()) else {
            return Err(malformed(format!("no column has the dictionary {}", dictionary.id())));
        };
        check_batch(batch, std::iter::once(values.as_ref()), &frame.body, self.limit_bytes)?;
        let known = &mut self.dictionaries;
        read_dictionary(&frame.body, dictionary, &schema, known, &version).map_err(unreadable)?;
        let bytes =
            known.values().map(|values| values.get_array_memory_size()).fold(0, usize::saturating_add);
        if bytes > self.limit_bytes { Err(too_large(self.limit_bytes)) } else { Ok(()) }
    }
}

/// The columns in a message with a schema.
///
/// # Errors
/// The message is damaged, or holds no schema.
pub fn schema_of_message(metadata: &[u8]) -> Result<SchemaRef, QueryError> {
    let read = || {
        let message = message(metadata)?;
        let schema =
            message.header_as_schema().ok_or_else(|| malformed("it does not begin with a schema"))?;
        check_schema(&schema)?;
        Ok(Arc::new(fb_to_schema(schema)))
    };
    catch_unwind(AssertUnwindSafe(read)).map_err(|_| malformed("a message cannot be decoded"))?
}

impl Decode for ArrowStream {
    fn decode(
        &mut self,
        bytes: &[u8],
        target: &mut Target,
        _rejects: &mut Rejects,
    ) -> Result<Vec<RecordBatch>, QueryError> {
        self.push(bytes);
        self.next_batch()?.iter().map(|batch| conform(batch, target)).collect()
    }

    fn finish(
        &mut self,
        _target: &mut Target,
        _rejects: &mut Rejects,
    ) -> Result<Vec<RecordBatch>, QueryError> {
        match self.frames.is_between_messages() {
            true => Ok(Vec::new()),
            false => Err(malformed("it ends within a message")),
        }
    }
}

fn unreadable(error: ArrowError) -> QueryError {
    malformed(error)
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
