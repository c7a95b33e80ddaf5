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

pub(crate) use base::{Base, Gathered, Resident, Rows};
pub(crate) use chunks::{Chunk, Data};
pub(crate) use dead::DeadRows;
pub(crate) use facts::Facts;
pub(crate) use keys::{Keys, hash_seed};
pub(crate) use logged::LogRange;
pub(crate) use lsns::Lsns;
pub(crate) use open::{Hashes, Unit};
pub(crate) use seal::{key_header, read_bounds, read_dead, read_hashes, seal, write_dead, write_hashes};
pub(crate) use view::PartBounds;
pub use view::{Part, UnitView};
pub use written::LsnSet;
pub(crate) use written::LsnSpan;
pub use zones::Bounds;
pub(crate) use zones::{ZONE_ROWS, ZoneMap, Zones, read_zones, write_zones};
