//! Streams that are long, and streams with false lengths.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use arrow::array::{DictionaryArray, Int8Array, Int64Array, RecordBatch, StringArray, StringViewArray};
use arrow::ipc::CompressionType;
use arrow::ipc::writer::{IpcWriteOptions, StreamWriter};
use nyala_engine::ErrorKind;

use super::*;

fn constants(rows: usize) -> RecordBatch {
    let column: ArrayRef = Arc::new(Int64Array::from(vec![7; rows]));
    RecordBatch::try_from_iter([("id", column)]).unwrap()
}

fn stream(batch: &RecordBatch, compression: Option<CompressionType>) -> Vec<u8> {
    let options = IpcWriteOptions::default().try_with_compression(compression).unwrap();
    let mut writer = StreamWriter::try_new_with_options(Vec::new(), &batch.schema(), options).unwrap();
    writer.write(batch).unwrap();
    writer.into_inner().unwrap()
}

fn decoded(bytes: &[u8], limit_bytes: usize) -> Result<usize, QueryError> {
    let (mut stream, mut rows) = (ArrowStream::of_batches(limit_bytes), 0);
    for piece in bytes.chunks(3000) {
        stream.push(piece);
        while let Some(batch) = stream.next_batch()? {
            rows += batch.num_rows();
        }
    }
    Ok(rows)
}

#[test]
fn an_arrow_stream_waits_for_so_much_of_a_batch_only() {
    let mut writer = StreamWriter::try_new(Vec::new(), &constants(0).schema()).unwrap();
    (0..100).for_each(|_| writer.write(&constants(1000)).unwrap());
    let many = writer.into_inner().unwrap();
    let large = stream(&constants(100_000), None);
    assert_eq!(decoded(&many, 20_000).unwrap(), 100_000, "each batch counts for itself");
    assert_eq!(decoded(&large, 1 << 20).unwrap(), 100_000);
    assert_eq!(decoded(&large, 20_000).unwrap_err().kind, ErrorKind::LimitExceeded);
}

#[test]
fn rows_without_columns_are_bounded() {
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(1 << 40));
    let schema = Arc::new(arrow::datatypes::Schema::empty());
    let many = RecordBatch::try_new_with_options(schema, Vec::new(), &options).unwrap();
    assert_eq!(decoded(&stream(&many, None), 1 << 20).unwrap_err().kind, ErrorKind::LimitExceeded);
}

#[test]
fn one_batch_is_given_at_a_time() {
    let mut writer = StreamWriter::try_new(Vec::new(), &constants(0).schema()).unwrap();
    (0..3).for_each(|_| writer.write(&constants(10)).unwrap());
    let mut stream = ArrowStream::default();
    stream.push(&writer.into_inner().unwrap());
    for _ in 0..3 {
        assert_eq!(stream.next_batch().unwrap().map(|batch| batch.num_rows()), Some(10));
    }
    assert!(stream.next_batch().unwrap().is_none());
}

#[test]
fn compressed_batches_are_bounded_by_what_they_become() {
    for codec in [CompressionType::LZ4_FRAME, CompressionType::ZSTD] {
        let small = stream(&constants(100_000), Some(codec));
        assert!(small.len() < 20_000, "{} bytes", small.len());
        assert_eq!(decoded(&small, 1 << 20).unwrap(), 100_000);
        assert_eq!(decoded(&small, 100_000).unwrap_err().kind, ErrorKind::LimitExceeded, "{codec:?}");
    }
}

/// The report of this bug said: `memory allocation of 22661211138575650 bytes failed`.
#[test]
fn a_compressed_buffer_cannot_ask_for_more_than_is_allowed() {
    for codec in [CompressionType::LZ4_FRAME, CompressionType::ZSTD] {
        let whole = stream(&constants(100_000), Some(codec));
        let length = 800_000_i64.to_le_bytes();
        let at = whole.windows(8).position(|bytes| bytes == length).unwrap();
        for lie in [22_661_211_138_575_650, i64::MAX, 799_999, 800_001, -2, 1] {
            let mut lying = whole.clone();
            lying[at..at + 8].copy_from_slice(&i64::to_le_bytes(lie));
            assert!(decoded(&lying, 1 << 20).is_err(), "{lie} with {codec:?}");
        }
    }
}

#[test]
fn no_number_of_a_message_is_trusted() {
    let texts: StringViewArray = vec![Some("a text that is longer than a view"); 40].into_iter().collect();
    let words = DictionaryArray::new(Int8Array::from(vec![0; 40]), Arc::new(StringArray::from(vec!["word"])));
    let columns: [(&str, ArrayRef); 2] = [("text", Arc::new(texts)), ("word", Arc::new(words))];
    let whole = stream(&RecordBatch::try_from_iter(columns).unwrap(), None);
    assert_eq!(decoded(&whole, 1 << 20).unwrap(), 40);
    for at in (0..whole.len()).step_by(4) {
        for lie in [u32::MAX, 0x7fff_ffff, 0x8000_0000, 1 << 24] {
            let mut lying = whole.clone();
            let place = at..(at + 4).min(lying.len());
            lying[place.clone()].copy_from_slice(&lie.to_le_bytes()[..place.len()]);
            // Only that the decoder returns matters, not its result.
            let _ = decoded(&lying, 1 << 20);
        }
    }
}

#[test]
fn a_stream_ends_between_messages() {
    let whole = stream(&constants(10), None);
    let ends = |bytes: &[u8]| {
        let mut stream = ArrowStream::default();
        stream.push(bytes);
        while stream.next_batch().unwrap().is_some() {}
        stream.frames.is_between_messages()
    };
    assert!(ends(&whole) && ends(&[]));
    assert!(!ends(&whole[..whole.len() - 9]) && !ends(&whole[..whole.len() - 3]) && !ends(&whole[..3]));
}
