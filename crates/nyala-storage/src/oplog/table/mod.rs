//! A live table in memory: its index, its units, and the versions readers hold.

mod apply;
mod index;
mod lookup;
mod shared;
mod state;
mod version;

pub(crate) use index::{Index, Location, SHARDS, shard_of};
pub use lookup::Found;
pub(crate) use shared::SharedTable;
pub(crate) use state::TableState;
pub use version::{Projection, Version};
