//! `nyala demo`: the Star Schema Benchmark with a cube, from nothing to a comparison to a server.
//!
//! ```text
//! generate files ─▶ create tables ─▶ create and build cube ─▶ 13 queries, cube on and off ─▶ serve
//! ```
//! Each step first checks whether its result exists, so that a second run goes straight to the queries.

mod command;
mod compare;
mod data;
mod objects;
mod queries;
mod summary;

pub use command::command;
