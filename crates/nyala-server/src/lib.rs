//! The doors: PostgreSQL wire protocol, HTTP, metrics, and the start and stop of all of them.
//!
//! A door turns a client's request into a call of the engine and the engine's answer into the client's
//! format, with back-pressure, and maps errors by one table. It deliberately knows nothing of how a
//! query is planned or run, of files, or of where the configuration came from.

pub mod auth;
pub mod check;
mod door;
mod error;
mod flight;
mod http;
mod kylin;
pub mod metrics;
mod net;
pub mod pgwire;
pub mod profile;
pub mod rest;
mod route;
mod rows;
pub mod serve;
mod small_queries;

pub use net::tls::install_provider;

/// Counts the allocations of the decoders, for the tests that fuzz them.
#[cfg(test)]
#[global_allocator]
static MEMORY: nyala_fuzz::Memory = nyala_fuzz::memory();
