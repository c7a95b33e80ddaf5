//! Memory of what clients are sending: one budget for all calls together.
//!
//! A message is held until it is whole, and each client may send one of 64 MiB as slowly as it likes. Half-received messages belong to no
//! statement, so that no other bound counts them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tonic::Status;

const HELD: &str = "nyala_flight_receive_bytes";
/// As much of each share as is not counted: a client that sends statements goes on while others use up the budget.
const FREE_BYTES: usize = 64 << 10;

/// Tells what is measured.
pub fn describe() {
    ::metrics::describe_gauge!(
        HELD,
        ::metrics::Unit::Bytes,
        "Memory of messages that Flight SQL clients are sending."
    );
}

/// The budget.
#[derive(Debug)]
pub struct ReceiveBudget {
    limit_bytes: usize,
    held: AtomicUsize,
}

impl ReceiveBudget {
    pub fn new(limit_bytes: usize) -> Arc<Self> {
        Arc::new(Self { limit_bytes, held: AtomicUsize::new(0) })
    }

    /// A share of nothing yet.
    pub fn share(self: &Arc<Self>) -> Share {
        Share { budget: Arc::clone(self), bytes: 0 }
    }

    fn full(&self) -> Status {
        Status::resource_exhausted(format!(
            "what clients are sending takes more memory than `server.max_flight_receive_bytes`, {} bytes; \
             try again, send smaller batches, or raise it [53200]",
            self.limit_bytes
        ))
    }
}

/// What one call holds of the budget, until this is dropped.
#[derive(Debug)]
pub struct Share {
    budget: Arc<ReceiveBudget>,
    /// Those that are counted.
    bytes: usize,
}

impl Share {
    /// Holds so many bytes, more or fewer than before.
    ///
    /// # Errors
    /// There are not as many: then it holds what it held.
    pub fn resize(&mut self, bytes: usize) -> Result<(), Status> {
        self.count(bytes.saturating_sub(FREE_BYTES))
    }

    fn count(&mut self, bytes: usize) -> Result<(), Status> {
        let budget = &self.budget;
        let (before, limit) = (self.bytes, budget.limit_bytes);
        let changed = |held: usize| held.saturating_sub(before).saturating_add(bytes);
        let allowed = |held: &usize| bytes <= before || *held <= limit;
        let update = |held| Some(changed(held)).filter(allowed);
        budget.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, update).map_err(|_| budget.full())?;
        self.bytes = bytes;
        if bytes != before {
            ::metrics::gauge!(HELD).increment(bytes as f64 - before as f64);
        }
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        // Less is always allowed.
        let _ = self.count(0);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tonic::Code;

    use super::*;

    #[test]
    fn shares_are_bounded_together_and_given_back() {
        let budget = ReceiveBudget::new(100);
        let (mut one, mut other) = (budget.share(), budget.share());
        one.resize(FREE_BYTES + 60).unwrap();
        let error = other.resize(FREE_BYTES + 50).unwrap_err();
        assert_eq!(error.code(), Code::ResourceExhausted);
        assert!(error.message().contains("`server.max_flight_receive_bytes`, 100 bytes"), "{error}");
        other.resize(FREE_BYTES + 40).unwrap();
        budget.share().resize(FREE_BYTES).unwrap();
        one.resize(FREE_BYTES + 10).unwrap();
        other.resize(FREE_BYTES + 90).unwrap();
        drop(other);
        one.resize(FREE_BYTES + 100).unwrap();
        drop(one);
        assert_eq!(budget.held.load(Ordering::Relaxed), 0);
    }
}
