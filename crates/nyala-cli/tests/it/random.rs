//! Random choices that a seed repeats.

/// SplitMix64 (Steele, Lea, Flood 2014).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }

    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    /// A random subset of at most `most` items, in their order.
    pub fn some(&mut self, items: &[&'static str], most: usize) -> Vec<&'static str> {
        let mut chosen: Vec<&'static str> = Vec::new();
        if items.is_empty() {
            return chosen;
        }
        for _ in 0..self.below(most + 1) {
            let item = *self.pick(items);
            if !chosen.contains(&item) {
                chosen.push(item);
            }
        }
        chosen
    }
}

/// The seed of a test: that of `NYALA_SEED`, or another one each time. It is printed, so that a failure can be replayed.
pub fn seed() -> u64 {
    let given = std::env::var("NYALA_SEED").ok().and_then(|seed| seed.parse().ok());
    let now = || {
        let since = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
        Random(u64::from(since.subsec_nanos()) ^ since.as_secs()).next()
    };
    let seed = given.unwrap_or_else(now);
    println!("NYALA_SEED={seed}");
    seed
}
