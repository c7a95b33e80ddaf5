//! Random numbers that are the same for the same seed, on every machine.

/// SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The numbers of one client: clients of a run draw differently, runs of a seed draw alike.
    pub fn of_client(seed: u64, client: u64) -> Self {
        let mut random = Self { state: seed };
        let start = random.next();
        Self { state: start ^ Self { state: client }.next() }
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, each as likely as the others; 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        // The upper half of the product: the bias is below bound / 2^64.
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn a_seed_repeats_and_clients_differ() {
        let draw = |seed, client| {
            let mut random = Random::of_client(seed, client);
            (0..100).map(|_| random.below(1000)).collect::<Vec<_>>()
        };
        assert_eq!(draw(1, 0), draw(1, 0));
        assert_ne!(draw(1, 0), draw(1, 1));
        assert_ne!(draw(1, 0), draw(2, 0));
    }

    #[test]
    fn every_number_below_the_bound_comes() {
        let mut random = Random::of_client(1, 1);
        let mut seen = [0; 7];
        for _ in 0..7000 {
            if let Some(count) = seen.get_mut(random.below(7) as usize) {
                *count += 1;
            }
        }
        assert_eq!(seen.iter().sum::<i32>(), 7000);
        assert!(seen.iter().all(|count| (800..1200).contains(count)), "{seen:?}");
    }
}
