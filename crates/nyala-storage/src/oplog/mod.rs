//! Live tables: rows with a primary key, in memory, durable in a disk store.
//!
//! A [`DiskStore`] is a folder of live tables that share one log. It is opened by [`DiskStore::open`], which
//! blocks until all keys are known; several stores are opened in parallel by threads of the caller. All calls
//! that may touch the disk block, so that they belong on threads made for that; [`Ticket`]s are futures.
//!
//! ```
//! use std::sync::Arc;
//! use arrow_array::{Int64Array, RecordBatch, StringArray};
//! use arrow_schema::{DataType, Field, Schema};
//! use nyala_storage::oplog::{DiskStore, Environment, StoreOptions, TableSpec, Write};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! let store = DiskStore::open(folder.path(), StoreOptions::default(), Environment::default())?;
//! let schema = Arc::new(Schema::new(vec![
//!     Field::new("id", DataType::Int64, false),
//!     Field::new("name", DataType::Utf8, true),
//! ]));
//! let table = store.create_table(TableSpec::new("people", schema.clone(), &["id"]))?;
//! let ids = Arc::new(Int64Array::from(vec![1, 2]));
//! let names = Arc::new(StringArray::from(vec!["Ada", "Grace"]));
//! table.write(Write::upsert(RecordBatch::try_new(schema, vec![ids.clone(), names])?))?;
//!
//! let version = table.version(); // immutable; a writer neither waits for it nor changes it
//! let names_only = version.projection(&[1], false)?;
//! for part in version.parts()? {
//!     assert_eq!(names_only.read(&part)?.num_rows(), 2);
//! }
//! let keys = RecordBatch::try_new(table.key_schema()?, vec![Arc::new(Int64Array::from(vec![2, 7]))])?;
//! assert_eq!(table.lookup(&keys)?.positions, [Some(0), None]);
//!
//! let located = table.locate(&keys)?; // where they are; then only the columns that are needed
//! let rows: Vec<_> = located.rows.into_iter().flatten().collect();
//! assert_eq!(located.version.take(&rows, &names_only)?.num_rows(), 1);
//! store.close()?;
//! # Ok(())
//! # }
//! ```
//!
//! How it fits together, from the small to the large:
//!
//! ```text
//! LiveTable::write ── check, hash, encode (caller's thread)
//!   └▶ queue ──▶ committer: conditions ▸ LSNs ▸ log ▸ fdatasync ▸ tables in memory ▸ new Version ▸ ticket
//!                                                │
//! upkeep:   log full ▸ seal: .seg .key           │    readers hold Versions: no lock, no copy
//!           little lives ▸ rewrite               ▼
//!           checkpoint: .key .del manifest ◀── units, dead rows, index
//! start:    manifest ▸ hashes ▸ index ▸ rest of the log ▸ (serving) ▸ values
//! ```
//!
//! The format on disk is drawn in `docs/formats/disk-store.md`.

mod codec;
mod error;
mod files;
mod labels;
mod log;
mod meta;
mod space;
mod store;
mod table;
#[cfg(test)]
mod tests;
mod unit;
pub mod vfs;
mod write;

pub use error::{Damage, LostRows, OplogError, Result};
pub use labels::{Label, Labelled};
pub use meta::{Alteration, Durability, TableSpec};
pub use store::{
    Change, ChangeFeed, CheckedFile, Clock, Committed, DiskStore, Environment, LiveTable, MemoryBudget,
    Phase, Progress, ProgressReport, RefusedRows, SalvageReport, StoreOptions, StoreReport, StoreStats,
    SystemClock, TableStats, Ticket, TornTail, VerifyReport, restore, salvage, verify,
};
pub use table::{Found, Located, Projection, RowId, Version};
pub use unit::{Bounds, LsnSet, Part};
pub use write::{Condition, Write};
