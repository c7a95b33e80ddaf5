//! The PostgreSQL wire door: any driver and any BI tool that speaks protocol 3.0.
//!
//! ```text
//! server ─▶ startup ─▶ connection ─┬─▶ simple ────┬─▶ rewrite ─▶ engine ─▶ portal ─▶ encode ─▶ stream
//!              │                   └─▶ extended ──┤      │                         (columns)
//!              └─▶ cancel                         │      └─ absent, dialect: queries of tools
//!                                                 └─▶ command ─▶ session_commands, setting_commands
//! ```
//!
//! The message loop is our own, over pgwire's message types: a statement must be cancellable while its
//! rows stream, rows must wait for a slow client instead of gathering, and a client that went away must
//! be noticed while its statement is still silent.

mod absent;
mod arguments;
mod arrays;
mod binary_rows;
mod cancel;
mod catalog;
mod cells;
mod columns;
mod command;
mod connection;
mod copy;
mod copy_out;
mod dialect;
mod encode;
mod errors;
mod extended;
mod floats;
mod functions;
mod known;
mod listen;
mod local_time;
mod login;
mod messages;
mod numeric;
mod parameters;
mod placeholders;
mod portal;
mod rewrite;
mod scram;
mod server;
mod session_commands;
mod setting_commands;
mod settings;
mod simple;
mod snippets;
mod startup;
mod stream;
mod text_functions;
mod transaction;
mod walk;

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod fuzz;

pub use catalog::PgCatalog;
pub use listen::{Listener, LocalSocket};
pub use server::serve;
