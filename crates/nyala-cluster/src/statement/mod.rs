//! Whole statements between nodes, and their answers, as calls of Arrow Flight: a statement is a ticket, its rows are the
//! stream.

mod errors;
mod messages;
mod send;
mod serve;

pub use errors::{error_from_bytes, error_to_bytes, from_status, to_status};
pub use messages::{ClientMessage, SettingMessage, StatementMessage};
pub use send::send;
pub use serve::Statements;

/// Largest message: one row may be large.
pub const MAX_MESSAGE_BYTES: usize = 1 << 30;

/// The header of an answer without rows.
const DONE: &str = "nyala-done-bin";
