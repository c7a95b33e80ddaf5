//! Answering aggregations from cuboids.

mod matching;
mod report;
mod rule;

pub(crate) use report::Report;
pub(crate) use rule::{CubeIndex, ReadyCube, rewrite};
