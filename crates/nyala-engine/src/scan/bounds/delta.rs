//! Counts of values that are within a page's data, and so within what is compressed.
//!
//! ```text
//! DELTA_LENGTH_BYTE_ARRAY: lengths, bytes        DELTA_BYTE_ARRAY: lengths of prefixes, lengths of suffixes, bytes
//! lengths: block size, miniblocks in a block, count, first; then blocks: smallest, widths of miniblocks, miniblocks
//! ```

use parquet::basic::Encoding;

use super::damage::DamagedFile;
use super::thrift::Thrift;

/// Refuses values of a page of `count` that begin with more lengths than that.
///
/// # Errors
/// What is wrong with them.
pub fn check_delta_lengths(values: &[u8], encoding: Encoding, count: usize) -> Result<(), DamagedFile> {
    let lists = match encoding {
        Encoding::DELTA_LENGTH_BYTE_ARRAY => 1,
        Encoding::DELTA_BYTE_ARRAY => 2,
        _ => return Ok(()),
    };
    let mut rest = Thrift(values);
    let whole = (0..lists).try_for_each(|_| skip_lengths(&mut rest, count as u64));
    whole.ok_or(DamagedFile("a page has more lengths than values"))
}

fn skip_lengths(rest: &mut Thrift<'_>, most: u64) -> Option<()> {
    let (block, miniblocks) = (rest.number()?, rest.number()?);
    let (count, _first) = (rest.number()?, rest.number()?);
    if count > most || miniblocks == 0 || block % miniblocks != 0 {
        return None;
    }
    let values = block / miniblocks;
    let mut left = count.saturating_sub(1);
    while left > 0 {
        let _smallest = rest.number()?;
        for width in rest.take(usize::try_from(miniblocks).ok()?)? {
            if left == 0 {
                break;
            }
            let bits = values.checked_mul(u64::from(*width))?;
            rest.take(usize::try_from(bits.div_ceil(8)).ok()?)?;
            left = left.saturating_sub(values);
        }
    }
    Some(())
}
