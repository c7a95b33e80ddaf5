//! Encrypted connections to servers: what a client trusts, and how it asks for encryption.
//!
//! The words and meanings are those of PostgreSQL's own clients (`sslmode`, `sslrootcert`), except that without
//! `sslrootcert` the authorities are those the operating system trusts.

mod connector;
mod policy;
mod server;
mod trust;

pub use connector::{Connector, Stream};
pub use policy::{Mode, Policy};
pub use server::{PostgresServer, hint};
