//! From bytes to rows: external tables, cuboids in memory and in files, and the stores they lie in.

mod blocks;
pub mod bounds;
mod cached_file;
mod cuboid;
mod damage;
mod external;
mod file_reader;
mod file_reads;
mod files;
mod hot;
mod merge;
mod parquet_files;
mod reader;
mod sound_reader;
mod stored_file;
mod stores;
mod text_files;

pub use blocks::{BLOCKS_KEY, FileSums};
pub use cached_file::CachedFile;
pub use cuboid::{CuboidPart, CuboidTable, KeptElsewhere, WithoutValues};
pub use damage::{Damage, DamageReports, FoundDamage};
pub use external::{ExternalTable, SharedScan, TableRequest, decode_schema, describe_table, encode_schema};
pub use file_reads::{FileReads, ReadOnce};
pub use files::{ColumnRange, TableFiles};
pub use hot::HotStats;
pub use hot::{CuboidHomes, HotCuboidExec, HotCuboids, HotGroupsExec, Values};
pub use stored_file::StoredFile;
pub use stores::Stores;
pub use text_files::whole_numbers;
