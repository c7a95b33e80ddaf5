//! Passing over columns of a frame that are not needed yet.

use arrow_buffer::bit_util;
use arrow_schema::DataType;

use super::{In, Part, child_types};

/// Passes over a column of so many rows; none if it ends too early.
pub fn skip(input: &mut In<'_>, data_type: &DataType, rows: usize) -> Option<()> {
    let flags = input.u8().filter(|flags| *flags <= 7)?;
    let bits = bit_util::ceil(rows, 8);
    if flags & 1 == 1 {
        input.raw(bits)?;
    }
    let width = 1 << (flags >> 1);
    let (mut bytes, mut child_rows) = (0, rows);
    match Part::of(data_type)? {
        Part::Null | Part::Struct => {}
        Part::Bits => bytes = bits,
        Part::Fixed(width) => bytes = rows.checked_mul(width)?,
        Part::Bytes | Part::LargeBytes => bytes = sum_of_lengths(input, rows, width)?,
        Part::List | Part::LargeList => child_rows = sum_of_lengths(input, rows, width)?,
        Part::FixedList(length) => child_rows = rows.checked_mul(length)?,
    }
    input.raw(bytes)?;
    child_types(data_type).into_iter().try_for_each(|child| skip(input, child, child_rows))
}

fn sum_of_lengths(input: &mut In<'_>, rows: usize, width: usize) -> Option<usize> {
    let raw = input.raw(rows.checked_mul(width)?)?;
    let sum = match width {
        1 => raw.iter().map(|length| u64::from(*length)).sum(),
        2 => raw.as_chunks().0.iter().map(|length| u64::from(u16::from_le_bytes(*length))).sum(),
        4 => raw.as_chunks().0.iter().map(|length| u64::from(u32::from_le_bytes(*length))).sum(),
        _ => raw
            .as_chunks()
            .0
            .iter()
            .try_fold(0, |sum: u64, length| sum.checked_add(u64::from_le_bytes(*length)))?,
    };
    usize::try_from(sum).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oplog::codec::{Out, write_rows};
    use crate::oplog::tests::random;
    use crate::oplog::vfs::sim::Rng;

    #[test]
    fn columns_of_all_types_are_passed_over_to_their_end() {
        let mut rng = Rng(11);
        let nested: Vec<DataType> = (0..60).map(|_| random::nested_type(&mut rng, 2)).collect();
        for data_type in random::leaf_types().into_iter().chain(nested) {
            let rows = 1 + rng.below(30) as usize;
            let mut out = Out::default();
            write_rows(&mut out, rows, &[random::array(&mut rng, &data_type, rows, true)]).unwrap();
            let mut input = In(&out.0[1..]);
            skip(&mut input, &data_type, rows).unwrap();
            assert!(input.is_empty(), "{data_type}");
            for cut in 1..out.0.len() {
                assert!(
                    skip(&mut In(&out.0[1..cut]), &data_type, rows).is_none(),
                    "{data_type} cut at {cut}"
                );
            }
        }
    }
}
