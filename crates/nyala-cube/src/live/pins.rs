//! The version of each live table that a statement reads.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use nyala_model::TableId;
use nyala_storage::oplog::Version;

/// The versions that one statement reads: of each table the newest at the first read, for all later reads, too.
#[derive(Debug, Default)]
pub struct Pins(Mutex<HashMap<TableId, Arc<Version>>>);

impl Pins {
    /// The version that is read, if it is chosen already.
    pub fn get(&self, table: TableId) -> Option<Arc<Version>> {
        self.lock().get(&table).cloned()
    }

    /// The version that is read, which is `newest` if none is chosen yet.
    pub fn get_or(&self, table: TableId, newest: impl FnOnce() -> Arc<Version>) -> Arc<Version> {
        Arc::clone(self.lock().entry(table).or_insert_with(newest))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<TableId, Arc<Version>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
