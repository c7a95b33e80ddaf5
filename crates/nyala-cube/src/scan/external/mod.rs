//! External tables: the files below a location as one table.

mod delta;
mod describe;
mod infer;
mod layout;
mod listing;
mod lists;
mod partitions;
mod pattern;
mod prune;
mod shared;
mod table;

pub use delta::{DeltaColumns, DeltaTable};
pub use describe::{TableRequest, describe_table, encode_schema};
pub use layout::Layout;
pub use listing::Found;
pub use lists::FileLists;
pub use shared::SharedScan;
pub use table::{ExternalTable, decode_schema};
