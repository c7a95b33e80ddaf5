//! Parses a client's text, and gives the meaning of expressions.
//!
//! Statements of Nyala and of PostgreSQL as values, the functions that a query may call, the effect of casts, and the
//! errors that a client sees. This crate deliberately knows nothing of cubes, of stored data, or of sessions.

pub mod error;
pub mod functions;
pub mod semantics;
pub mod statement;

/// Counts the memory that decoders allocate, for the tests that fuzz them.
#[cfg(test)]
#[global_allocator]
static MEMORY: nyala_fuzz::Memory = nyala_fuzz::memory();
