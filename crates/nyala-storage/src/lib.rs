//! Storage: locations of files, and access to them.
//!
//! This crate opens locations (local folders, S3 buckets) as object stores, guards a node's data folder, and
//! keeps live tables in memory and on disk ([`oplog`]). It deliberately knows nothing of cubes, SQL or queries,
//! and does not link DataFusion.

pub mod data_dir;
mod error;
pub mod folder_backup;
pub mod object;
pub mod oplog;
pub mod place_of_cuboids;
mod probe;
mod segments;

pub use error::StorageError;
pub use probe::{ProbedFolder, ProbedPlace, probe_folder};
pub use segments::{SegmentStore, copy_segments, path};
