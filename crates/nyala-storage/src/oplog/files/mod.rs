//! Files that are written once: columns, keys, dead rows, and the manifest that names them.

mod block;
mod footer;
mod held;
mod manifest;
mod names;
mod sparse;
mod write;

pub(crate) use block::BlockFile;
pub(crate) use footer::{BlockHeader, BlockKind};
pub(crate) use held::HeldTable;
pub(crate) use manifest::{LogEntry, Manifest, Source, UnitEntry, UnitFiles};
pub(crate) use names::{is_ours, manifest_name, manifest_number};
pub(crate) use sparse::SparseReader;
pub(crate) use write::BlockWriter;

/// A file, with its version, length and checksum, by which it is recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileRef {
    pub(crate) version: u64,
    pub(crate) bytes: u64,
    /// CRC of its footer.
    pub(crate) crc: u32,
}
