//! What was asked, how often, how long it took and what answered: the grounds for advice.
//!
//! ```text
//! query ──Recording dropped──▶ bounded channel ──▶ book ──every few seconds──▶ catalog
//!          never waits, may                        in memory, one task
//!          lose under load                         writes shapes in it
//! ```
//!
//! A query hands over what the rewrite found and goes on; SQL is made of it by the task. Nothing here is
//! needed to answer, so nothing here may fail a query.

mod book;
mod recording;

pub use recording::{History, Recorded, Recording};
