//! Random numbers that depend on nothing but the table and the row.

/// The purpose of a sequence of random numbers. Two purposes never share a sequence.
#[derive(Debug, Clone, Copy)]
pub enum Purpose {
    /// Rows of `customer`.
    Customer = 1,
    /// Rows of `supplier`.
    Supplier = 2,
    /// Rows of `part`.
    Part = 3,
    /// Orders: the lines of `lineorder` that share an order key.
    Order = 4,
}

/// The odd number nearest to 2^64 divided by the golden ratio.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014), started
/// for one row of one table.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The sequence of row `row`.
    pub fn new(purpose: Purpose, row: u64) -> Self {
        // Mixing twice keeps the sequences of neighbouring rows from overlapping by a few steps.
        let table = mix((purpose as u64).wrapping_mul(STEP));
        Self { state: mix(table ^ mix(row.wrapping_mul(STEP))) }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        mix(self.state)
    }

    /// A number in `0..bound`; 0 when the bound is 0. The bias is below `bound` / 2^32.
    pub fn below(&mut self, bound: u32) -> u32 {
        let high_half = self.next() >> 32;
        ((high_half * u64::from(bound)) >> 32) as u32
    }

    /// A number in `low..=high`.
    pub fn between(&mut self, low: i32, high: i32) -> i32 {
        low + self.below(high.abs_diff(low) + 1) as i32
    }

    /// One of the words; an empty one when there is none.
    pub fn pick<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words.get(self.below(words.len() as u32) as usize).copied().unwrap_or_default()
    }
}

/// The finaliser of SplitMix64: every bit of the input changes about half of the output's.
fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_in_range_and_reach_its_ends() {
        let mut random = Random::new(Purpose::Order, 7);
        let drawn: Vec<i32> = (0..10_000).map(|_| random.between(3, 12)).collect();
        assert_eq!((drawn.iter().min(), drawn.iter().max()), (Some(&3), Some(&12)));
        assert_eq!(random.below(0), 0);
        assert_eq!(random.pick(&[]), "");
    }

    #[test]
    fn a_number_depends_on_purpose_and_row() {
        let first = |purpose, row| Random::new(purpose, row).next();
        assert_eq!(first(Purpose::Part, 5), first(Purpose::Part, 5));
        assert_ne!(first(Purpose::Part, 5), first(Purpose::Part, 6));
        assert_ne!(first(Purpose::Part, 5), first(Purpose::Customer, 5));
    }

    #[test]
    fn first_numbers_of_neighbouring_rows_are_uniform() {
        let mut counts = [0_i32; 10];
        for row in 0..100_000 {
            let drawn = Random::new(Purpose::Customer, row).below(10) as usize;
            if let Some(count) = counts.get_mut(drawn) {
                *count += 1;
            }
        }
        // The standard deviation of each count is 95.
        assert!(counts.iter().all(|count| (count - 10_000).abs() < 500), "{counts:?}");
    }
}
