//! The one integration-test binary: linking DataFusion once is enough.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr
)]

mod cubes;
mod harness;
mod property;
mod states;

mod statements;
