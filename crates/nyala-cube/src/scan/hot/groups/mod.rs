//! Answers from one hot cuboid, made of the keys that its columns are kept as.
//!
//! ```text
//! rows that the filter leaves ──▶ keys of their dimensions ──▶ numbers of groups ──▶ states merged by these
//!                                                        └──▶ order of the groups ──▶ values of the result
//! ```
//!
//! DataFusion's aggregation and sort see values: texts are decoded for every cell, hashed and compared, and each
//! operator sets itself up for spilling and for many batches. For the few hundred cells that a dashboard's query reads
//! that takes longer than all the rest. Keys are small numbers in the order of their values, so groups are told apart
//! and sorted by them, and only the result is decoded. The aggregates are DataFusion's own.

mod answer;
mod exec;
mod keys;
mod order;
mod shape;

pub use exec::HotGroupsExec;
