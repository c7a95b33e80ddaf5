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
//!
//! The roots of several segments come from one pass over the rows of all; each segment is then completed and
//! becomes ready on its own.
//!
//! A ready segment of a cube that was altered since gets its missing cuboids one by one: from its other cuboids
//! where these hold the states, else from the rows.

mod abandoned;
mod background;
mod batches;
mod coded;
mod dropped;
mod extend;
mod filled;
mod fold;
mod groups;
mod home;
mod joins;
mod keys;
mod leftovers;
mod order;
mod pipeline;
mod progress;
mod run;
mod segment;
mod segment_home;
mod spread;
mod tee;
mod together;
mod wanted;
mod work;
mod writer;

pub use abandoned::{LeftSegments, drop_those_of_others};
pub use background::Background;
pub use dropped::{segments_in, segments_numbered};
pub use extend::{extend, needs_rows};
pub use filled::FilledSteps;
pub use fold::due_fold_merge;
pub use groups::{MAX_ROWS, groups, unit_rows};
pub(super) use joins::droppable_joins;
pub use leftovers::{Leftovers, RETIREMENT, Readers, leftovers, remove_all, remove_leftovers};
pub use progress::BuildStats;
pub use progress::{Builds, Counts, Progress, RunningBuild};
pub use run::{BuildContext, RangeFacts, Survey, build, merge, record_gap, survey};
pub use segment::{Resume, WantedSegment, now_ms};
pub use segment_home::SegmentHome;
pub use together::build_roots_together;
pub use wanted::{Work, is_due, kept_from, unheld, wanted};
