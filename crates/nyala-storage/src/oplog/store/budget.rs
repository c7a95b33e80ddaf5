//! Memory that the stores of a process share.

use std::collections::HashMap;
use std::sync::Mutex;

use super::queue::lock;

/// Bytes that some stores together may hold in memory. Keys, index and unsealed rows are always there; values get the
/// remaining bytes, divided among the stores by the size of their values. Values beyond a store's share stay on disk,
/// or go back there, and are read on demand.
#[derive(Debug)]
pub struct MemoryBudget {
    limit_bytes: u64,
    stores: Mutex<HashMap<[u8; 16], MemoryUse>>,
}

/// The memory use of one store, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// Memory that cannot be dropped.
    pub fixed: u64,
    /// All values that could be in memory.
    pub values: u64,
}

impl MemoryBudget {
    /// A budget of so many bytes, for all stores that share it.
    pub fn new(limit_bytes: u64) -> Self {
        Self { limit_bytes, stores: Mutex::default() }
    }

    /// Records the memory use of a store; gives how many bytes of values it may have in memory.
    pub(super) fn share(&self, store: [u8; 16], used: MemoryUse) -> u64 {
        let mut stores = lock(&self.stores);
        stores.insert(store, used);
        let fixed = stores.values().map(|store| store.fixed).sum();
        let values: u64 = stores.values().map(|store| store.values).sum();
        let left = self.limit_bytes.saturating_sub(fixed);
        if values <= left {
            return u64::MAX;
        }
        let share = u128::from(left) * u128::from(used.values) / u128::from(values.max(1));
        u64::try_from(share).unwrap_or(left)
    }

    /// Forgets a store that is closed.
    pub(super) fn forget(&self, store: &[u8; 16]) {
        lock(&self.stores).remove(store);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_keys_leave_is_divided_by_what_there_is() {
        let budget = MemoryBudget::new(1000);
        let of = |fixed, values| MemoryUse { fixed, values };
        assert_eq!(budget.share([1; 16], of(100, 900)), u64::MAX, "all of it fits");
        assert_eq!(budget.share([2; 16], of(300, 300)), 150);
        assert_eq!(budget.share([1; 16], of(100, 900)), 450);
        assert_eq!(budget.share([3; 16], of(2000, 0)), 0);
        assert_eq!(budget.share([1; 16], of(100, 900)), 0, "keys alone are too many");
        budget.forget(&[3; 16]);
        budget.forget(&[2; 16]);
        assert_eq!(budget.share([1; 16], of(100, 900)), u64::MAX);
    }
}
