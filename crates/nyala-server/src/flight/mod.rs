//! The Arrow Flight SQL door: columns of an answer as they are computed, and rows of Arrow into live tables.
//!
//! ```text
//! bytes of a call ─▶ login ─▶ receive: bytes and waits bounded ─▶ service: command read ─▶ queries, puts, ingest, actions, metadata
//!
//! Handshake ─▶ token ─▶ session of the token       (without passwords: session of the connection)
//! prepare ─▶ handle ──▶ bind ─▶ GetFlightInfo ─▶ DoGet ─▶ batches with the types that all drivers read
//!                                    └── a statement without rows is run here, once
//! DoPut ─▶ messages of Arrow IPC ─▶ rows::Load ─▶ one statement, refused if rows are missing
//! ```
//!
//! It deliberately knows nothing of how statements are planned, and decodes no bytes of a client before
//! [`crate::rows`] has checked them.

mod actions;
mod calls;
mod command;
mod data;
mod door;
mod error;
mod info;
mod ingest;
mod load_target;
mod login;
mod messages;
mod metadata;
mod metadata_calls;
mod opaque;
mod parameters;
mod pieces;
mod puts;
mod queries;
mod receive;
mod receive_budget;
mod service;
mod session_options;
mod sessions;
mod sql_info;
mod statements;
mod stream;
mod type_info;
mod types;

pub use door::FlightDoor;
