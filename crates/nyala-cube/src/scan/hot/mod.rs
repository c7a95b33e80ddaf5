//! Hot cuboids: columns that queries read often, decoded and kept in memory.
//!
//! ```text
//! query ──▶ HotCuboids::find ──▶ there: rows that may match ──▶ HotCuboidExec
//!                └─────────────▶ not there: Parquet, and ──▶ load in the background ──▶ there next time
//! ```
//!
//! A server has many more cuboids than memory, and each has many more measures than any one query reads. So an entry of
//! the cache is a cuboid, which makes it one look-up for a query, but it holds only the columns that queries asked for:
//! with 10,000 cuboids and 1 GiB there are 100 KiB for each, and a dashboard that shows two of thirty measures must not
//! push others out by the rest. The whole cuboid is evicted; the next queries bring back only the columns still in use.
//!
//! Repeated values, as in dimensions, are kept as one to four bytes that point to a dictionary of the column, and
//! decoded for the few rows that a query reads: several times as much fits, and a condition is decided once for each
//! different value. Sums and counts are kept as short distances from the least (frame of reference) where that is
//! possible.
//!
//! The files of a cuboid follow one another and are not merged to one order. Each is sorted, so equal values of its
//! leading dimensions stand together, those of the last ascend, and a filter leaves a few ranges of rows in each
//! (`runs`, `sorted_ranges`); unsorted columns are skipped by blocks of rows (`prune`). Columns that arrive at different
//! times fit together without remembering how the rows were moved.
//!
//! Files of a ready segment never change and every segment has a folder of its own, so nothing here is ever out of
//! date. No query asks for the cuboids of a dropped segment any more, and so they are evicted.

mod cache;
mod column;
mod conditions;
mod cuboid;
mod dictionary;
mod exec;
mod frame_of_reference;
mod groups;
mod load;
mod metrics;
mod prune;
mod ranges;
mod runs;
mod search;
mod selection;
mod sorted;
mod sorted_ranges;
mod stored;
mod values;

pub use cache::HotStats;
pub use cache::{CuboidHomes, HotCuboids};
pub use cache::{CuboidKey, Source};
pub use conditions::Conditions;
pub use exec::HotCuboidExec;
pub use exec::HotScan;
pub use groups::HotGroupsExec;
pub use values::NoValues;
pub use values::Values;
