//! Parquet files of other writers: their types, their statistics, and columns of files that differ.

mod adapter;
mod format;
mod intervals;
mod schema;
mod statistics;

pub use adapter::FileColumns;
pub use format::SoundParquet;
pub use intervals::with_months;
pub use schema::{by_values, columns_of};
pub use statistics::trusted;
