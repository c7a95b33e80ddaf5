//! Aggregates of DataFusion whose answers are wrong for some rows, mended under their own names.
//!
//! | function | what was wrong |
//! |---|---|
//! | `min`, `max` of floats | by group, a NaN made them forget what came before, and a group of nothing but an infinity got the largest finite number; elsewhere a NaN with a sign was less than every number |
//! | `sum` of whole numbers and decimals | what does not fit was cut off without a word |
//! | `corr` | by group, it was computed from sums of squares, which cancel each other where values are far from zero |
//!
//! As in PostgreSQL and DuckDB, NaN is greater than every other float, and all NaN are equal.

mod correlation;
mod extremes;
mod function;
mod totals;

pub use function::adding;
pub(super) use function::mended;

#[cfg(test)]
mod tests;
