//! Which cubes may answer an aggregation, found without trying each.
//!
//! ```text
//! once for each snapshot          for each aggregation
//! column d_year   ──▶ 0110…       GROUP BY d_year        0110…
//! sum over price  ──▶ 1110…       sum(price)           & 1110…
//! joins `part`    ──▶ 0001…       does not read `part` & ¬0001…
//!                                 ─────────────────────────────
//!                                 may answer             0110…   tried, the smallest first
//! ```
//!
//! A bit stands for one grouping set of one cube. The sets are necessary conditions: a cube that answers is always
//! among those that are found, and a cube that is found may still not answer.

mod bits;
mod bound;
mod cubes;
mod fact;
mod needs;
mod search;
mod term;

pub use cubes::{CubeIndex, ReadyCube};
pub use search::{Likely, likely};
