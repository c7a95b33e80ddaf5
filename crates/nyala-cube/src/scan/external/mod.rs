//! External tables: the files below a location as one table.

mod describe;
mod infer;
mod layout;
mod listing;
mod partitions;
mod pattern;
mod prune;
mod table;

pub use describe::{TableRequest, describe_table, encode_schema};
pub use table::{ExternalTable, decode_schema};
