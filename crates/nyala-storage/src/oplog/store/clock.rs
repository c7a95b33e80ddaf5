//! The environment of a store: disk, time, and one random number.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use super::MemoryBudget;
use crate::oplog::vfs::{RealDisk, Vfs};

/// The time, for measuring the age of rows.
pub trait Clock: Debug + Send + Sync {
    /// Milliseconds since 1970.
    fn now_ms(&self) -> u64;
}

/// The operating system's time.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_ms(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    }
}

/// The world around a store.
#[derive(Debug, Clone)]
pub struct Environment {
    /// The file system.
    pub disk: Arc<dyn Vfs>,
    /// The source of time.
    pub clock: Arc<dyn Clock>,
    /// Makes the unique id of a new store.
    pub new_store_id: fn() -> [u8; 16],
    /// Memory that the store shares with other stores; none for no limit.
    pub budget: Option<Arc<MemoryBudget>>,
}

impl Default for Environment {
    fn default() -> Self {
        let new_store_id = || uuid::Uuid::now_v7().into_bytes();
        Self { disk: Arc::new(RealDisk), clock: Arc::new(SystemClock), new_store_id, budget: None }
    }
}
