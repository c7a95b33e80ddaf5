//! A column of rows in files, which may be in memory.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use arrow_array::ArrayRef;

use crate::oplog::error::Result;

/// Counts reads of columns, to find the least recently read ones.
static READS: AtomicU64 = AtomicU64::new(0);

/// A column that may be in memory. Checking whether it is does not wait for its readers.
#[derive(Debug, Default)]
pub struct Slot {
    array: Mutex<Option<ArrayRef>>,
    /// Held by the statement that reads the column, so that other statements that need it wait.
    reading: Mutex<()>,
    /// The number of the column's last read.
    read: AtomicU64,
}

impl Slot {
    /// The column, if it is in memory.
    pub fn get(&self) -> Option<ArrayRef> {
        lock(&self.array).clone()
    }

    pub fn is_resident(&self) -> bool {
        lock(&self.array).is_some()
    }

    /// Puts the column into memory, unless it is there; gives the array in memory.
    pub fn put(&self, array: ArrayRef) -> ArrayRef {
        let mut held = lock(&self.array);
        let known = held.clone();
        if known.is_none() {
            *held = Some(array.clone());
        }
        // A surplus array may be large: it is freed after the lock is released.
        drop(held);
        known.unwrap_or(array)
    }

    /// Drops the column from memory.
    pub fn clear(&self) {
        let array = lock(&self.array).take();
        drop(array);
    }

    /// The column for a waiting statement: read by `read` if it is not in memory.
    pub fn get_or_read(&self, read: impl FnOnce() -> Result<ArrayRef>) -> Result<ArrayRef> {
        self.read.store(READS.fetch_add(1, Relaxed), Relaxed);
        if let Some(array) = self.get() {
            return Ok(array);
        }
        let _reading = lock(&self.reading);
        match self.get() {
            Some(array) => Ok(array),
            None => Ok(self.put(read()?)),
        }
    }

    /// Whether a waiting statement is reading the column.
    pub fn is_being_read(&self) -> bool {
        matches!(self.reading.try_lock(), Err(TryLockError::WouldBlock))
    }

    /// The number of the column's last read, counted over all columns.
    pub fn last_read(&self) -> u64 {
        self.read.load(Relaxed)
    }
}

pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::Int32Array;

    use super::*;
    use crate::oplog::error::OplogError;

    fn array(value: i32) -> ArrayRef {
        Arc::new(Int32Array::from(vec![value]))
    }

    #[test]
    fn a_column_can_be_put_and_asked_for_while_it_is_read() {
        let slot = Slot::default();
        let read = slot.get_or_read(|| {
            assert!(slot.is_being_read() && !slot.is_resident());
            slot.put(array(1));
            assert_eq!(slot.get(), Some(array(1)));
            Ok(array(2))
        });
        assert_eq!(&read.unwrap(), &array(1), "what was first is kept");
        assert!(!slot.is_being_read());
        let known = slot.get_or_read(|| Err(OplogError::invalid("not read twice")));
        assert_eq!(&known.unwrap(), &array(1));
        slot.clear();
        assert!(!slot.is_resident());
        slot.get_or_read(|| Err(OplogError::invalid("it cannot be read"))).unwrap_err();
        assert_eq!(&slot.get_or_read(|| Ok(array(3))).unwrap(), &array(3));
    }
}
