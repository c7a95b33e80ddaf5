//! Star Schema Benchmark data (O'Neil, O'Neil, Chen: "Star Schema Benchmark", revision 3, 2009).
//!
//! Every row is a function of the scale and its key: nothing is carried from one row to the next, so
//! any run of rows can be generated alone. `docs/reference/ssb-data.md` lists the points that the paper
//! leaves open, and how they are settled here: a rule that changes here must change there, too.

mod calendar;
mod customer;
mod dates;
mod geography;
mod lineorder;
mod part;
mod random;
mod sizes;
mod supplier;
mod tables;
#[cfg(test)]
mod tests;
mod text;

pub use tables::{TABLES, plan};
