//! Columns that grow by the rows of one frame after another, each value copied once.

use std::ops::AddAssign;

use arrow_array::ArrayRef;
use arrow_buffer::{ArrowNativeType, BooleanBufferBuilder, Buffer, MutableBuffer, bit_util};
use arrow_schema::DataType;

use super::{Flat, In, Part, child_types, inflate};

/// A column that grows by the rows of one frame after another.
#[derive(Debug)]
pub struct Growing {
    rows: usize,
    nulls: Option<BooleanBufferBuilder>,
    values: Values,
    children: Vec<Growing>,
}

#[derive(Debug)]
enum Values {
    /// The column has no values of its own: null, struct.
    None,
    Bits(BooleanBufferBuilder),
    Fixed(usize, MutableBuffer),
    Bytes(Vec<i32>, MutableBuffer),
    LargeBytes(Vec<i64>, MutableBuffer),
    List(Vec<i32>),
    LargeList(Vec<i64>),
    FixedList(usize),
}

impl Growing {
    /// An empty column; none for types that live tables do not hold.
    pub fn new(data_type: &DataType) -> Option<Self> {
        let values = match Part::of(data_type)? {
            Part::Null | Part::Struct => Values::None,
            Part::Bits => Values::Bits(BooleanBufferBuilder::new(0)),
            Part::Fixed(width) => Values::Fixed(width, MutableBuffer::new(0)),
            Part::Bytes => Values::Bytes(vec![0], MutableBuffer::new(0)),
            Part::LargeBytes => Values::LargeBytes(vec![0], MutableBuffer::new(0)),
            Part::List => Values::List(vec![0]),
            Part::LargeList => Values::LargeList(vec![0]),
            Part::FixedList(length) => Values::FixedList(length),
        };
        let children = child_types(data_type).into_iter().map(Self::new).collect::<Option<_>>()?;
        Some(Self { rows: 0, nulls: None, values, children })
    }

    /// Reads rows of a frame. After `None` only [`Self::truncate`] makes sense.
    pub fn append(&mut self, input: &mut In<'_>, rows: usize) -> Option<()> {
        let flags = input.u8().filter(|flags| *flags <= 7)?;
        let bits = bit_util::ceil(rows, 8);
        if flags & 1 == 1 {
            let known = self.rows;
            let nulls = self.nulls.get_or_insert_with(|| {
                let mut nulls = BooleanBufferBuilder::new(known + rows);
                nulls.append_n(known, true);
                nulls
            });
            nulls.append_packed_range(0..rows, input.raw(bits)?);
        } else if let Some(nulls) = &mut self.nulls {
            nulls.append_n(rows, true);
        }
        let width = 1 << (flags >> 1);
        let mut child_rows = rows;
        match &mut self.values {
            Values::None => {}
            Values::Bits(values) => values.append_packed_range(0..rows, input.raw(bits)?),
            Values::Fixed(width, values) => values.extend_from_slice(input.raw(rows.checked_mul(*width)?)?),
            Values::Bytes(offsets, bytes) => {
                let total = append_lengths(offsets, input, rows, width)?;
                bytes.extend_from_slice(input.raw(total)?);
            }
            Values::LargeBytes(offsets, bytes) => {
                let total = append_lengths(offsets, input, rows, width)?;
                bytes.extend_from_slice(input.raw(total)?);
            }
            Values::List(offsets) => child_rows = append_lengths(offsets, input, rows, width)?,
            Values::LargeList(offsets) => child_rows = append_lengths(offsets, input, rows, width)?,
            Values::FixedList(length) => child_rows = rows.checked_mul(*length)?,
        }
        self.rows += rows;
        self.children.iter_mut().try_for_each(|child| child.append(input, child_rows))
    }

    /// Keeps the first rows and drops the rest, including a frame that was read only in part.
    pub fn truncate(&mut self, rows: usize) {
        self.rows = rows;
        if let Some(nulls) = &mut self.nulls {
            nulls.truncate(rows);
        }
        let child_rows = match &mut self.values {
            Values::None => rows,
            Values::Bits(values) => {
                values.truncate(rows);
                rows
            }
            Values::Fixed(width, values) => {
                values.truncate(rows * *width);
                rows
            }
            Values::Bytes(offsets, bytes) => {
                bytes.truncate(cut(offsets, rows));
                rows
            }
            Values::LargeBytes(offsets, bytes) => {
                bytes.truncate(cut(offsets, rows));
                rows
            }
            Values::List(offsets) => cut(offsets, rows),
            Values::LargeList(offsets) => cut(offsets, rows),
            Values::FixedList(length) => rows * *length,
        };
        self.children.iter_mut().for_each(|child| child.truncate(child_rows));
    }

