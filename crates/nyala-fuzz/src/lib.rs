//! Fuzzing of decoders, for tests only: valid bodies of each format, their mutants, and a loop that feeds a
//! decoder.
//!
//! A decoder may refuse a body, but not panic, and not allocate far more than its limits allow; the counting allocator of
//! the test binary checks that ([`Memory`]). This crate knows no decoder: the target of a decoder is in a test beside it.
//!
//! bolero and cargo-fuzz were considered: bolero pins the `toml` crates of the whole workspace to old
//! versions, and cargo-fuzz needs a nightly compiler.
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
