//! A file system in memory that knows what would be left after a power cut, and fails on demand.
//!
//! Every file has the content that programs see, the content that is on disk, and the writes between the
//! two. A crash keeps any subset of the latter, cut into sectors: writes are torn, lost and reordered. Names
//! are treated alike. A sync that fails keeps such a subset too; what it leaves out is seen until the next crash, and no
//! later sync writes it. Faults and crash images are drawn from a seed.

mod disk;
mod fate;
mod image;

pub(crate) use disk::SimDisk;
pub(crate) use fate::{Faults, Rng};
pub(crate) use image::Image;
