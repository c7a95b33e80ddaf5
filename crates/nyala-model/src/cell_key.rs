//! Keys of cells: codes of several dimensions, packed into few integers.
//!
//! ```text
//! sorted by a, b, c, d     a: 3 bits   b: 10 bits   c: not coded   d: 8 bits
//! key                      ┌─ word ────────────┐   ┌─ plain ─┐   ┌─ word ──┐
//!                          │ 0…0  aaa bbbbbbbbbb│   │ values  │   │ 0…0 dddd│
//! ```
//!
//! A code is a number from 1 on for each value of a dimension; 0 is null. If codes are ranks, words
//! compare as the values of their dimensions do. These loops run for each row and cuboid of a build.

use crate::range::KeyRange;

/// Bits of a word.
const WORD_BITS: u32 = u64::BITS;

/// Bits for the codes of about `values` values, with room for a quarter more and 16.
pub fn code_bits(values: u64) -> u32 {
    let room = values.saturating_add(values / 4).saturating_add(16);
    WORD_BITS - room.leading_zeros()
}

/// Bits that the codes from 1 to `most` need, from 1 to 32.
pub fn bits_of(most: u32) -> u32 {
    (u32::BITS - most.leading_zeros()).max(1)
}

/// Gives each key the code of its range: the range's position from 1 on, or 0 for no range. Ranges are
/// ascending and do not overlap.
pub fn range_codes(ranges: &[KeyRange], keys: &[i64]) -> Vec<u32> {
    let code = |key: &i64| {
        let after = ranges.partition_point(|range| range.from <= *key);
        let inside = after.checked_sub(1).and_then(|last| ranges.get(last)).is_some_and(|r| *key < r.to);
        if inside { u32::try_from(after).unwrap_or(u32::MAX) } else { 0 }
    };
    keys.iter().map(code).collect()
}

/// Position of the codes of one dimension in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyField {
    /// Position of the column with the codes.
    pub dimension: usize,
    shift: u32,
    bits: u32,
}

impl KeyField {
    /// Puts a code into each word. The word's bits must be 0 there.
    pub fn put(&self, words: &mut [u64], codes: &[u32]) {
        for (word, code) in words.iter_mut().zip(codes) {
            *word |= u64::from(*code) << self.shift;
        }
    }

    /// The codes in `words`.
    pub fn get(&self, words: &[u64]) -> Vec<u32> {
        words.iter().map(|word| self.code(*word)).collect()
    }

    /// Puts `table[code in from]`, or 0 beyond the table, into each word of `to`, which has 0
    /// there.
    pub fn translate(&self, from: &[u64], to: &mut [u64], table: &[u32]) {
        for (from, to) in from.iter().zip(to) {
            let code = table.get(self.code(*from) as usize).copied().unwrap_or(0);
            *to |= u64::from(code) << self.shift;
        }
    }

    #[allow(clippy::cast_possible_truncation, reason = "a code has 32 bits at most")]
    fn code(&self, word: u64) -> u32 {
        ((word >> self.shift) & (u64::MAX >> (WORD_BITS - self.bits))) as u32
    }
}

/// One column of a key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum KeyPart {
    /// The codes of these dimensions, the first in the highest bits.
    Word(Vec<KeyField>),
    /// The values of a dimension without codes.
    Plain(usize),
}

