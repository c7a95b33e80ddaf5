//! Cuts batches into messages.
//!
//! The library that writes messages cuts a batch by the memory behind it. A batch of a large aggregation is a slice of all groups: by that
//! measure a message would get a handful of rows, and views would send the texts of all groups with each message.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, GenericByteViewArray, OffsetSizeTrait, RecordBatch};
use arrow::buffer::Buffer;
use arrow::datatypes::{ByteViewType, DataType};

use crate::rows::plain_bytes;

/// Clients of Go take 16 MiB.
const MESSAGE_BYTES: usize = 2 << 20;

/// The rows of a batch in pieces, each with the bytes of its rows alone.
pub fn pieces_of(batch: &RecordBatch) -> Vec<RecordBatch> {
    let mut pieces = Vec::new();
    cut(batch, &mut pieces);
    pieces
}

fn cut(batch: &RecordBatch, pieces: &mut Vec<RecordBatch>) {
    let rows = batch.num_rows();
    let bytes = batch.columns().iter().map(|column| bytes_of(column)).fold(0, usize::saturating_add);
    if rows > 1 && bytes > MESSAGE_BYTES {
        let half = rows / 2;
        cut(&batch.slice(0, half), pieces);
        cut(&batch.slice(half, rows - half), pieces);
    } else if rows > 0 {
        pieces.push(compact(batch));
    }
}

/// Bytes of the values, as they are written.
fn bytes_of(column: &dyn Array) -> usize {
    match column.data_type() {
        // The keys alone: the values of a dictionary are sent in a message of their own.
        DataType::Dictionary(keys, _) => column.len().saturating_mul(keys.primitive_width().unwrap_or(8)),
        DataType::List(_) => {
            let lists = column.as_list::<i32>();
            bytes_of_items(lists.value_offsets(), lists.values())
        }
        DataType::LargeList(_) => {
            let lists = column.as_list::<i64>();
            bytes_of_items(lists.value_offsets(), lists.values())
        }
        DataType::Map(..) => {
            let maps = column.as_map();
            bytes_of_items(maps.value_offsets(), maps.entries())
        }
        DataType::FixedSizeList(..) => bytes_of(column.as_fixed_size_list().values()),
        DataType::Struct(_) => {
            let fields = column.as_struct().columns().iter();
            fields.map(|field| bytes_of(field)).fold(0, usize::saturating_add)
        }
        DataType::Utf8View
        | DataType::BinaryView
        | DataType::ListView(_)
        | DataType::LargeListView(_)
        | DataType::RunEndEncoded(..) => usize::try_from(plain_bytes(column)).unwrap_or(usize::MAX),
        _ => column.to_data().get_slice_memory_size().unwrap_or_else(|_| column.get_buffer_memory_size()),
    }
}

fn bytes_of_items<O: OffsetSizeTrait>(offsets: &[O], items: &dyn Array) -> usize {
    let (Some(first), Some(last)) = (offsets.first(), offsets.last()) else { return 0 };
    let (first, last) = (first.as_usize(), last.as_usize());
    let items = bytes_of(&items.slice(first, last.saturating_sub(first)));
    items.saturating_add(size_of_val(offsets))
}

/// The batch, with view columns that hold only the bytes of their own rows.
fn compact(batch: &RecordBatch) -> RecordBatch {
    let is_view = |column: &ArrayRef| matches!(column.data_type(), DataType::Utf8View | DataType::BinaryView);
    if !batch.columns().iter().any(is_view) {
        return batch.clone();
    }
    let columns = batch.columns().iter().map(compact_column).collect();
    // This cannot fail: types and numbers of rows are unchanged.
    RecordBatch::try_new(batch.schema(), columns).unwrap_or_else(|_| batch.clone())
}

fn compact_column(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Utf8View => compact_views(column.as_string_view()),
        DataType::BinaryView => compact_views(column.as_binary_view()),
        _ => Arc::clone(column),
    }
}

fn compact_views<T: ByteViewType + ?Sized>(views: &GenericByteViewArray<T>) -> ArrayRef {
    let behind: usize = views.data_buffers().iter().map(Buffer::len).sum();
    // A copy pays only if it is smaller: views that share bytes would each get a copy of them.
    match views.total_buffer_bytes_used() < behind {
        true => Arc::new(views.gc()),
        false => Arc::new(views.clone()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use arrow::array::{Int64Array, ListArray, StringArray, StringViewArray};
    use arrow::datatypes::Int64Type;

    use super::*;

    const ROWS: usize = 1_000_000;

    /// The numbers of rows in the pieces of a slice of a column.
    fn rows_of(column: ArrayRef, from: usize, rows: usize) -> Vec<usize> {
        let batch = RecordBatch::try_from_iter([("c", column)]).unwrap().slice(from, rows);
        let pieces = pieces_of(&batch);
        let joined = arrow::compute::concat_batches(&batch.schema(), &pieces).unwrap();
        assert_eq!(joined, batch);
        pieces.iter().map(RecordBatch::num_rows).collect()
    }

    #[test]
    fn a_slice_is_one_message_whatever_it_is_a_slice_of() {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS as i64));
        assert_eq!(rows_of(Arc::clone(&numbers), 500_000, 8192), [8192]);
        let lists = ListArray::from_iter_primitive::<Int64Type, _, _>((0..ROWS).map(|_| Some([Some(1)])));
        assert_eq!(rows_of(Arc::new(lists), 500_000, 8192), [8192]);
        assert_eq!(rows_of(numbers, 0, ROWS), [ROWS / 4; 4]);
    }

    #[test]
    fn long_values_are_cut_where_they_are() {
        let long = "x".repeat(1 << 20);
        let texts: StringArray =
            (0..1000).map(|row| Some(if row < 8 { long.as_str() } else { "" })).collect();
        let rows = rows_of(Arc::new(texts), 0, 1000);
        assert!(rows.iter().all(|rows| *rows > 0) && rows.contains(&500), "{rows:?}");
        assert_eq!(rows.iter().sum::<usize>(), 1000);
        assert_eq!(rows_of(Arc::new(StringArray::from(vec![long.repeat(5)])), 0, 1), [1]);
        assert_eq!(rows_of(Arc::new(StringArray::from(vec!["x"])), 0, 0), [0; 0]);
    }

    #[test]
    fn views_send_the_texts_of_their_own_rows() {
        let views =
            StringViewArray::from_iter_values((0..ROWS).map(|row| format!("a text that is long {row}")));
        let batch = RecordBatch::try_from_iter([("c", Arc::new(views) as ArrayRef)]).unwrap();
        let slice = batch.slice(1000, 100);
        let [piece]: [RecordBatch; 1] = pieces_of(&slice).try_into().unwrap();
        assert_eq!(piece, slice);
        assert!(piece.get_array_memory_size() < 20_000, "{}", piece.get_array_memory_size());
    }
}
