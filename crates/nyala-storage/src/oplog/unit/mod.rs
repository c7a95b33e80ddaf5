//! Units: rows of one table at fixed positions, with the keys, versions and deaths of each.

mod base;
mod chunks;
mod dead;
mod facts;
mod keys;
mod lsns;
mod open;
mod seal;
mod stored;
mod view;

pub(crate) use base::{Base, Gathered, LogRange, Resident, Rows};
pub(crate) use chunks::{Chunk, Data};
pub(crate) use dead::DeadRows;
pub(crate) use facts::Facts;
pub(crate) use keys::{Keys, hash_seed};
pub(crate) use lsns::Lsns;
pub(crate) use open::{Hashes, Unit};
pub(crate) use seal::{key_header, read_dead, read_hashes, seal, write_dead, write_hashes};
pub use view::{Part, UnitView};
