//! The catalog as statements see it: its newest snapshot with tables and cubes open, followed as it changes.
//!
//! ```text
//! catalog ──commit here, poll each second──▶ Snapshots ──current──▶ statement keeps one SnapshotContext
//! stores  ──listed in rounds: FileChecks──▶      │
//!                                                └── new snapshot: cached plans of the old one are dropped
//! ```

mod catalog_copies;
mod catalog_watch;
mod current;
mod file_checks;

pub use catalog_copies::CatalogCopies;
pub use catalog_watch::follow;
pub use current::Snapshots;
pub use file_checks::{FileChecks, first as first_file_check, rounds as file_check_rounds};
