//! Hot cuboids: what queries read often, decoded and kept in memory.
//!
//! ```text
//! query ──▶ HotCuboids::find ──▶ there: rows that may match ──▶ HotCuboidExec
//!                └─────────────▶ not there: Parquet, and ──▶ load in the background ──▶ there next time
//! ```
//!
//! A server has many more cuboids than memory, and each has many more measures than any one query reads.
//! So an entry of the cache is a cuboid, which makes it one look-up for a query, but it holds only the
//! columns that queries asked for: with 10,000 cuboids and 1 GiB there are 100 KiB for each, and a dashboard
//! that shows two of thirty measures must not push others out by the rest. What is evicted is the whole
//! cuboid; whoever comes back brings only what is still used.
//!
//! Values that repeat, which is what dimensions do, are kept as one to four bytes that point to a dictionary of the
//! column, and unfolded for the few rows that a query reads: several times as much fits, and a condition is decided
//! once for each different value. Sums and counts are kept as short distances from the least where that is possible.
//!
//! The files of a cuboid follow one another and are not merged to one order. Each is sorted, so equal values of
//! its leading dimensions stand together, those of the last ascend, and a filter leaves a few ranges of rows in each
//! (`runs`, `stretches`); what is not sorted is skipped by blocks of rows (`prune`). Columns that arrive at different
//! times fit together without remembering how the rows were moved.
//!
//! Files of a ready segment never change and every segment has a folder of its own, so nothing here is
//! ever out of date. What belongs to a dropped segment is not asked for any more and leaves by that.

mod cache;
mod column;
mod conditions;
mod cuboid;
mod exec;
mod fold;
mod groups;
mod load;
mod measured;
mod near;
mod picked;
mod prune;
mod ranges;
mod runs;
mod search;
mod sorted;
mod stored;
mod stretches;
mod values;

pub use cache::HotCuboids;
pub use cache::HotStats;
pub(super) use cache::{CuboidKey, Source};
pub(super) use conditions::Conditions;
pub use exec::HotCuboidExec;
pub(super) use exec::HotScan;
pub use groups::HotGroupsExec;
pub(super) use values::NoValues;
pub use values::Values;