    /// Makes room for `times` the present rows, and for at most `most` more bytes in each buffer.
    pub fn reserve(&mut self, times: f64, most: usize) {
        let more = |len: usize| ((len as f64 * times * 1.02) as usize).saturating_sub(len).min(most);
        match &mut self.values {
            Values::Fixed(_, values) => values.reserve(more(values.len())),
            Values::Bytes(offsets, bytes) => {
                offsets.reserve_exact(more(offsets.len()));
                bytes.reserve(more(bytes.len()));
            }
            Values::LargeBytes(offsets, bytes) => {
                offsets.reserve_exact(more(offsets.len()));
                bytes.reserve(more(bytes.len()));
            }
            Values::List(offsets) => offsets.reserve_exact(more(offsets.len())),
            Values::LargeList(offsets) => offsets.reserve_exact(more(offsets.len())),
            Values::None | Values::Bits(_) | Values::FixedList(_) => {}
        }
        self.children.iter_mut().for_each(|child| child.reserve(times, most));
    }

    /// The array, checked as a whole; none if it makes no sense.
    pub fn finish(self, data_type: &DataType) -> Option<ArrayRef> {
        inflate(data_type, self.flat())
    }

    fn flat(self) -> Flat {
        let bits = |mut bits: BooleanBufferBuilder| bits.finish().into_inner();
        let buffers = match self.values {
            Values::None | Values::FixedList(_) => Vec::new(),
            Values::Bits(values) => vec![bits(values)],
            Values::Fixed(_, values) => vec![values.into()],
            Values::Bytes(offsets, bytes) => vec![Buffer::from_vec(offsets), bytes.into()],
            Values::LargeBytes(offsets, bytes) => vec![Buffer::from_vec(offsets), bytes.into()],
            Values::List(offsets) => vec![Buffer::from_vec(offsets)],
            Values::LargeList(offsets) => vec![Buffer::from_vec(offsets)],
        };
        let children = self.children.into_iter().map(Self::flat).collect();
        Flat { rows: self.rows, nulls: self.nulls.map(bits), buffers, children }
    }
}

/// Keeps the offsets of the first rows; gives the end of their values.
fn cut<O: ArrowNativeType>(offsets: &mut Vec<O>, rows: usize) -> usize {
    offsets.truncate(rows + 1);
    offsets.last().map_or(0, |last| last.as_usize())
}

/// Reads lengths of so many bytes each and appends them as offsets; gives their sum.
fn append_lengths<O>(offsets: &mut Vec<O>, input: &mut In<'_>, rows: usize, width: usize) -> Option<usize>
where
    O: ArrowNativeType + TryFrom<u64> + AddAssign,
{
    let raw = input.raw(rows.checked_mul(width)?)?;
    let first = offsets.last()?.as_usize() as u64;
    let mut last = first;
    let mut push = |length: u64| {
        last = last.checked_add(length)?;
        offsets.push(O::try_from(last).ok()?);
        Some(())
    };
    match width {
        1 => raw.iter().try_for_each(|length| push(u64::from(*length)))?,
        2 => raw.as_chunks().0.iter().try_for_each(|length| push(u16::from_le_bytes(*length).into()))?,
        4 => raw.as_chunks().0.iter().try_for_each(|length| push(u32::from_le_bytes(*length).into()))?,
        _ => raw.as_chunks().0.iter().try_for_each(|length| push(u64::from_le_bytes(*length)))?,
    }
    usize::try_from(last - first).ok()
}

#[cfg(test)]
mod tests {
    use arrow_array::Array;

    use super::*;
    use crate::oplog::codec::{Out, write_rows};
    use crate::oplog::tests::random;
    use crate::oplog::vfs::sim::Rng;

    fn check(rng: &mut Rng, data_type: &DataType) {
        let rows = 40;
        let column = random::array(rng, data_type, rows, true);
        let mut growing = Growing::new(data_type).unwrap();
        let mut from = 0;
        while from < rows {
            let some = (1 + rng.below(12) as usize).min(rows - from);
            let mut out = Out::default();
            write_rows(&mut out, some, &[column.slice(from, some)]).unwrap();
            let mut input = In(&out.0[1..]);
            // A frame that ends too early leaves the column as it was before.
            let cut = 1 + rng.below(out.0.len() as u64 - 1) as usize;
            if growing.append(&mut In(&out.0[1..cut]), some).is_none() || rng.one_in(3) {
                growing.truncate(from);
                growing.append(&mut input, some).unwrap();
                assert!(input.is_empty());
            } else {
                panic!("{data_type} was read from {cut} of {} bytes", out.0.len());
            }
            from += some;
            growing.reserve(rows as f64 / from as f64, 1 << 20);
        }
        let found = growing.finish(data_type).unwrap();
        assert_eq!(&found, &column, "{data_type}");
        assert_eq!(found.len(), rows);
    }

    #[test]
    fn columns_of_all_types_grow() {
        let mut rng = Rng(5);
        for _ in 0..5 {
            random::leaf_types().iter().for_each(|data_type| check(&mut rng, data_type));
        }
        for _ in 0..60 {
            let data_type = random::nested_type(&mut rng, 2);
            check(&mut rng, &data_type);
        }
    }
}
