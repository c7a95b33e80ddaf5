//! Bounds of Parquet files that another system wrote, or a disk has damaged.
//!
//! The reader of Parquet allocates by the numbers in a file: so many row groups, so many children of a column, so many
//! values in a dictionary, so many bytes in a page. One wrong bit in such a number is a request for gigabytes, which
//! ends the process. So each number is compared with the bytes that are there, before the reader sees them:
//!
//! ```text
//! footer ─▶ check_footer ─▶ reader      page index ─▶ check_index ─▶ reader      pages ─▶ check_pages ─▶ reader
//! ```
//!
//! Source: the Parquet format, and Thrift's compact protocol.

mod contents;
mod damage;
mod delta;
mod entries;
mod footer;
mod levels;
mod metadata;
mod pages;
mod thrift;

#[cfg(test)]
mod tests;

pub use contents::ContentsCheck;
pub use damage::DamagedFile;
pub use entries::{Entries, Fingerprint, lists_of};
pub use footer::{check_footer, check_index};
pub use metadata::{chunk_of, sound_metadata};
pub use pages::{ChunkPages, check_pages};
