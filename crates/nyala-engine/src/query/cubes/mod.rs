//! Statements about cubes, and the automatic upkeep of cubes.

pub(in crate::query) mod alter;
pub(in crate::query) mod analyze;
pub(in crate::query) mod build;
pub(in crate::query) mod check;
pub(in crate::query) mod damage;
pub(in crate::query) mod freshness;
pub(in crate::query) mod recommend;
pub(in crate::query) mod segments;
pub(in crate::query) mod upkeep;

mod bounds;
mod job;
mod maker;
