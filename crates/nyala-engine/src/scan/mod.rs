//! From bytes to rows: external tables, cuboids in memory and in files, and the stores they lie in.

pub mod bounds;
mod cuboid;
mod external;
mod files;
mod footer;
mod hot;
mod infer;
mod parquet_format;
mod reader;
mod stores;

pub(crate) use cuboid::{CuboidPart, CuboidTable, WithoutValues};
pub(crate) use external::{ExternalTable, decode_schema};
pub(crate) use files::{ColumnRange, TableFiles};
pub(crate) use footer::{FileProblem, check_file};
pub use hot::HotStats;
pub(crate) use hot::{HotCuboidExec, HotCuboids, HotGroupsExec, Values};
pub(crate) use infer::encode_schema;
pub(crate) use infer::{TableRequest, describe_table};
pub(crate) use stores::Stores;
