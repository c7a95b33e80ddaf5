//! What a client's text says, and what expressions mean.
//!
//! Statements of Nyala and of PostgreSQL as values, the functions that a query may call, what casts keep and lose, and the
//! errors that a client sees. This crate deliberately knows nothing of cubes, of stored data, or of sessions.

pub mod conversion;
pub mod error;
pub mod functions;
pub mod pruning;
pub mod statement;

/// Counts what the decoders allocate, for the tests that fuzz them.
#[cfg(test)]
#[global_allocator]
static MEMORY: nyala_fuzz::Memory = nyala_fuzz::memory();
