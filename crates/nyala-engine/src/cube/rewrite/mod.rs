//! Answering aggregations from cuboids.

mod candidate;
mod matching;
mod ranges;
mod raw;
mod report;
mod rule;

pub(crate) use report::Report;
pub(crate) use rule::{CubeIndex, ReadyCube, rewrite};
