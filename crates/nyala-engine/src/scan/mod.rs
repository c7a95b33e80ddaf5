//! From bytes to rows: external tables, cuboids in memory and in files, and the stores they lie in.

mod blocks;
pub mod bounds;
mod cuboid;
mod damage;
mod external;
mod files;
mod hot;
mod infer;
mod parquet_format;
mod reader;
mod sound_reader;
mod stored_file;
mod stores;

pub(crate) use blocks::{BLOCKS_KEY, FileSums};
pub(crate) use cuboid::{CuboidPart, CuboidTable, WithoutValues};
pub(crate) use damage::{Damage, DamageReports, FoundDamage};
pub(crate) use external::{ExternalTable, decode_schema};
pub(crate) use files::{ColumnRange, TableFiles};
pub use hot::HotStats;
pub(crate) use hot::{HotCuboidExec, HotCuboids, HotGroupsExec, Values};
pub(crate) use infer::encode_schema;
pub(crate) use infer::{TableRequest, describe_table};
pub(crate) use stored_file::StoredFile;
pub(crate) use stores::Stores;
