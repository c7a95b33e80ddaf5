//! Statements about cubes, and the automatic upkeep of cubes.

pub mod alter;
pub mod analyze;
pub mod build;
pub mod check;
pub mod create;
pub mod damage;
pub mod drop_segments;
pub mod jobs;
pub mod leftovers;
pub mod place;
pub mod recommend;
pub mod segments;
pub mod show;
pub mod upkeep;

mod begun_job;
mod bounds;
mod budget;
mod compare_answers;
mod describe;
mod divide;
mod lease;
mod maker;
mod unit;
mod unused;
