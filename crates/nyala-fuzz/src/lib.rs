//! Fuzzing of decoders, for tests only: valid bodies of each format, mutants of them, and a loop that shows mutants to a decoder.
//!
//! A decoder may refuse a body, but not panic, and not allocate far more than its limits allow; the latter is seen by the
//! allocator of the test binary, which counts ([`Memory`]). This crate knows no decoder: each has its target in a test beside it.
//!
//! bolero and cargo-fuzz were considered: the former holds the `toml` crates of the whole workspace back, the latter needs a
//! nightly compiler.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr
)]

pub mod corpus;
mod mutate;
mod random;
mod run;

pub use mutate::{mutant, mutate};
pub use random::Random;
pub use run::{Memory, Target, memory};
