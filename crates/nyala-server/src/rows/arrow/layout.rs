//! Compares every length of a batch's message with the bytes that are there.
//!
//! The walk over nodes and buffers is that of `RecordBatchDecoder` in arrow-ipc: each field has a node, its buffers, and
//! then the fields within it. It must take as many of each as the decoder does.

use std::io::{Read, copy, sink};

use arrow::datatypes::DataType;
use arrow::ipc::{CompressionType, FieldNode, RecordBatch};
use flatbuffers::VectorIter;
use lz4_flex::frame::FrameDecoder;
use nyala_engine::QueryError;

use super::refusal::{malformed, too_large};

/// The bytes before a compressed buffer: its length when decompressed, or -1 if it is not compressed.
const PREFIX_BYTES: usize = 8;
const NOT_COMPRESSED: i64 = -1;

/// Refuses a batch of `columns` with lengths that do not fit its `body`, or that expands to more than `limit_bytes`.
pub fn check_batch<'a>(
    batch: RecordBatch<'_>,
    columns: impl Iterator<Item = &'a DataType>,
    body: &[u8],
    limit_bytes: usize,
) -> Result<(), QueryError> {
    let (Some(nodes), Some(buffers)) = (batch.nodes(), batch.buffers()) else {
        return Err(malformed("a batch has no columns"));
    };
    let variadic: Vec<i64> = batch.variadicBufferCounts().into_iter().flatten().collect();
    let mut layout = Layout {
        nodes: nodes.iter(),
        buffers: buffers.iter(),
        variadic: variadic.into_iter(),
        body,
        codec: batch.compression().map(|compression| compression.codec()),
        limit_bytes,
        total_bytes: 0,
    };
    let rows = usize::try_from(batch.length()).map_err(|_| malformed("a batch has a negative length"))?;
    // A batch without columns has no bytes here, but its rows take memory later.
    if rows > limit_bytes / 8 {
        return Err(too_large(limit_bytes));
    }
    for column in columns {
        if layout.field(column)? != rows {
            return Err(malformed("the columns of a batch have different lengths"));
        }
    }
    match layout.variadic.next() {
        Some(_) => Err(malformed("a batch counts buffers of columns that it does not have")),
        None => Ok(()),
    }
}

struct Layout<'a> {
    nodes: VectorIter<'a, FieldNode>,
    buffers: VectorIter<'a, arrow::ipc::Buffer>,
    variadic: std::vec::IntoIter<i64>,
    body: &'a [u8],
    codec: Option<CompressionType>,
    limit_bytes: usize,
    /// The length of all buffers so far, decompressed.
    total_bytes: usize,
}

/// Rows of a field, and how many of them are null.
#[derive(Clone, Copy)]
struct Node {
    length: usize,
    nulls: usize,
}

