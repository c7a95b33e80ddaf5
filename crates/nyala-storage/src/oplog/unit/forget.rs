//! Texts of dead rows, which need not be in memory.

use arrow_buffer::{ArrowNativeType, BooleanBuffer, Buffer, MutableBuffer};
use arrow_schema::DataType;

use super::DeadRows;
use crate::oplog::codec::{Flat, Part};

/// While fewer than one row in so many is dead, their texts are not worth the time it takes to leave them out.
const WORTH_ONE_IN: u32 = 32;

/// Whether a good part of the rows is dead.
pub(super) fn is_worth_it(dead: &DeadRows, rows: u32) -> bool {
    dead.count().saturating_mul(WORTH_ONE_IN) >= rows
}

/// A column without the texts and bytes of `dead` rows, which are empty then. Values of other types stay, because they
/// take the same room whatever they are.
pub(super) fn without_texts(data_type: &DataType, flat: Flat, dead: &DeadRows) -> Flat {
    let Some(live) = dead.live_mask(0, flat.rows) else { return flat };
    match Part::of(data_type) {
        Some(Part::Bytes) => keep::<i32>(flat, &live),
        Some(Part::LargeBytes) => keep::<i64>(flat, &live),
        _ => flat,
    }
}

/// Moves what lives to the front. What makes no sense stays as it is, to be found by who puts the column together.
fn keep<O: ArrowNativeType + PartialOrd>(flat: Flat, live: &BooleanBuffer) -> Flat {
    let [offsets, bytes] = &flat.buffers[..] else { return flat };
    let ends: &[O] = offsets.typed_data();
    let sensible = ends.len() == flat.rows + 1
        && ends.is_sorted()
        && ends.first().is_some_and(|first| *first == O::default())
        && ends.last().is_some_and(|last| last.as_usize() <= bytes.len());
    if !sensible {
        return flat;
    }
    let Flat { rows, nulls, buffers, children } = flat;
    let mut buffers = buffers.into_iter().map(owned);
    let (Some(mut offsets), Some(mut bytes)) = (buffers.next(), buffers.next()) else {
        return Flat { rows, nulls, ..Flat::default() };
    };
    let (mut start, mut kept) = (0, 0);
    // Each offset is the end of the row before it.
    for (at, offset) in offsets.typed_data_mut::<O>().iter_mut().enumerate() {
        let end = offset.as_usize();
        if at.checked_sub(1).is_some_and(|row| live.value(row)) {
            if kept < start {
                bytes.as_slice_mut().copy_within(start..end, kept);
            }
            kept += end - start;
        }
        *offset = O::usize_as(kept);
        start = end;
    }
    bytes.truncate(kept);
    bytes.shrink_to_fit();
    Flat { rows, nulls, buffers: vec![offsets.into(), bytes.into()], children }
}

/// The same buffer, to be changed: a copy only if somebody else has it too.
fn owned(buffer: Buffer) -> MutableBuffer {
    buffer.into_mutable().unwrap_or_else(|shared| {
        let mut copy = MutableBuffer::new(shared.len());
        copy.extend_from_slice(&shared);
        copy
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Array, ArrayRef, Int64Array, LargeStringArray, StringArray, StringViewArray};

    use super::*;
    use crate::oplog::codec::{flatten, inflate};

    fn check(column: &ArrayRef, expected: &ArrayRef) {
        let mut dead = DeadRows::default();
        [0, 2, 3].into_iter().for_each(|row| assert!(dead.insert(row)));
        let flat = without_texts(column.data_type(), flatten(column.as_ref()).unwrap(), &dead);
        assert_eq!(&inflate(column.data_type(), flat).unwrap(), expected);
    }

    #[test]
    fn texts_of_dead_rows_are_empty_and_all_others_as_they_were() {
        let before = [Some("dead"), Some("lives"), Some(""), Some("gone"), None, Some("é"), Some("last")];
        let after = [Some(""), Some("lives"), Some(""), Some(""), None, Some("é"), Some("last")];
        let texts = |texts: [Option<&str>; 7]| StringArray::from(texts.to_vec());
        check(&(Arc::new(texts(before)) as ArrayRef), &(Arc::new(texts(after)) as ArrayRef));
        let large = |texts: [Option<&str>; 7]| Arc::new(LargeStringArray::from(texts.to_vec())) as ArrayRef;
        check(&large(before), &large(after));
        let views = |texts: [Option<&str>; 7]| Arc::new(StringViewArray::from(texts.to_vec())) as ArrayRef;
        check(&views(before), &views(after));
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..7));
        check(&numbers, &numbers);
    }

    #[test]
    fn what_makes_no_sense_stays_as_it_is() {
        let mut dead = DeadRows::default();
        dead.insert(0);
        for ends in [vec![0_i32, 9, 4], vec![0, 2, 99], vec![0, 2], vec![1, 2, 4], Vec::new()] {
            let buffers = vec![Buffer::from_vec(ends.clone()), Buffer::from_slice_ref(b"some")];
            let flat = Flat { rows: 2, buffers, ..Flat::default() };
            let left = without_texts(&DataType::Utf8, flat, &dead);
            assert_eq!(left.buffers, [Buffer::from_vec(ends), Buffer::from_slice_ref(b"some")]);
        }
    }
}
