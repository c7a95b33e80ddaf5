//! Sets of keys: of a query, of the segments that cover it, and of the rest to read from raw rows.

use crate::range::KeyRange;

/// Keys of a column, as sorted disjoint ranges.
///
/// Bounds have 128 bits, so that a range can end after the largest key.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeySet {
    ranges: Vec<(i128, i128)>,
}

/// Above every key.
const END: i128 = i64::MAX as i128 + 1;
const BEGIN: i128 = i64::MIN as i128;

impl KeySet {
    /// Every key.
    pub fn all() -> Self {
        Self { ranges: vec![(BEGIN, END)] }
    }

    /// Keys from `from` to `to`, both included. Empty if they are reversed.
    pub fn between(from: i64, to: i64) -> Self {
        if from > to { Self::default() } else { Self { ranges: vec![(from.into(), i128::from(to) + 1)] } }
    }

    /// `from` and larger.
    pub fn at_least(from: i64) -> Self {
        Self::between(from, i64::MAX)
    }

    /// `to` and smaller.
    pub fn at_most(to: i64) -> Self {
        Self::between(i64::MIN, to)
    }

    /// Whether no key is in the set.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Keys in both.
    #[must_use]
    pub fn intersect(&self, other: &Self) -> Self {
        let both = self
            .ranges
            .iter()
            .flat_map(|(from, to)| other.ranges.iter().map(move |(a, b)| (*from.max(a), *to.min(b))));
        Self { ranges: both.filter(|(from, to)| from < to).collect() }
    }

    /// Keys in either.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut ranges = [self.ranges.as_slice(), &other.ranges].concat();
        ranges.sort_unstable();
        let mut merged: Vec<(i128, i128)> = Vec::new();
        for (from, to) in ranges {
            match merged.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(to),
                _ => merged.push((from, to)),
            }
        }
        Self { ranges: merged }
    }

    /// Keys of this set that are not in `other`.
    #[must_use]
    pub fn subtract(&self, other: &Self) -> Self {
        let mut from = BEGIN;
        let mut outside = Vec::new();
        for (first, end) in &other.ranges {
            outside.push((from, *first));
            from = *end;
        }
        outside.push((from, END));
        outside.retain(|(from, to)| from < to);
        self.intersect(&Self { ranges: outside })
    }

    /// Whether every key of `other` is in this set.
    pub fn covers(&self, other: &Self) -> bool {
        other.subtract(self).is_empty()
    }

    /// The ranges, first and last key included, ascending.
    pub fn spans(&self) -> impl Iterator<Item = (i64, i64)> {
        let clamp = |key: i128| i64::try_from(key).unwrap_or(if key < 0 { i64::MIN } else { i64::MAX });
        self.ranges.iter().map(move |(from, to)| (clamp(*from), clamp(to - 1)))
    }
}

impl From<KeyRange> for KeySet {
    fn from(range: KeyRange) -> Self {
        match range.to.checked_sub(1) {
            Some(last) => Self::between(range.from, last),
            None => Self::default(),
        }
    }
}

impl FromIterator<KeyRange> for KeySet {
    fn from_iter<I: IntoIterator<Item = KeyRange>>(ranges: I) -> Self {
        let ranges = ranges.into_iter().filter(|range| range.from < range.to);
        let unmerged = Self { ranges: ranges.map(|r| (r.from.into(), r.to.into())).collect() };
        unmerged.union(&Self::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(ranges: &[(i64, i64)]) -> KeySet {
        ranges.iter().map(|(from, to)| KeyRange { from: *from, to: *to }).collect()
    }

    #[test]
    fn neighbours_become_one_range() {
        assert_eq!(set(&[(5, 9), (0, 5), (20, 30), (8, 10)]), set(&[(0, 10), (20, 30)]));
    }

    #[test]
    fn what_is_left_includes_both_ends_of_all_keys() {
        let left = KeySet::all().subtract(&set(&[(0, 10), (20, 30)]));
        let spans: Vec<_> = left.spans().collect();
        assert_eq!(spans, [(i64::MIN, -1), (10, 19), (30, i64::MAX)]);
        assert!(left.union(&set(&[(0, 10), (20, 30)])).covers(&KeySet::all()));
    }

    #[test]
    fn reversed_bounds_hold_nothing() {
        assert!(KeySet::between(3, 2).is_empty());
        assert!(KeySet::at_least(5).intersect(&KeySet::at_most(4)).is_empty());
        assert!(KeySet::from(KeyRange { from: 3, to: 3 }).is_empty());
    }
}
