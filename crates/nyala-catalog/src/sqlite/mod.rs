//! The catalog in one SQLite file, for a single node.

mod apply;
mod history;
mod jobs;
mod load;
mod row;
mod schema;
mod store;

#[cfg(test)]
mod tests;

pub use store::SqliteStore;
