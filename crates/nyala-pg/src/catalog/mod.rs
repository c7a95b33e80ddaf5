//! The system tables and functions that clients of PostgreSQL ask for.

mod functions;
mod provider;
mod text_functions;

pub use provider::PgCatalog;
