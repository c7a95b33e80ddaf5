//! Data that doors keep with a statement.

use std::any::Any;
use std::sync::{Arc, OnceLock};

/// One value of each type, made on first use: each door has a type of its own. There are few doors, so a list that only
/// grows is enough, and reading it takes no lock.
#[derive(Debug, Default)]
pub struct Kept(OnceLock<Box<Slot>>);

#[derive(Debug)]
struct Slot {
    value: Arc<dyn Any + Send + Sync>,
    next: Kept,
}

impl Kept {
    /// The value of a type; the default at first.
    pub fn get<T: Any + Default + Send + Sync>(&self) -> Arc<T> {
        let mut list = self;
        loop {
            let slot = list
                .0
                .get_or_init(|| Box::new(Slot { value: Arc::new(T::default()), next: Self::default() }));
            match Arc::clone(&slot.value).downcast() {
                Ok(value) => return value,
                Err(_) => list = &slot.next,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[derive(Default)]
    struct OfOneDoor(AtomicU32);
    #[derive(Default)]
    struct OfAnother(AtomicU32);

    #[test]
    fn doors_keep_data_beside_each_other() {
        let kept = Kept::default();
        kept.get::<OfOneDoor>().0.store(1, Ordering::Relaxed);
        kept.get::<OfAnother>().0.store(2, Ordering::Relaxed);
        assert_eq!(kept.get::<OfOneDoor>().0.load(Ordering::Relaxed), 1);
        assert_eq!(kept.get::<OfAnother>().0.load(Ordering::Relaxed), 2);
    }
}
