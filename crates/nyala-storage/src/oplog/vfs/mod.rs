//! The file system, behind a trait, so that every failure of one can be played without a disk.

mod disk;
mod folder;
#[cfg(test)]
pub(crate) mod sim;
mod traits;

pub use disk::RealDisk;
pub(crate) use folder::{FileHandle, Folder};
pub use traits::{OpenMode, Reads, Vfs, VfsFile, VfsLock};
