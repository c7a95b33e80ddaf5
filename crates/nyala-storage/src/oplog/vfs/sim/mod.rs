//! A file system in memory that models the state after a power cut, and fails on demand.
//!
//! Every file has the content that programs see, the content that is on disk, and the writes between the two. A crash
//! keeps any subset of these writes, cut into sectors: writes are torn, lost and reordered. Names are treated alike. A
//! sync that fails keeps such a subset too; programs see the writes it left out until the next crash, and no later
//! sync writes them. Faults and crash images are drawn from a seed.

mod disk;
mod fate;
mod image;

pub use disk::SimDisk;
pub use fate::{Faults, Rng};
pub use image::Image;
