//! The catalog in one SQLite file, for a single node.

mod apply;
mod copy;
mod file;
mod history;
mod jobs;
mod load;
mod mark;
mod restore;
mod row;
mod schema;
mod seal;
mod store;

#[cfg(test)]
mod tests;

pub use restore::{Restored, restore};
pub use store::SqliteStore;
