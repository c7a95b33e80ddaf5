//! Sets of small numbers, a bit for each.

/// A set of numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bits {
    words: Vec<u64>,
}

impl Bits {
    /// The numbers below `count`.
    pub fn below(count: usize) -> Self {
        (0..count).collect()
    }

    pub fn insert(&mut self, bit: usize) {
        let word = bit / 64;
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        if let Some(word) = self.words.get_mut(word) {
            *word |= 1 << (bit % 64);
        }
    }

    /// Adds the numbers of `other`.
    pub fn add(&mut self, other: &Self) {
        if self.words.len() < other.words.len() {
            self.words.resize(other.words.len(), 0);
        }
        for (word, more) in self.words.iter_mut().zip(&other.words) {
            *word |= more;
        }
    }

    /// Keeps only the numbers that `other` has too.
    pub fn keep(&mut self, other: &Self) {
        self.words.truncate(other.words.len());
        for (word, kept) in self.words.iter_mut().zip(&other.words) {
            *word &= kept;
        }
    }

    /// Removes the numbers of `other`.
    pub fn remove(&mut self, other: &Self) {
        for (word, gone) in self.words.iter_mut().zip(&other.words) {
            *word &= !gone;
        }
    }

    /// The numbers, ascending.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        self.words.iter().enumerate().flat_map(|(i, word)| {
            let mut left = *word;
            std::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros() as usize)?;
                left &= left - 1;
                Some(i * 64 + bit)
            })
        })
    }
}

impl FromIterator<usize> for Bits {
    fn from_iter<I: IntoIterator<Item = usize>>(numbers: I) -> Self {
        let mut bits = Self::default();
        for number in numbers {
            bits.insert(number);
        }
        bits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_different_lengths_combine() {
        let (short, long): (Bits, Bits) = ([1, 3].into_iter().collect(), [3, 64, 200].into_iter().collect());
        let mut both = short.clone();
        both.add(&long);
        assert_eq!(both.iter().collect::<Vec<_>>(), [1, 3, 64, 200]);
        both.keep(&long);
        assert_eq!(both.iter().collect::<Vec<_>>(), [3, 64, 200]);
        both.remove(&short);
        assert_eq!(both.iter().collect::<Vec<_>>(), [64, 200]);
        both.keep(&short);
        assert_eq!(both.iter().count(), 0);
        assert_eq!(Bits::below(70).iter().count(), 70);
    }
}
