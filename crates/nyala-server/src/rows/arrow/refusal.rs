//! Errors for streams that are refused.

use std::fmt::Display;

use nyala_engine::{ErrorKind, QueryError};

/// The stream violates the format.
pub fn malformed(reason: impl Display) -> QueryError {
    QueryError::new(ErrorKind::Data, format!("the body is not a readable Arrow stream: {reason}"))
}

/// A message expands to more than is allowed.
pub fn too_large(limit_bytes: usize) -> QueryError {
    let message = format!("a batch of the Arrow stream has more than {} MiB", limit_bytes >> 20);
    QueryError::new(ErrorKind::LimitExceeded, message).hint("send batches of fewer rows")
}
