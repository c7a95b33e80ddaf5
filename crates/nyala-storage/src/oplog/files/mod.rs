//! Files that are written once: columns, keys, dead rows, and the manifest that names them.

mod block;
mod footer;
mod held;
mod manifest;
mod names;
mod sparse;
mod write;

pub use block::BlockFile;
pub use footer::{BlockHeader, BlockKind};
pub use held::HeldTable;
pub use manifest::{LogEntry, Manifest, Source, UnitEntry, UnitFiles};
pub use names::{is_ours, manifest_name, manifest_number};
pub use sparse::SparseReader;
pub use write::BlockWriter;

/// A file, with its version, length and checksum, by which it is recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileRef {
    pub version: u64,
    pub bytes: u64,
    /// CRC of the file's footer.
    pub crc: u32,
}
