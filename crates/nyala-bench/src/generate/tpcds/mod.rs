//! TPC-DS data, from the crate `tpcdsgen`, which gives the same rows as `dsdgen`.
//!
//! ```text
//! rows: the crate's row generators ─▶ line: `|`-separated text ─▶ columns: typed by columns.txt
//! ```
//!
//! The crate's rows keep their fields private; the text of a row is its one complete public face.

mod layout;
mod lines;
mod parse;
mod rows;
mod tables;
#[cfg(test)]
mod tests;

pub use tables::{TABLES, plan};
