//! Cubes: defining, building and answering from them.
//!
//! Everything here is the same aggregation, stopped half-way and taken up again:
//!
//! ```text
//! rows ──Partial──▶ states ──PartialReduce──▶ fewer states ──Final──▶ answer
//!        build                roll up                         answer
//! ```

mod advice;
mod alter;
mod block;
pub(crate) mod build;
mod call;
mod compile;
mod conjuncts;
mod coverage;
mod definition;
mod edges;
mod expression;
mod finish;
mod flat;
mod grouping;
mod lists;
mod live;
mod measure;
mod options;
mod outer;
mod partial;
mod partition;
mod rewrite;
mod shape;
mod trial;

pub(crate) use advice::{Advice, advise, stars};
pub(crate) use alter::alter;
pub(crate) use block::table_of;
pub(crate) use compile::{CompiledCube, compile};
pub(crate) use coverage::{Coverage, Listings, fingerprints, show_damage};
pub(crate) use definition::check_states;
pub(crate) use definition::define;
pub(crate) use finish::FinishAggregatePlanner;
pub(crate) use live::{LiveVersions, live_tables};
pub(crate) use partition::{PartitionColumn, show_range};
pub(crate) use rewrite::{Asked, CubeIndex, ReadyCube, Report, Routing, rewrite};
pub(crate) use shape::{quoted, shape_of, show_shape};
pub(crate) use trial::{Dice, Trial, Trials};
