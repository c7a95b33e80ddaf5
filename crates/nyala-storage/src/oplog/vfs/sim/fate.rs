//! Random faults, the same for the same seed.

/// A small generator of random numbers (SplitMix64), the same on every machine.
#[derive(Debug, Clone)]
pub struct Rng(pub(crate) u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `bound`, which must be above 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// True in one of `n` cases.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// Faults, each in one of so many calls; 0 is never.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    pub short_read: u64,
    pub short_write: u64,
    pub write_error: u64,
    pub sync_error: u64,
    pub read_error: u64,
    /// Bytes that all files together may have.
    pub space: Option<u64>,
}
