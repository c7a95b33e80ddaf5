//! Numbers that are encoded as differences from the numbers before them, and texts whose lengths are encoded so.
//!
//! ```text
//! DELTA_BINARY_PACKED: numbers      DELTA_LENGTH_BYTE_ARRAY: lengths, bytes
//! DELTA_BYTE_ARRAY: lengths of prefixes, lengths of suffixes, bytes
//! numbers: block size, miniblocks in a block, count, first; then blocks: smallest, widths of miniblocks, miniblocks
//! ```

use parquet::basic::{Encoding, Type};

use super::damage::DamagedFile;
use super::levels::unpacked;
use super::thrift::Thrift;

/// Refuses errors that the reader does not check: more numbers than `count`, none at all in their place, numbers wider
/// than their type, and texts longer than the bytes that are there.
pub fn check_delta(values: &[u8], encoding: Encoding, physical: Type, count: u64) -> Result<(), DamagedFile> {
    let mut rest = Thrift(values);
    match encoding {
        Encoding::DELTA_BINARY_PACKED => {
            let width = if physical == Type::INT64 { 64 } else { 32 };
            return numbers(&mut rest, count, width, |_| Some(()));
        }
        Encoding::DELTA_BYTE_ARRAY => numbers(&mut rest, count, 32, |_| Some(()))?,
        Encoding::DELTA_LENGTH_BYTE_ARRAY => {}
        _ => return Ok(()),
    }
    let mut bytes = 0_u64;
    let add = |length: i32| {
        bytes = bytes.checked_add(u64::try_from(length).ok()?)?;
        Some(())
    };
    numbers(&mut rest, count, 32, add)?;
    match bytes <= rest.0.len() as u64 {
        true => Ok(()),
        false => Err(DamagedFile("the texts of a page are longer than what is there")),
    }
}

/// A page ends before its last number, or has another count of numbers than its header says.
const CUT: DamagedFile = DamagedFile("a page has fewer or more numbers than values");
/// DuckDB writes such pages for INT columns with PARQUET_VERSION V2, if two neighbours are far apart.
const WIDE: DamagedFile = DamagedFile("a page has numbers that are wider than their type");

/// Reads 1 to `most` numbers of at most `max_width` bits. If that is 32, calls `each` with every number.
fn numbers(
    rest: &mut Thrift<'_>,
    most: u64,
    max_width: u8,
    mut each: impl FnMut(i32) -> Option<()>,
) -> Result<(), DamagedFile> {
    let (block, miniblocks) = (rest.number().ok_or(CUT)?, rest.number().ok_or(CUT)?);
    let (count, first) = (rest.number().ok_or(CUT)?, rest.signed().ok_or(CUT)?);
    if count > most || (count == 0 && most > 0) || miniblocks == 0 || block % miniblocks != 0 {
        return Err(CUT);
    }
    let values = block / miniblocks;
    let mut value = first as i32;
    if count > 0 {
        each(value).ok_or(CUT)?;
    }
    let mut left = count.saturating_sub(1);
    while left > 0 {
        let smallest = rest.signed().ok_or(CUT)?;
        for width in rest.take(usize::try_from(miniblocks).map_err(|_| CUT)?).ok_or(CUT)? {
            if left == 0 {
                break;
            }
            if *width > max_width {
                return Err(WIDE);
            }
            let bits = values.checked_mul(u64::from(*width)).ok_or(CUT)?;
            let bytes = usize::try_from(bits.div_ceil(8)).map_err(|_| CUT)?;
            let packed = rest.take(bytes).ok_or(CUT)?;
            if max_width == 32 {
                for index in 0..values.min(left) {
                    let difference = unpacked(packed, index, u32::from(*width)).wrapping_add(smallest as u32);
                    value = value.wrapping_add(difference as i32);
                    each(value).ok_or(CUT)?;
                }
            }
            left = left.saturating_sub(values);
        }
    }
    Ok(())
}
