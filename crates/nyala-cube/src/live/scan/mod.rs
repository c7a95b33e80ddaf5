//! The scan of a live table: all rows of one version, or the rows with some keys.
//!
//! A scan takes over the conditions that it can check without harm, and those that operators above it narrow while they
//! run (the worst of the ten rows a sort keeps, the keys of a join). Part by part, it reads the columns of those
//! conditions, and of the other columns only the remaining rows.

mod conditions;
mod exec;
mod reader;
mod source;

pub use exec::LiveScanExec;
pub use source::LiveScan;
