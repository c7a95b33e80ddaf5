//! Encrypted connections to servers: trusted authorities, and encryption modes.
//!
//! Names and meanings are those of PostgreSQL's own clients (`sslmode`, `sslrootcert`), except that without
//! `sslrootcert` the operating system's authorities are trusted.

mod connector;
mod policy;
mod server;
mod trust;

pub use connector::{Connector, Stream};
pub use policy::{Mode, Policy};
pub use server::{PostgresServer, hint};
