//! The scan of a live table: all rows of one version, or the rows with some keys.
//!
//! A scan takes over the conditions that it can check without harm, and what operators above it find out while they run
//! (the worst of the ten rows a sort keeps, the keys of a join). Part by part, it reads the columns of those conditions, and
//! of the other columns only the rows that are left.

mod conditions;
mod exec;
mod reader;
mod source;

pub use exec::LiveScanExec;
pub(super) use source::LiveScan;
