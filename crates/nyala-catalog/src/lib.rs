//! The catalog: schemas, tables, cubes with their segments and cuboids, and the jobs that build them.
//!
//! A [`Catalog`] holds one immutable [`CatalogSnapshot`](nyala_model::CatalogSnapshot) that readers
//! load without a lock and without I/O, and a [`CatalogStore`] that makes every [`Change`] durable in
//! one transaction before the next snapshot is published. The crate deliberately does not interpret
//! entries: it parses no SQL, opens no table, reads no cuboid file, and never looks inside a schema
//! message. sqlx is used here and nowhere else.
//!
//! ```text
//!   Change ──▶ Catalog::commit ──▶ CatalogStore::apply   one transaction:
//!              one at a time         │  rules::decide      checks, then edits (pure, shared)
//!                                    │  backend writes     each edit as one statement
//!              publish ◀─────────────┘  version + 1
//!   ArcSwap<CatalogSnapshot>  ──▶ readers         watch<SnapshotVersion> ──▶ caches
//! ```
//!
//! There are two backends: SQLite for a node alone, and PostgreSQL for nodes that share a catalog. Each loads
//! a snapshot and writes edits; the rules and the conformance suite are written once, for both.

pub mod backups;
mod catalog;
mod change;
mod cubes;
mod edit;
mod error;
mod lease;
mod live;
mod lookup;
mod postgres;
mod relations;
mod roles;
mod rules;
mod sqlite;
mod store;

#[cfg(test)]
mod conformance;

pub use catalog::Catalog;
pub use change::{Change, Committed, Granted, NewTable, RoleChange};
pub use error::CatalogError;
pub use lease::{Fence, Lease, LeaseToken, Permit};
pub use postgres::{PostgresStore, ProbedDatabase};
pub use sqlite::{Restored, SqliteStore, restore};
pub use store::{Applied, CatalogStore};

/// The schema that always exists and cannot be dropped.
pub const DEFAULT_SCHEMA: &str = "public";
