//! The cuboids of a cube, ordered by "can be rolled up from".

use std::fmt;

use serde::{Deserialize, Serialize};

/// A set of dimensions of one cube, by their position in the cube's definition.
///
/// A cube has at most [`DimensionSet::MAX`] dimensions; a cube of more would be too large to build.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DimensionSet(u64);

impl DimensionSet {
    /// Largest number of dimensions of a cube.
    pub const MAX: usize = 64;

    /// The set without any dimension: the grand total.
    pub const EMPTY: Self = Self(0);

    /// A set from its bit pattern, bit `i` standing for dimension `i`.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The bit pattern, bit `i` standing for dimension `i`.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// This set with `dimension` added. Positions of [`DimensionSet::MAX`] and above are ignored.
    #[must_use]
    pub const fn with(self, dimension: usize) -> Self {
        if dimension < Self::MAX { Self(self.0 | 1 << dimension) } else { self }
    }

    /// Whether `dimension` is in the set.
    pub const fn contains(self, dimension: usize) -> bool {
        dimension < Self::MAX && self.0 & (1 << dimension) != 0
    }

    /// Whether every dimension of `other` is in this set: a cuboid over `self` can answer for `other`.
    pub const fn is_superset(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// All dimensions of both.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Number of dimensions in the set.
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether this is the grand total.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The positions in the set, ascending.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        (0..Self::MAX).filter(move |dimension| self.contains(*dimension))
    }
}

impl FromIterator<usize> for DimensionSet {
    fn from_iter<I: IntoIterator<Item = usize>>(dimensions: I) -> Self {
        dimensions.into_iter().fold(Self::EMPTY, Self::with)
    }
}

impl fmt::Display for DimensionSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// The distinct grouping sets of a cube, largest first.
///
/// ```text
///   {a,b,c}          {a,d}        roots: no other set contains them, built from rows
///    ╱    ╲            │
/// {a,b}  {b,c}        {d}         built from the states of a superset
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lattice {
    sets: Vec<DimensionSet>,
}

impl Lattice {
    /// Orders the sets so that every set comes after all its supersets; duplicates collapse.
    pub fn new(sets: impl IntoIterator<Item = DimensionSet>) -> Self {
        let mut sets: Vec<_> = sets.into_iter().collect();
        sets.sort_by(|a, b| b.len().cmp(&a.len()).then(a.cmp(b)));
        sets.dedup();
        Self { sets }
    }

    /// Every set, each after all its supersets.
    pub fn sets(&self) -> &[DimensionSet] {
        &self.sets
    }

    /// Sets that no other set of the lattice contains: these must be computed from rows.
    pub fn roots(&self) -> impl Iterator<Item = DimensionSet> {
        self.sets.iter().copied().filter(|set| self.parents(*set).next().is_none())
    }

    /// Strict supersets of `set`; it can be rolled up from any of them.
    pub fn parents(&self, set: DimensionSet) -> impl Iterator<Item = DimensionSet> {
        self.sets.iter().copied().filter(move |other| *other != set && other.is_superset(set))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(dimensions: &[usize]) -> DimensionSet {
        dimensions.iter().copied().collect()
    }

    #[test]
    fn supersets_come_first_and_roots_have_no_parent() {
        let lattice = Lattice::new([set(&[3]), set(&[0, 1]), set(&[0, 1, 2]), set(&[0, 3]), set(&[0, 1])]);
        assert_eq!(lattice.sets(), [set(&[0, 1, 2]), set(&[0, 1]), set(&[0, 3]), set(&[3])]);
        assert_eq!(lattice.roots().collect::<Vec<_>>(), [set(&[0, 1, 2]), set(&[0, 3])]);
        assert_eq!(lattice.parents(set(&[3])).collect::<Vec<_>>(), [set(&[0, 3])]);
    }

    #[test]
    fn the_grand_total_rolls_up_from_anything() {
        let lattice = Lattice::new([DimensionSet::EMPTY, set(&[63])]);
        assert_eq!(lattice.parents(DimensionSet::EMPTY).count(), 1);
        assert!(set(&[63]).contains(63));
        assert!(!set(&[63]).contains(64));
    }
}
