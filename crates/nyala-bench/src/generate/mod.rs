//! Data generators: `nyala gen ssb|tpch|tpcds` writes a benchmark's tables as Parquet.
//!
//! A data set is planned as tables, each cut into parts. A part is one file: an iterator of record
//! batches that can be opened alone, so that parts are generated, encoded and uploaded in parallel
//! while memory holds no more than a row group for each. How a table is cut depends on the scale
//! only, never on the machine, so a scale gives the same files everywhere.

mod command;
mod plan;
mod progress;
mod request;
mod run;
mod ssb;
mod target;
mod tpcds;
mod tpch;
mod writer;

pub use command::{GenerateArgs, command};
pub use progress::Progress;
pub use request::{Dataset, Request};
pub use run::run;
