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
    /// The line on which the row begins, counted from 1.
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
    /// Whether all rows of the load are written or none.
    whole: bool,
    pub count: u64,
    pub shown: Vec<Reject>,
}

impl Rejects {
    /// Allows `most` rows to be left out of a load. `whole` tells whether it writes all rows or none.
    pub fn at_most(most: u64, whole: bool) -> Self {
        Self { most, whole, count: 0, shown: Vec::new() }
    }

    /// Whether the reason of the next row is shown: it is among the first ones, or ends the load.
    pub(super) fn tells_next(&self) -> bool {
        self.count >= self.most || self.shown.len() < SHOWN
    }

    /// Notes a row that was left out; an error if there are more than allowed.
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
            // A value that cannot be read, or a line with another number of values than there are columns.
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

/// The beginning of a value, as much as is shown.
pub fn shorten(value: &str) -> String {
    match value.char_indices().nth(VALUE_CHARS) {
        Some((end, _)) => format!("{}…", value.get(..end).unwrap_or_default()),
        None => value.to_owned(),
    }
}
