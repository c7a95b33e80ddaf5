//! Rows that cannot be read.

use nyala_engine::{ErrorKind, QueryError};
use serde::Serialize;

/// Most rows that are shown.
const SHOWN: usize = 100;
/// Most characters of a value that are shown.
const VALUE_CHARS: usize = 80;

/// A row that was left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Reject {
    /// Where it begins, counted from 1.
    pub line: u64,
    /// The column with the error, if it is in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<String>,
    /// The reason.
    pub reason: String,
}

/// Rows that were left out, and how many may be.
#[derive(Debug)]
pub struct Rejects {
    most: u64,
    /// Whether all rows are written or none.
    whole: bool,
    pub count: u64,
    pub shown: Vec<Reject>,
}

impl Rejects {
    /// So many rows may be left out of a load that is done as a `whole`, or not.
    pub fn at_most(most: u64, whole: bool) -> Self {
        Self { most, whole, count: 0, shown: Vec::new() }
    }

    /// Whether anybody is told of the next row: it is one of those that are shown, or ends the load.
    pub(super) fn tells_next(&self) -> bool {
        self.count >= self.most || self.shown.len() < SHOWN
    }

    /// Takes note of a row; an error beyond the limit.
    pub(super) fn add(&mut self, reject: Reject) -> Result<(), QueryError> {
        self.count += 1;
        if self.count > self.most {
            let place = match &reject.column {
                Some(column) => format!("line {}, column `{column}`", reject.line),
                None => format!("line {}", reject.line),
            };
            let message = match self.most {
                0 => format!("{place}: {}", reject.reason),
                most => {
                    format!("more than {most} rows cannot be read; the last at {place}: {}", reject.reason)
                }
            };
            let hint = match self.whole {
                true => "no row was written; correct the row and load all again",
                false => {
                    "rows before it may have been written; correct the row and load all again, which replaces them"
                }
            };
            // A value that cannot be read, or a line that has not as many as there are columns.
            let state = if reject.column.is_some() { "22P02" } else { "22P04" };
            let error = QueryError { sqlstate: Some(state), ..QueryError::new(ErrorKind::Data, message) };
            return Err(error.hint(hint));
        }
        if self.shown.len() < SHOWN {
            self.shown.push(reject);
        }
        Ok(())
    }
}

/// A value as it is shown, not all of it if it is long.
pub fn shorten(value: &str) -> String {
    match value.char_indices().nth(VALUE_CHARS) {
        Some((end, _)) => format!("{}…", value.get(..end).unwrap_or_default()),
        None => value.to_owned(),
    }
}
