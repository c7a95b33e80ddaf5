//! The catalog in PostgreSQL, which several nodes share.
//!
//! Each entry is a row of JSON, and each change a row with its edits: a node that knows an older version makes the edits on
//! its own snapshot instead of reading everything. Writers wait for each other at the only row of `nyala.catalog`.

mod apply;
mod entries;
mod history;
mod jobs;
mod leases;
mod load;
mod nodes;
mod probe;
mod schema;
mod store;

#[cfg(test)]
mod tests;

pub use probe::ProbedDatabase;
#[cfg(test)]
pub use store::DEADLINE;
pub use store::PostgresStore;
