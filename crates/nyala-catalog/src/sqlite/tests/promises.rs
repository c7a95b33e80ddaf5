//! The conformance tests of every backend, run on SQLite.

use std::sync::Arc;

use async_trait::async_trait;
use tempfile::TempDir;

use crate::conformance::conformance_tests;
use crate::conformance::fixtures::Backend;
use crate::{CatalogStore, SqliteStore};

/// A catalog file in a folder of its own.
struct File(TempDir);

impl File {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }
}

#[async_trait]
impl Backend for File {
    async fn open(&self) -> Arc<dyn CatalogStore> {
        Arc::new(SqliteStore::open(&self.0.path().join("data/catalog.db")).await.unwrap())
    }
}

conformance_tests!(File::new());
