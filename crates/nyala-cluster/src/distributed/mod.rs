//! Queries of which several nodes do parts, on the engine datafusion-distributed. Nothing outside of this module knows its
//! types.
//!
//! ```text
//! node that answers                                   nodes that execute
//! engine ──plan──▶ Distribution ──▶ stages            WorkerService ──▶ Workers: a Fragment of the engine
//!                   leaves at their homes               each task ──▶ scan ▸ join ▸ aggregate
//!                        └──── plans, and rows back, on the connection of the two nodes ────┘
//! ```
//!
//! A query is planned for one process first. If all its leaves are files that every node reaches, each part of a file is given
//! to the node that is its home ([`nyala_model::Homes`]), so that the same bytes are always read through the same cache. If it
//! reads few rows, one node does all of it: dividing takes twice the processor time. A query that reads anything else stays where
//! it is: the other nodes have neither its live tables nor its system tables.

mod balance;
mod channels;
mod codec;
mod distribution;
mod ends;
mod errors;
mod executors;
mod fragment;
mod headers;
mod leaves;
mod measure;
mod once;
mod panics;
mod portable;
mod scan;
mod spread;
mod threads;
mod whole;
mod windows;
mod workers;

pub use channels::Channels;
pub use distribution::{Distribution, PlannedForNodes};
pub use workers::Workers;
