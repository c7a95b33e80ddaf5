//! Values whose type the compiler does not look into.
//!
//! Each call of the protocol is a method with lifetimes of its own, and for each method the compiler proves anew that its future may pass
//! between threads. For an engine, with all its parts, one such proof takes half a minute.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A shared value behind a trait object.
pub struct Opaque<T>(Arc<dyn Holds<T>>);

trait Holds<T>: Send + Sync {
    fn value(&self) -> &T;
}

impl<T: Send + Sync> Holds<T> for T {
    fn value(&self) -> &T {
        self
    }
}

impl<T: Send + Sync + 'static> Opaque<T> {
    pub fn new(value: T) -> Self {
        Self(Arc::new(value))
    }
}

impl<T> Deref for Opaque<T> {
    type Target = T;

    fn deref(&self) -> &T {
        (*self.0).value()
    }
}

impl<T> fmt::Debug for Opaque<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opaque").finish_non_exhaustive()
    }
}
