//! Cubes, and the tables and files that they are built from.
//!
//! ```text
//! cube   define, build, rewrite a plan to cuboids, finish the half-way states of cuboids
//! live   tables in disk stores as DataFusion sees them
//! scan   files of tables and cuboids, on disk and in memory
//! ```
//!
//! This crate deliberately knows nothing of sessions and their rights, or of the times at which builds run.

pub mod cube;
pub mod live;
pub mod scan;

/// Counts the allocations of the decoders, for the tests that fuzz them.
#[cfg(test)]
#[global_allocator]
static MEMORY: nyala_fuzz::Memory = nyala_fuzz::memory();
