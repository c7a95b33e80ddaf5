//! How many rows a scale has.

use anyhow::ensure;

/// Up to here every key but the order's fits 32 bits.
const MAX_SCALE: f64 = 10_000.0;

/// Rows (for `lineorder`: orders) of a scale.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// 30,000 at scale 1.
    pub customers: u32,
    /// 2,000 at scale 1.
    pub suppliers: u32,
    /// 200,000 at scale 1; 200,000 more each time the scale doubles.
    pub parts: u32,
    /// 1,500,000 at scale 1. An order has 4 lines on average.
    pub orders: u64,
}

impl Sizes {
    /// The sizes of a scale above 0 and up to 10,000. Every table has at least one row.
    pub fn at(scale: f64) -> anyhow::Result<Self> {
        ensure!(
            scale > 0.0 && scale <= MAX_SCALE,
            "scale of `ssb` must be above 0 and at most {MAX_SCALE}, but is `{scale}`"
        );
        let rows = |at_one: f64| (at_one * scale).round().max(1.0);
        // The paper's logarithm is negative below scale 1: there parts shrink like the other tables.
        let part_factor = if scale < 1.0 { scale } else { (1.0 + scale.log2()).floor() };
        Ok(Self {
            customers: rows(30_000.0) as u32,
            suppliers: rows(2_000.0) as u32,
            parts: (200_000.0 * part_factor).round().max(1.0) as u32,
            orders: rows(1_500_000.0) as u64,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn sizes_follow_the_paper() {
        let check = |scale, customers, suppliers, parts, orders| {
            assert_eq!(Sizes::at(scale).unwrap(), Sizes { customers, suppliers, parts, orders });
        };
        check(1.0, 30_000, 2_000, 200_000, 1_500_000);
        check(10.0, 300_000, 20_000, 800_000, 15_000_000);
        check(100.0, 3_000_000, 200_000, 1_400_000, 150_000_000);
        check(1.9, 57_000, 3_800, 200_000, 2_850_000);
        check(0.01, 300, 20, 2_000, 15_000);
        check(0.000_001, 1, 1, 1, 2);
    }

    #[test]
    fn other_scales_are_refused() {
        for scale in [0.0, -1.0, 10_001.0, f64::NAN, f64::INFINITY] {
            let message = Sizes::at(scale).unwrap_err().to_string();
            assert!(message.contains("must be above 0 and at most 10000"), "{message}");
        }
    }
}
