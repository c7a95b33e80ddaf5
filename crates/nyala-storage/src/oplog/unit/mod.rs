//! Units: rows of one table at fixed positions, with the keys, versions and deaths of each.

mod base;
mod chunks;
mod dead;
mod facts;
mod forget;
mod keys;
mod logged;
mod lsns;
mod open;
mod seal;
mod slot;
mod stored;
mod view;
mod written;
mod zones;

pub use base::{Base, Gathered, Resident, Rows};
pub use chunks::{Chunk, Data};
pub use dead::DeadRows;
pub use facts::Facts;
pub use keys::{Keys, hash_seed};
pub use logged::LogRange;
pub use lsns::Lsns;
pub use open::{Hashes, Unit};
pub use seal::{key_header, read_bounds, read_dead, read_hashes, seal, write_dead, write_hashes};
pub use view::PartBounds;
pub use view::{Part, UnitView};
pub use written::LsnSet;
pub use written::LsnSpan;
pub use zones::Bounds;
pub use zones::{ZONE_ROWS, ZoneMap, Zones, read_zones, write_zones};
