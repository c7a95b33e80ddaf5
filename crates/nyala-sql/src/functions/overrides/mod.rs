//! Aggregates and window functions of DataFusion that give wrong answers for some rows, corrected under their own names.
//!
//! | function | fault |
//! |---|---|
//! | `min`, `max` of floats | by group, a NaN made them forget the values before it, and a group of nothing but an infinity got the largest finite number; elsewhere a NaN with a sign was less than every number |
//! | `sum` of whole numbers and decimals | it overflowed without an error |
//! | `avg` of decimals | it had four digits more than its argument, and the rest was cut off |
//! | `avg` of whole numbers | it was a floating-point number, which has not all their digits |
//! | `corr` | by group, it was computed from sums of squares, which cancel each other where values are far from zero |
//! | `string_agg` | it wanted its rows in order, so that several with different orders failed; it sorts by itself anyway |
//! | `bool_and`, `bool_or`, `bit_and`, `bit_or`, `string_agg` | over a frame that rows leave they failed |
//! | `lead`, `lag` | where they look ahead, they lost count of NULLs that they ignore, and a LIMIT left out rows that LAG looks at |
//!
//! As in PostgreSQL and DuckDB, NaN is greater than every other float, and all NaN are equal.

mod average;
mod correlation;
mod extremes;
mod function;
mod ranks;
mod shifts;
mod sliding;
mod totals;

pub use function::adding;
pub use function::overrides;
pub use ranks::signed_counts;
pub use shifts::shifts;

#[cfg(test)]
mod tests;
