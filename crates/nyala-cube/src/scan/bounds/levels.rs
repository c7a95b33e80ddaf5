//! Levels and indices: runs of one value, or of packed ones.
//!
//! ```text
//! header: count × 2, then the value in whole bytes      header: groups × 2 + 1, then 8 packed values a group
//! ```

use super::thrift::Thrift;

/// The format counts in 31 bits.
const MAX_RUN: u64 = i32::MAX as u64;

/// Bits of levels from 0 to `most`.
pub fn width_of(most: i16) -> u32 {
    i16::BITS - most.leading_zeros()
}

/// Calls `each` with every run of `count` values of `width` bits, at most 32: the value, and the length of the run.
///
/// None if a run is longer than the bytes that are left, or as soon as `each` returns none.
pub fn runs(runs: &[u8], width: u32, count: u64, mut each: impl FnMut(u32, u64) -> Option<()>) -> Option<()> {
    let (mut rest, mut left) = (Thrift(runs), count);
    while left > 0 {
        let header = rest.number()?;
        let run = Some(header >> 1).filter(|run| *run <= MAX_RUN)?;
        if header & 1 == 0 {
            let value = rest.take(usize::try_from(width.div_ceil(8)).ok()?)?;
            let times = run.min(left);
            // The reader takes all bits of the last byte, also those above `width`.
            each(value.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte)), times)?;
            left -= times;
        } else {
            let values = (run * 8).min(left);
            let packed = rest.take(usize::try_from((values * u64::from(width)).div_ceil(8)).ok()?)?;
            (0..values).try_for_each(|index| each(unpacked(packed, index, width), 1))?;
            left -= values;
        }
    }
    Some(())
}

/// Calls `each` with `count` values that are packed without runs.
pub fn packed(
    packed: &[u8],
    width: u32,
    count: u64,
    mut each: impl FnMut(u32, u64) -> Option<()>,
) -> Option<()> {
    (0..count).try_for_each(|index| each(unpacked(packed, index, width), 1))
}

/// The number at `index` among numbers of `width` bits, at most 32.
pub fn unpacked(packed: &[u8], index: u64, width: u32) -> u32 {
    let bit = index.saturating_mul(u64::from(width));
    let rest = usize::try_from(bit / 8).ok().and_then(|from| packed.get(from..)).unwrap_or_default();
    let window = match rest.first_chunk() {
        Some(window) => u64::from_le_bytes(*window),
        None => rest.iter().rev().fold(0, |window, byte| window << 8 | u64::from(*byte)),
    };
    let mask = (1_u64 << width) - 1;
    (window >> (bit % 8) & mask) as u32
}
