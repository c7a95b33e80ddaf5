//! Counting cells by codes instead of values.
//!
//! ```text
//! part ── code(p_brand1) ─┐
//!                         ├─ join ─▶ codes, arguments ─▶ key ─Partial─▶ states by key ─PartialReduce─▶
//! lineorder ──────────────┘
//!                         ─▶ codes to ranks ─▶ sort by key ─▶ ranks to values ─▶ Parquet
//! ```
//!
//! A dimension with few values becomes numbers before the joins, where each row of its table is looked up once;
//! and the numbers of all dimensions of a cuboid fit in one integer or two, by which rows are grouped,
//! exchanged and sorted several times faster than by texts. This needs an estimate of the number of values:
//! dimensions with more than some million keep their values, and a cuboid is built without codes if a dimension
//! turns out to have more values than codes.
//!
//! Several segments are one more dimension, the first of the key: their cells come out of one pass over the
//! rows, one segment after the other.

mod coding;
mod dictionary;
mod expressions;
mod function;
mod key;
mod segments;

pub use coding::Coding;
pub use segments::{SegmentCodes, segment_of};
