//! Query history, the basis of advice: aggregations, how often and how long they ran, and the cuboids that
//! answered.
//!
//! ```text
//! query ──Recording dropped──▶ bounded queue ────▶ book ──every few seconds──▶ catalog
//!          never waits, may                        in memory, one task
//!          lose under load                         writes shapes in it
//! ```
//!
//! A query hands over the findings of the rewrite and goes on; the task makes SQL of them. No answer needs
//! the history, so nothing here may fail a query.

mod book;
mod recording;

pub use recording::{History, Recorded, Recording};
