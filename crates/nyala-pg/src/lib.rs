//! PostgreSQL's SQL over the engine: its system catalog, its functions, and the spellings of its clients and tools.
//!
//! Every door uses it, since tools send the same queries over each. This crate deliberately knows nothing of any protocol: of
//! library `pgwire` it uses the numbers of types only.

pub mod backends;
mod catalog;
pub mod described;
pub mod translation;
pub mod types;

pub use catalog::{DATABASE, OWNER, PgCatalog};

/// The version clients are told, in PostgreSQL's form: they switch features by its number.
pub const SERVER_VERSION: &str = concat!("15.0 (Nyala ", env!("CARGO_PKG_VERSION"), ")");
