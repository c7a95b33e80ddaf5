//! Keys as bytes: hashed, and compared in place.

use arrow_array::{Array, ArrayRef, BinaryViewArray, cast::AsArray};
use arrow_buffer::{BooleanBuffer, Buffer, OffsetBuffer};
use arrow_schema::DataType;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::oplog::codec::Part;

/// The seed of the hashes of a store's keys.
pub fn hash_seed(store: &[u8; 16]) -> u64 {
    crc32c::crc32c(store).into()
}

/// The key columns of some rows.
#[derive(Debug, Clone)]
pub struct Keys {
    rows: usize,
    columns: Vec<KeyColumn>,
}

#[derive(Debug, Clone)]
enum KeyColumn {
    Bits(BooleanBuffer),
    Fixed(usize, Buffer),
    Bytes(OffsetBuffer<i32>, Buffer),
    LargeBytes(OffsetBuffer<i64>, Buffer),
    View(BinaryViewArray),
}

impl Keys {
    /// The keys in these columns, without nulls; none if a key cannot have their types.
    pub fn of(columns: &[ArrayRef]) -> Option<Self> {
        let rows = columns.first()?.len();
        let columns = columns.iter().map(KeyColumn::of).collect::<Option<_>>()?;
        Some(Self { rows, columns })
    }

    /// The hash of every row's key.
    pub fn hashes(&self, seed: u64) -> Vec<u64> {
        if let [column] = self.columns.as_slice() {
            return (0..self.rows).map(|row| hash(column.bytes(row), seed)).collect();
        }
        let mut key = Vec::new();
        let hash_of = |row| {
            key.clear();
            for column in &self.columns {
                let bytes = column.bytes(row);
                key.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
                key.extend_from_slice(bytes);
            }
            hash(&key, seed)
        };
        (0..self.rows).map(hash_of).collect()
    }

    pub fn same(&self, row: usize, other: &Self, other_row: usize) -> bool {
        let pairs = self.columns.iter().zip(&other.columns);
        pairs.into_iter().all(|(own, other)| own.bytes(row) == other.bytes(other_row))
    }
}

fn hash(key: &[u8], seed: u64) -> u64 {
    // No colliding keys of this hash function are known, so that tests get some.
    #[cfg(test)]
    if key.windows(7).any(|part| part == b"collide") {
        return 0x1234_5678_9ABC_DEF0;
    }
    xxh3_64_with_seed(key, seed)
}

impl KeyColumn {
    fn of(array: &ArrayRef) -> Option<Self> {
        let data_type = array.data_type();
        match data_type {
            DataType::Boolean => return Some(Self::Bits(array.as_boolean().values().clone())),
            DataType::Utf8View => return Some(Self::View(array.as_string_view().clone().to_binary_view())),
            DataType::BinaryView => return Some(Self::View(array.as_binary_view().clone())),
            _ => {}
        }
        let data = array.to_data();
        let (offset, rows) = (data.offset(), data.len());
        let first = data.buffers().first()?.clone();
        Some(match Part::of(data_type)? {
            Part::Fixed(width) => Self::Fixed(width, first.slice_with_length(offset * width, rows * width)),
            Part::Bytes if rows > 0 => {
                let offsets = OffsetBuffer::new(arrow_buffer::ScalarBuffer::new(first, offset, rows + 1));
                Self::Bytes(offsets, data.buffers().get(1)?.clone())
            }
            Part::LargeBytes if rows > 0 => {
                let offsets = OffsetBuffer::new(arrow_buffer::ScalarBuffer::new(first, offset, rows + 1));
                Self::LargeBytes(offsets, data.buffers().get(1)?.clone())
            }
            Part::Bytes | Part::LargeBytes => Self::Fixed(0, Buffer::default()),
            _ => return None,
        })
    }

    fn bytes(&self, row: usize) -> &[u8] {
        match self {
            Self::Bits(bits) if row < bits.len() && bits.value(row) => &[1],
            Self::Bits(_) => &[0],
            Self::Fixed(width, data) => data.get(row * width..(row + 1) * width).unwrap_or_default(),
            Self::Bytes(offsets, data) => match (offsets.get(row), offsets.get(row + 1)) {
                (Some(from), Some(to)) => data.get(*from as usize..*to as usize).unwrap_or_default(),
                _ => &[],
            },
            Self::LargeBytes(offsets, data) => match (offsets.get(row), offsets.get(row + 1)) {
                (Some(from), Some(to)) => data.get(*from as usize..*to as usize).unwrap_or_default(),
                _ => &[],
            },
            Self::View(array) if row < array.len() => array.value(row),
            Self::View(_) => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Int32Array, StringArray, StringViewArray};

    use super::*;

    #[test]
    fn a_key_hashes_alike_wherever_it_lies() {
        let text: ArrayRef = Arc::new(StringArray::from(vec!["x", "ab", "c"]));
        let view: ArrayRef = Arc::new(StringViewArray::from(vec!["ab", "c"]));
        let cut = Keys::of(&[text.slice(1, 2)]).unwrap();
        let view = Keys::of(&[view]).unwrap();
        assert_eq!(cut.hashes(7), view.hashes(7));
        assert_ne!(cut.hashes(7), cut.hashes(8));
        assert!(cut.same(1, &view, 1) && !cut.same(0, &view, 1));
    }

    #[test]
    fn columns_of_a_key_do_not_run_into_each_other() {
        let columns = |a: &str, b: &str| -> Vec<ArrayRef> {
            vec![Arc::new(StringArray::from(vec![a])), Arc::new(StringArray::from(vec![b]))]
        };
        let (one, other) = (Keys::of(&columns("a", "bc")).unwrap(), Keys::of(&columns("ab", "c")).unwrap());
        assert_ne!(one.hashes(0), other.hashes(0));
        assert!(!one.same(0, &other, 0));
        let numbers: ArrayRef = Arc::new(Int32Array::from(vec![1, 2, 1]));
        let numbers = Keys::of(&[numbers]).unwrap();
        assert!(numbers.same(0, &numbers, 2) && !numbers.same(0, &numbers, 1));
    }
}
