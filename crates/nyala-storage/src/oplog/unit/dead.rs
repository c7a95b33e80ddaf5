//! The dead rows of a unit. Copies share unchanged pieces.

use std::sync::Arc;

use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder, Buffer};

/// Rows of one shared piece.
const PIECE_ROWS: usize = 1 << 16;
const PIECE_WORDS: usize = PIECE_ROWS / 64;

/// One bit a row.
#[derive(Debug, Clone, Default)]
pub struct DeadRows {
    pieces: Vec<Option<Arc<Vec<u64>>>>,
    count: u32,
}

impl DeadRows {
    pub fn count(&self) -> u32 {
        self.count
    }

    pub fn contains(&self, row: u32) -> bool {
        let row = row as usize;
        let piece = self.pieces.get(row / PIECE_ROWS).and_then(Option::as_ref);
        let word = piece.and_then(|piece| piece.get(row % PIECE_ROWS / 64));
        word.is_some_and(|word| word >> (row % 64) & 1 == 1)
    }

    /// Marks a row; false if it was dead.
    pub fn insert(&mut self, row: u32) -> bool {
        let row = row as usize;
        if self.pieces.len() <= row / PIECE_ROWS {
            self.pieces.resize(row / PIECE_ROWS + 1, None);
        }
        let Some(piece) = self.pieces.get_mut(row / PIECE_ROWS) else { return false };
        let piece = Arc::make_mut(piece.get_or_insert_with(|| Arc::new(vec![0; PIECE_WORDS])));
        let Some(word) = piece.get_mut(row % PIECE_ROWS / 64) else { return false };
        let bit = 1 << (row % 64);
        let fresh = *word & bit == 0;
        *word |= bit;
        self.count += u32::from(fresh);
        fresh
    }

    /// The words of `rows` rows.
    fn words(&self, rows: u32) -> impl Iterator<Item = u64> + '_ {
        let words = (rows as usize).div_ceil(64);
        (0..words).map(|word| {
            let piece = self.pieces.get(word / PIECE_WORDS).and_then(Option::as_ref);
            piece.and_then(|piece| piece.get(word % PIECE_WORDS)).copied().unwrap_or_default()
        })
    }

    pub fn to_bytes(&self, rows: u32) -> Vec<u8> {
        self.words(rows).flat_map(u64::to_le_bytes).collect()
    }

    /// Reads the output of [`Self::to_bytes`]; none if it does not fit so many rows.
    pub fn from_bytes(bytes: &[u8], rows: u32) -> Option<Self> {
        let (words, rest) = bytes.as_chunks();
        if !rest.is_empty() || words.len() != (rows as usize).div_ceil(64) {
            return None;
        }
        let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let beyond = words.last().is_some_and(|last| !rows.is_multiple_of(64) && last >> (rows % 64) != 0);
        let count = words.iter().map(|word| word.count_ones()).sum();
        let piece = |words: &[u64]| {
            let mut piece = words.to_vec();
            piece.resize(PIECE_WORDS, 0);
            words.iter().any(|word| *word != 0).then(|| Arc::new(piece))
        };
        (!beyond).then(|| Self { pieces: words.chunks(PIECE_WORDS).map(piece).collect(), count })
    }

    /// How many of `rows` are marked.
    pub fn count_among(&self, rows: std::ops::Range<u32>) -> u32 {
        if self.count == 0 || rows.is_empty() {
            return 0;
        }
        let (from, end) = (rows.start as usize, rows.end as usize);
        let word = |at: usize| {
            let piece = self.pieces.get(at / PIECE_WORDS).and_then(Option::as_ref);
            let word = piece.and_then(|piece| piece.get(at % PIECE_WORDS)).copied().unwrap_or_default();
            let after = from.saturating_sub(at * 64).min(63);
            let before = (at * 64 + 64).saturating_sub(end);
            (word >> after << after << before).count_ones()
        };
        (from / 64..end.div_ceil(64)).map(word).sum()
    }

    /// Bit 1 for every live row of `from..from + rows`; none if all live.
    pub fn live_mask(&self, from: u32, rows: usize) -> Option<BooleanBuffer> {
        if self.count == 0 || self.untouched(from as usize, rows) {
            return None;
        }
        let mut live = BooleanBufferBuilder::new(rows);
        let end = from as usize + rows;
        let mut at = from as usize;
        while at < end {
            let to = end.min((at / PIECE_ROWS + 1) * PIECE_ROWS);
            match self.pieces.get(at / PIECE_ROWS).and_then(Option::as_ref) {
                None => live.append_n(to - at, true),
                Some(piece) => {
                    let words = Buffer::from_slice_ref(piece.as_slice());
                    live.append_buffer(&!&BooleanBuffer::new(words, at % PIECE_ROWS, to - at));
                }
            }
            at = to;
        }
        let live = live.finish();
        (live.count_set_bits() < rows).then_some(live)
    }

    fn untouched(&self, from: usize, rows: usize) -> bool {
        let pieces = from / PIECE_ROWS..(from + rows).div_ceil(PIECE_ROWS);
        pieces.into_iter().all(|piece| self.pieces.get(piece).is_none_or(Option::is_none))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_rows_are_kept_and_copies_do_not_change() {
        let mut dead = DeadRows::default();
        for row in [0, 63, 64, 70_000, 131_071] {
            assert!(dead.insert(row) && !dead.insert(row));
        }
        let copy = dead.clone();
        dead.insert(5);
        assert!(!copy.contains(5) && dead.contains(5) && dead.contains(70_000) && !dead.contains(200_000));
        let read = DeadRows::from_bytes(&dead.to_bytes(140_000), 140_000).unwrap();
        assert_eq!((read.count(), read.contains(131_071), read.contains(131_070)), (6, true, false));
        assert!(DeadRows::from_bytes(&dead.to_bytes(140_000), 150_000).is_none());
        let mask = dead.live_mask(60, 80_000).unwrap();
        let found: Vec<usize> = (0..80_000).filter(|row| !mask.value(*row)).map(|row| row + 60).collect();
        assert_eq!(found, [63, 64, 70_000]);
        assert!(dead.live_mask(65, 100).is_none());
        for (rows, expected) in [
            (0..1, 1),
            (1..5, 0),
            (5..64, 2),
            (64..64, 0),
            (6..70_001, 3),
            (0..200_000, 6),
            (131_072..131_080, 0),
        ] {
            assert_eq!(dead.count_among(rows.clone()), expected, "{rows:?}");
        }
    }
}
