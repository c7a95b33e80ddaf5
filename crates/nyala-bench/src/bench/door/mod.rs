//! How a query gets to a server, and how its answer is read.

mod api;
mod http;
mod postgres;
mod target;

pub use target::{Connection, Mode, Target};

use std::fmt;

/// A whole answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// Number of columns, if the protocol tells it without rows.
    pub columns: Option<usize>,
    /// Rows, read to the last.
    pub rows: u64,
}

/// Why a query has no whole answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// The server refused the query; the connection goes on.
    Refused(String),
    /// The connection cannot be used any more.
    Broken(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(reason) | Self::Broken(reason) => f.write_str(reason),
        }
    }
}

/// Checks a row against the known number of the answer's columns.
fn same_width(known: &mut Option<usize>, columns: usize) -> Result<(), Failure> {
    match *known.get_or_insert(columns) {
        known if known == columns => Ok(()),
        known => Err(Failure::Broken(format!("a row of {columns} columns in an answer of {known}"))),
    }
}
