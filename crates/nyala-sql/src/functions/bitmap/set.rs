//! A set of signed 64-bit integers in memory.

use roaring::RoaringTreemap;

use crate::functions::aggregate::Measured;

/// Up to this many values are kept as a sorted list: most groups of a fine grouping have few, and a
/// Roaring bitmap costs some hundred bytes before its first value.
pub const FEW: usize = 32;

/// Overhead of Roaring beside the values: for a container, for a container that is an array of bits, and for each run of 2^32 numbers.
const CONTAINER_BYTES: u64 = 40;
const BITSET_BYTES: u64 = 8192;
const PARTITION_BYTES: u64 = 96;

/// A bitmap is measured anew after this many new values and a quarter of those that it had.
const UNMEASURED_VALUES: u64 = 1024;

/// A set of integers, exact.
///
/// Values are kept as unsigned numbers in the same order (`-1` comes right before `0`), because Roaring
/// knows unsigned ones only.
#[derive(Debug, Clone)]
pub struct Bitmap(Values);

#[derive(Debug, Clone)]
enum Values {
    /// Sorted, without duplicates, at most [`FEW`].
    Few(Vec<u64>),
    Many(Box<Many>),
}

#[derive(Debug, Clone)]
struct Many {
    set: RoaringTreemap,
    weight: Weight,
}

/// An estimate of the bytes of a bitmap that costs nothing to ask and little to keep up.
#[derive(Debug, Clone, Copy, Default)]
struct Weight {
    bytes: u64,
    /// The number of values when the bitmap was measured; `new_values` were added since.
    values: u64,
    new_values: u64,
}

impl Default for Bitmap {
    fn default() -> Self {
        Self(Values::Few(Vec::new()))
    }
}

/// The unsigned number that stands for `value`, in the same order.
fn to_bits(value: i64) -> u64 {
    value.cast_unsigned() ^ (1 << 63)
}

fn from_bits(bits: u64) -> i64 {
    (bits ^ (1 << 63)).cast_signed()
}

impl Bitmap {
    /// A bitmap of values that Roaring decoded.
    pub(super) fn from_roaring(set: RoaringTreemap) -> Self {
        if set.len() <= FEW as u64 {
            return Self(Values::Few(set.iter().collect()));
        }
        let mut many = Many { set, weight: Weight::default() };
        many.measure();
        Self(Values::Many(Box::new(many)))
    }

    /// The values as Roaring holds them, as small as it can; none if they are few.
    pub(super) fn roaring(&mut self) -> Option<&RoaringTreemap> {
        if let Values::Many(many) = &self.0
            && many.set.len() <= FEW as u64
        {
            self.0 = Values::Few(many.set.iter().collect());
        }
        match &mut self.0 {
            Values::Few(_) => None,
            Values::Many(many) => {
                many.set.optimize();
                many.measure();
                Some(&many.set)
            }
        }
    }

    /// Adds a value.
    #[inline]
    pub fn insert(&mut self, value: i64) {
        let bits = to_bits(value);
        if let Values::Few(few) = &mut self.0 {
            let Err(place) = few.binary_search(&bits) else { return };
            if few.len() < FEW {
                return few.insert(place, bits);
            }
            self.widen();
        }
        if let Values::Many(many) = &mut self.0 {
            many.insert(bits);
        }
    }

    /// Adds a value that is larger than all others; false if it is not.
    pub(super) fn push(&mut self, value: i64) -> bool {
        let larger = self.max().is_none_or(|max| max < value);
        if larger {
            self.insert(value);
        }
        larger
    }

    /// Goes over to Roaring.
    fn widen(&mut self) {
        if let Values::Few(few) = &self.0 {
            let mut many = Many { set: few.iter().collect(), weight: Weight::default() };
            many.measure();
            self.0 = Values::Many(Box::new(many));
        }
    }

    /// The number of values.
    pub fn len(&self) -> u64 {
        match &self.0 {
            Values::Few(few) => few.len() as u64,
            Values::Many(many) => many.set.len(),
        }
    }

    /// Whether the bitmap has the value.
    pub fn contains(&self, value: i64) -> bool {
        match &self.0 {
            Values::Few(few) => few.binary_search(&to_bits(value)).is_ok(),
            Values::Many(many) => many.set.contains(to_bits(value)),
        }
    }

    /// The smallest value.
    pub fn min(&self) -> Option<i64> {
        match &self.0 {
            Values::Few(few) => few.first().copied().map(from_bits),
            Values::Many(many) => many.set.min().map(from_bits),
        }
    }

