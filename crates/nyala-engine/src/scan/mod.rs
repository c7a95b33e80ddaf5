//! From bytes to rows: external tables, cuboid files, and the stores they lie in.

mod cuboid;
mod external;
mod files;
mod infer;
mod reader;
mod stores;

pub(crate) use cuboid::{CuboidPart, CuboidTable};
pub(crate) use external::ExternalTable;
pub(crate) use files::{ColumnRange, TableFiles};
pub(crate) use infer::{TableRequest, describe_table};
pub(crate) use stores::Stores;
