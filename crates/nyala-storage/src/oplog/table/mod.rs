//! A live table in memory: its index, its units, and the versions readers hold.

mod apply;
mod bounds;
mod cold;
mod index;
mod logged;
mod lookup;
mod shared;
mod state;
mod take;
mod version;

pub use index::{Index, Location, PARTS, SHARDS, Shard, Tag, shard_of};
pub use logged::LoggedRows;
pub use lookup::{Found, Located};
pub use shared::SharedTable;
pub use state::TableState;
pub use take::RowId;
pub use version::{Projection, Version};
