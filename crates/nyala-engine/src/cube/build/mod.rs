//! Building a segment: every cuboid of a cube from one pass over its flat rows.
//!
//! ```text
//!               ┌─▶ root cuboid ─▶ Parquet ─┬─▶ smaller cuboid ─▶ Parquet ─▶ …
//! flat rows ─ tee                           └─▶ smaller cuboid ─▶ Parquet
//!               └─▶ root cuboid ─▶ Parquet
//! ```
//!
//! Roots (grouping sets that no other set contains) share the scan and the joins; all others are rolled
//! up from the smallest cuboid built so far that contains them. Nothing is visible before the last file
//! is written: the segment then becomes ready in one catalog transaction.

mod background;
mod compact;
mod joins;
mod keys;
mod order;
mod pipeline;
mod progress;
mod run;
mod segment;
mod tee;
mod wanted;
mod writer;

pub(crate) use background::Background;
pub(super) use joins::droppable_joins;
pub(crate) use progress::{Builds, Progress};
pub(crate) use run::{BuildContext, BuiltSegment, build, merge};
pub(crate) use segment::{WantedSegment, now_ms, remove_leftovers, retire};
pub(crate) use wanted::{Work, wanted};
