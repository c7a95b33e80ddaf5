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
mod analyzed;
mod block;
pub mod build;
mod call;
mod compile;
mod conjuncts;
mod coverage;
mod definition;
mod describe;
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
mod statement;
mod trial;

pub use advice::{Advice, advise, stars, without_covered};
pub use alter::{Alteration, alter};
pub use analyzed::state_for_analyzed;
pub use block::table_of;
pub use compile::{CompiledCube, compile};
pub use coverage::{Coverage, Listings, fingerprints, show_damage};
pub use definition::check_states;
pub use definition::define;
pub use describe::{
    CubeDescription, DescribedDimension, DescribedExpr, DescribedMeasure, DescribedTable, TableColumn,
    describe,
};
pub use finish::FinishAggregatePlanner;
pub use live::{LiveVersions, live_tables};
pub use partition::{PartitionColumn, show_bounds, show_range};
pub use rewrite::{Asked, BlockReport, Chosen, CubeIndex, ReadyCube, Report, Routing, rewrite};
pub use shape::{quoted, shape_of, show_shape};
pub use statement::create_statement;
pub use trial::{Dice, Trial, Trials};