impl Layout<'_> {
    /// Passes over a field and its children; gives the field's length.
    fn field(&mut self, data_type: &DataType) -> Result<usize, QueryError> {
        let node = self.node()?;
        match data_type {
            DataType::Null if node.nulls == node.length => {}
            DataType::RunEndEncoded(ends, values) => self.runs(ends.data_type(), values.data_type())?,
            DataType::Null | DataType::Union(..) => return Err(mismatched(data_type)),
            _ => {
                self.validity(node)?;
                self.values(data_type, node)?;
            }
        }
        Ok(node.length)
    }

    /// Checks the buffers behind the validity bits.
    fn values(&mut self, data_type: &DataType, node: Node) -> Result<(), QueryError> {
        let length = node.length;
        match data_type {
            DataType::Boolean => self.buffer_of(length.div_ceil(8)),
            DataType::Utf8 | DataType::Binary => self.offsets(length, 4).and_then(|()| self.buffer_of(0)),
            DataType::LargeUtf8 | DataType::LargeBinary => {
                self.offsets(length, 8).and_then(|()| self.buffer_of(0))
            }
            DataType::Utf8View | DataType::BinaryView => self.views(length),
            DataType::FixedSizeBinary(width) => self.items(length, usize::try_from(*width).unwrap_or(0)),
            DataType::List(item) | DataType::Map(item, _) => {
                self.offsets(length, 4)?;
                self.field(item.data_type()).map(drop)
            }
            DataType::LargeList(item) => {
                self.offsets(length, 8)?;
                self.field(item.data_type()).map(drop)
            }
            DataType::ListView(item) => self.list_view(length, 4, item.data_type()),
            DataType::LargeListView(item) => self.list_view(length, 8, item.data_type()),
            DataType::FixedSizeList(item, size) => {
                let size = usize::try_from(*size).unwrap_or(0);
                let there = self.field(item.data_type())?;
                length.checked_mul(size).filter(|needed| *needed <= there).map(drop).ok_or_else(short)
            }
            DataType::Struct(fields) => fields.iter().try_for_each(|field| {
                let there = self.field(field.data_type())?;
                if there == length { Ok(()) } else { Err(short()) }
            }),
            DataType::Dictionary(keys, _) => self.fixed(keys, length),
            _ => self.fixed(data_type, length),
        }
    }

    fn fixed(&mut self, data_type: &DataType, length: usize) -> Result<(), QueryError> {
        let width = data_type.primitive_width().ok_or_else(|| mismatched(data_type))?;
        self.items(length, width)
    }

    fn list_view(&mut self, length: usize, width: usize, item: &DataType) -> Result<(), QueryError> {
        self.items(length, width)?;
        self.items(length, width)?;
        self.field(item).map(drop)
    }

    fn runs(&mut self, ends: &DataType, values: &DataType) -> Result<(), QueryError> {
        let count = self.field(ends)?;
        if self.field(values)? == count { Ok(()) } else { Err(short()) }
    }

    /// Checks views, and as many buffers of bytes as the batch says.
    fn views(&mut self, length: usize) -> Result<(), QueryError> {
        self.items(length, 16)?;
        let count = self.variadic.next().ok_or_else(|| malformed("a batch does not count its buffers"))?;
        let count =
            usize::try_from(count).map_err(|_| malformed("a batch has a negative count of buffers"))?;
        (0..count).try_for_each(|_| self.buffer_of(0))
    }

    fn node(&mut self) -> Result<Node, QueryError> {
        let node = self.nodes.next().ok_or_else(|| malformed("a batch has fewer fields than the schema"))?;
        let (Ok(length), Ok(nulls)) = (usize::try_from(node.length()), usize::try_from(node.null_count()))
        else {
            return Err(malformed("a field has a negative length"));
        };
        if nulls > length {
            return Err(malformed("a field has more nulls than values"));
        }
        // Values without bytes, such as nulls, take memory later.
        match length > self.limit_bytes / 8 {
            true => Err(too_large(self.limit_bytes)),
            false => Ok(Node { length, nulls }),
        }
    }

    /// Checks the validity bits: one for each value; the buffer may be left out if no value is null.
    fn validity(&mut self, node: Node) -> Result<(), QueryError> {
        self.buffer_of(if node.nulls == 0 { 0 } else { node.length.div_ceil(8) })
    }

    /// Checks offsets: one more than there are values; none at all if there are no values.
    fn offsets(&mut self, length: usize, width: usize) -> Result<(), QueryError> {
        self.items(if length == 0 { 0 } else { length + 1 }, width)
    }

    /// Checks items of a fixed width. Only more items may follow, because padding is to 8 or 64 bytes.
    fn items(&mut self, count: usize, width: usize) -> Result<(), QueryError> {
        let needed = count.checked_mul(width).ok_or_else(short)?;
        let there = self.buffer()?;
        let is_cut = width.is_power_of_two() && there % width != 0;
        if there >= needed && !is_cut { Ok(()) } else { Err(short()) }
    }

    /// Takes the next buffer, which must have at least `needed` bytes.
    fn buffer_of(&mut self, needed: usize) -> Result<(), QueryError> {
        if self.buffer()? >= needed { Ok(()) } else { Err(short()) }
    }

    /// Takes the next buffer; gives its decompressed length.
    fn buffer(&mut self) -> Result<usize, QueryError> {
        let buffer = self.buffers.next().ok_or_else(|| malformed("a batch has fewer buffers than fields"))?;
        let outside = || malformed("a buffer lies outside of its message");
        let offset = usize::try_from(buffer.offset()).map_err(|_| outside())?;
        let length = usize::try_from(buffer.length()).map_err(|_| outside())?;
        let end = offset.checked_add(length).ok_or_else(outside)?;
        let bytes = self.body.get(offset..end).ok_or_else(outside)?;
        let length = match self.codec {
            Some(codec) if !bytes.is_empty() => self.uncompressed(codec, bytes)?,
            _ => length,
        };
        self.total_bytes = self.total_bytes.saturating_add(length);
        if self.total_bytes > self.limit_bytes { Err(too_large(self.limit_bytes)) } else { Ok(length) }
    }

    fn uncompressed(&self, codec: CompressionType, bytes: &[u8]) -> Result<usize, QueryError> {
        let (prefix, behind) =
            bytes.split_first_chunk::<PREFIX_BYTES>().ok_or_else(|| malformed("a buffer has no length"))?;
        let length = i64::from_le_bytes(*prefix);
        if length == NOT_COMPRESSED {
            return Ok(behind.len());
        }
        let length = usize::try_from(length).map_err(|_| malformed("a buffer has a negative length"))?;
        if length > self.limit_bytes {
            return Err(too_large(self.limit_bytes));
        }
        // arrow-ipc stops zstd at this length, but accepts any output of LZ4.
        match codec == CompressionType::LZ4_FRAME && length > 0 && !is_lz4_of(behind, length) {
            true => Err(malformed("a buffer becomes longer or shorter than it says")),
            false => Ok(length),
        }
    }
}

/// Whether the bytes decompress by LZ4 to exactly `length` bytes. Only one block of them is in memory at a time.
fn is_lz4_of(bytes: &[u8], length: usize) -> bool {
    let length = length as u64;
    let mut decoder = FrameDecoder::new(bytes).take(length.saturating_add(1));
    copy(&mut decoder, &mut sink()).is_ok_and(|copied| copied == length)
}

fn short() -> QueryError {
    malformed("a field has fewer values than it says")
}

fn mismatched(data_type: &DataType) -> QueryError {
    malformed(format!("a field cannot be of type {data_type}"))
}