    /// The largest value.
    pub fn max(&self) -> Option<i64> {
        match &self.0 {
            Values::Few(few) => few.last().copied().map(from_bits),
            Values::Many(many) => many.set.max().map(from_bits),
        }
    }

    /// The values in order.
    pub fn iter(&self) -> Box<dyn Iterator<Item = i64> + '_> {
        match &self.0 {
            Values::Few(few) => Box::new(few.iter().copied().map(from_bits)),
            Values::Many(many) => Box::new(many.set.iter().map(from_bits)),
        }
    }

    /// Adds all values of another bitmap.
    pub fn union(&mut self, other: Self) {
        match other.0 {
            Values::Few(few) => few.into_iter().map(from_bits).for_each(|value| self.insert(value)),
            Values::Many(other) => {
                self.widen();
                if let Values::Many(many) = &mut self.0 {
                    let new_values = other.set.len();
                    many.set |= other.set;
                    many.grown(new_values);
                }
            }
        }
    }

    /// Keeps the values that both have.
    pub fn intersect(&mut self, other: &Self) {
        match (&mut self.0, &other.0) {
            (Values::Few(few), _) => few.retain(|bits| other.contains(from_bits(*bits))),
            (Values::Many(many), Values::Few(few)) => {
                let kept = few.iter().copied().filter(|bits| many.set.contains(*bits)).collect();
                self.0 = Values::Few(kept);
            }
            (Values::Many(many), Values::Many(other)) => {
                many.set &= &other.set;
                many.measure();
            }
        }
    }

    /// Removes the values of the other.
    pub fn subtract(&mut self, other: &Self) {
        match (&mut self.0, &other.0) {
            (Values::Few(few), _) => few.retain(|bits| !other.contains(from_bits(*bits))),
            (Values::Many(many), Values::Few(few)) => {
                for bits in few {
                    many.set.remove(*bits);
                }
            }
            (Values::Many(many), Values::Many(other)) => {
                many.set -= &other.set;
                many.measure();
            }
        }
    }

    /// Keeps the values that only one of the two has.
    pub fn symmetric_difference(&mut self, other: Self) {
        let mut both = self.clone();
        both.intersect(&other);
        self.union(other);
        self.subtract(&both);
    }

    /// Whether some value is in both.
    pub fn has_any(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Values::Few(few), _) => few.iter().any(|bits| other.contains(from_bits(*bits))),
            (_, Values::Few(few)) => few.iter().any(|bits| self.contains(from_bits(*bits))),
            (Values::Many(many), Values::Many(other)) => !many.set.is_disjoint(&other.set),
        }
    }
}

impl PartialEq for Bitmap {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl FromIterator<i64> for Bitmap {
    fn from_iter<I: IntoIterator<Item = i64>>(values: I) -> Self {
        let mut bitmap = Self::default();
        values.into_iter().for_each(|value| bitmap.insert(value));
        bitmap
    }
}

impl Measured for Bitmap {
    #[inline]
    fn heap_bytes(&self) -> usize {
        match &self.0 {
            Values::Few(few) => few.capacity() * size_of::<u64>(),
            Values::Many(many) => size_of::<Many>() + many.weight.estimate() as usize,
        }
    }
}

impl Many {
    #[inline]
    fn insert(&mut self, bits: u64) {
        if self.set.insert(bits) {
            self.grown(1);
        }
    }

    fn grown(&mut self, new_values: u64) {
        self.weight.new_values += new_values;
        if self.weight.new_values > self.weight.values / 4 + UNMEASURED_VALUES {
            self.measure();
        }
    }

    fn measure(&mut self) {
        let mut weight = Weight::default();
        for (_, partition) in self.set.bitmaps() {
            let parts = partition.statistics();
            // The library counts 32 bits for a value in an array, which has 16, and bytes for the bits of a bitset.
            weight.bytes += PARTITION_BYTES
                + CONTAINER_BYTES * u64::from(parts.n_containers)
                + parts.n_bytes_array_containers / 2
                + parts.n_bytes_run_containers
                + BITSET_BYTES * u64::from(parts.n_bitset_containers);
            weight.values += parts.cardinality;
        }
        self.weight = weight;
    }
}

impl Weight {
    /// An estimate by which new values take as many bytes as the old ones.
    #[inline]
    fn estimate(self) -> u64 {
        self.bytes + self.new_values * self.bytes / self.values.max(1)
    }
}