/// The key of `dimensions`, given in sort order, each with the number of bits of its codes, from 1 to 32;
/// none if it has no codes.
pub fn cell_key(dimensions: impl IntoIterator<Item = (usize, Option<u32>)>) -> Vec<KeyPart> {
    let mut parts = Vec::new();
    let mut word: Vec<KeyField> = Vec::new();
    let mut free = WORD_BITS;
    for (dimension, bits) in dimensions {
        if bits.is_none_or(|bits| bits > free) && !word.is_empty() {
            parts.push(KeyPart::Word(std::mem::take(&mut word)));
            free = WORD_BITS;
        }
        match bits {
            Some(bits) => {
                free -= bits;
                word.push(KeyField { dimension, shift: free, bits });
            }
            None => parts.push(KeyPart::Plain(dimension)),
        }
    }
    if !word.is_empty() {
        parts.push(KeyPart::Word(word));
    }
    parts
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;

    fn fields(part: &KeyPart) -> &[KeyField] {
        match part {
            KeyPart::Word(fields) => fields,
            KeyPart::Plain(_) => &[],
        }
    }

    #[test]
    fn codes_have_room_for_more_values_than_estimated() {
        for (values, bits) in [(0, 5), (7, 5), (12, 5), (13, 6), (250, 9), (1_000, 11), (1 << 20, 21)] {
            assert_eq!(code_bits(values), bits, "{values}");
        }
        assert_eq!(code_bits(u64::MAX), 64);
    }

    #[test]
    fn keys_have_the_codes_of_their_ranges() {
        let ranges =
            [(i64::MIN, 0), (10, 20), (20, 21), (30, i64::MAX)].map(|(from, to)| KeyRange { from, to });
        let keys = [i64::MIN, -1, 0, 9, 10, 19, 20, 21, 29, 30, i64::MAX - 1, i64::MAX];
        assert_eq!(range_codes(&ranges, &keys), [1, 1, 0, 0, 2, 2, 3, 0, 0, 4, 4, 0]);
        assert_eq!(range_codes(&[], &[1]), [0]);
        assert_eq!([1, 2, 3, 4, 255, 256, u32::MAX].map(bits_of), [1, 2, 2, 3, 8, 9, 32]);
    }

    #[test]
    fn words_are_filled_in_order_and_broken_by_what_has_no_codes() {
        let shape = |parts: Vec<KeyPart>| -> Vec<Vec<usize>> {
            parts.iter().map(|part| fields(part).iter().map(|field| field.dimension).collect()).collect()
        };
        assert_eq!(shape(cell_key([])), Vec::<Vec<usize>>::new());
        assert_eq!(shape(cell_key([(3, Some(32)), (1, Some(32)), (2, Some(1))])), [vec![3, 1], vec![2]]);
        assert_eq!(shape(cell_key([(0, Some(5)), (1, None), (2, Some(5))])), [vec![0], vec![], vec![2]]);
        assert_eq!(cell_key([(4, None)]), [KeyPart::Plain(4)]);
    }

    #[test]
    fn words_give_back_their_codes_and_compare_like_them() {
        let parts = cell_key([(0, Some(5)), (1, Some(32)), (2, Some(20))]);
        let rows = [[0, 7, 9], [1, 0, 0], [1, u32::MAX, 3], [2, 0, (1 << 20) - 1], [31, 5, 5]];
        let mut words = vec![0; rows.len()];
        for (i, field) in fields(&parts[0]).iter().enumerate() {
            let codes: Vec<u32> = rows.iter().map(|row| row[i]).collect();
            field.put(&mut words, &codes);
        }
        assert!(words.is_sorted());
        for (i, field) in fields(&parts[0]).iter().enumerate() {
            assert_eq!(field.get(&words), rows.iter().map(|row| row[i]).collect::<Vec<_>>());
        }
    }

    #[test]
    fn codes_are_translated_in_their_place() {
        let parts = cell_key([(0, Some(4)), (1, Some(4))]);
        let [first, second] = fields(&parts[0]) else { unreachable!() };
        let mut words = vec![0; 2];
        first.put(&mut words, &[1, 2]);
        second.put(&mut words, &[3, 0]);
        let mut to = vec![0; 2];
        first.translate(&words, &mut to, &[0, 9, 8]);
        second.translate(&words, &mut to, &[0, 1, 2, 5]);
        assert_eq!((first.get(&to), second.get(&to)), (vec![9, 8], vec![5, 0]));
    }
}
