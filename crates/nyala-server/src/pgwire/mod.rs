//! The PostgreSQL wire door: any driver and any BI tool that speaks protocol 3.0.
//!
//! ```text
//! protocol: server ─▶ startup ─▶ connection ─┬─▶ simple ────┬─▶ nyala-pg translates ─▶ engine ─▶ portal ─▶ stream
//!                        │                   └─▶ extended ──┤                                      │
//!                        └─▶ cancel                         └─▶ commands                           └─ values encode
//! ```
//!
//! The message loop is our own, over pgwire's message types: a statement must be cancellable while its
//! rows stream, rows must wait for a slow client instead of gathering, and a client that went away must
//! be noticed while its statement is still silent.

mod commands;
mod door;
mod errors;
mod position;
mod protocol;
mod values;
mod words;

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
mod fuzz;

pub use door::{PostgresDoor, check_socket, socket_folder};
pub(crate) use errors::sqlstate_of;
pub use nyala_pg::PgCatalog;
