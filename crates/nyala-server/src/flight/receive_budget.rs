//! Memory of what clients are sending: one budget for all calls together, of which each sender may hold a share.
//!
//! A message is held until it is whole, and each client may send one of 64 MiB in many pieces. Half-received messages belong to no
//! statement, so that no other bound counts them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use nyala_engine::Identity;
use tonic::Status;

use super::sessions::Caller;

/// Most bytes of a message. A batch of rows is one: clients of Go send up to 16 MiB; a wide row may take more.
pub const MAX_MESSAGE_BYTES: usize = 64 << 20;

const HELD: &str = "nyala_flight_receive_bytes";
/// Bytes of each share that are not counted: a client that sends statements goes on while others use up the budget.
const FREE_BYTES: usize = 64 << 10;
/// One sender may hold the budget divided by this, so that three others can send meanwhile.
const SENDERS: usize = 4;

/// Describes the metric.
pub fn describe() {
    ::metrics::describe_gauge!(
        HELD,
        ::metrics::Unit::Bytes,
        "Memory of messages that Flight SQL clients are sending."
    );
}

/// A user, or a connection where the server asks for no user: all calls of a sender are bounded together.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Sender {
    User(String),
    /// A connection, by its number.
    Connection(u64),
}

impl Sender {
    pub fn of(caller: &Caller) -> Self {
        match &caller.options.identity {
            Identity::Role(role) => Self::User(role.clone()),
            Identity::Owner => Self::Connection(caller.connection.number()),
        }
    }
}

/// The budget.
#[derive(Debug)]
pub struct ReceiveBudget {
    limit_bytes: usize,
    /// The limit of one sender.
    sender_limit_bytes: usize,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    bytes: usize,
    /// Bytes of each sender that holds any.
    by_sender: HashMap<Sender, usize>,
}

impl ReceiveBudget {
    /// A budget of which one sender may hold a quarter, and always one message of the greatest size; more only while half of the budget is
    /// free.
    pub fn new(limit_bytes: usize) -> Arc<Self> {
        Self::with_limits(limit_bytes, (limit_bytes / SENDERS).max(MAX_MESSAGE_BYTES))
    }

    fn with_limits(limit_bytes: usize, sender_limit_bytes: usize) -> Arc<Self> {
        Arc::new(Self { limit_bytes, sender_limit_bytes, held: Mutex::default() })
    }

    /// A share of nothing yet.
    pub fn share(self: &Arc<Self>, sender: Sender) -> Share {
        Share { budget: Arc::clone(self), sender, bytes: 0 }
    }

    /// Counts that a share of `sender` has `after` bytes, and no longer `before`.
    ///
    /// # Errors
    /// The sender, or all senders together, would hold more bytes than they may.
    fn change(&self, sender: &Sender, before: usize, after: usize) -> Result<(), Status> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = |bytes: usize| bytes.saturating_sub(before).saturating_add(after);
        let all = changed(held.bytes);
        let of_sender = changed(held.by_sender.get(sender).copied().unwrap_or_default());
        if after > before && all > self.limit_bytes {
            return Err(self.full());
        }
        // A sender is bounded only once half of the budget is taken: alone, a load with many connections may have more.
        if after > before && of_sender > self.sender_limit_bytes && all > self.limit_bytes / 2 {
            return Err(self.sender_full(sender));
        }
        held.bytes = all;
        if of_sender == 0 {
            held.by_sender.remove(sender);
        } else if let Some(bytes) = held.by_sender.get_mut(sender) {
            *bytes = of_sender;
        } else {
            held.by_sender.insert(sender.clone(), of_sender);
        }
        Ok(())
    }

    fn full(&self) -> Status {
        Status::resource_exhausted(format!(
            "what clients are sending takes more memory than `server.max_flight_receive_bytes`, {} bytes; \
             try again, send smaller batches, or raise it [53200]",
            self.limit_bytes
        ))
    }

    fn sender_full(&self, sender: &Sender) -> Status {
        let sender = match sender {
            Sender::User(_) => "user",
            Sender::Connection(_) => "connection",
        };
        Status::resource_exhausted(format!(
            "what this {sender} is sending takes more memory than one {sender} may hold, {} bytes; \
             send fewer or smaller batches at a time, or raise `server.max_flight_receive_bytes` [53200]",
            self.sender_limit_bytes
        ))
    }
}

/// The part of the budget that one call holds, until this is dropped.
#[derive(Debug)]
pub struct Share {
    budget: Arc<ReceiveBudget>,
    sender: Sender,
    /// Bytes that are counted in the budget.
    bytes: usize,
}

impl Share {
    /// Sets how many bytes the call holds, more or fewer than before.
    ///
    /// # Errors
    /// The budget does not have as many: then the call holds what it held.
    pub fn resize(&mut self, bytes: usize) -> Result<(), Status> {
        self.count(bytes.saturating_sub(FREE_BYTES))
    }

    fn count(&mut self, bytes: usize) -> Result<(), Status> {
        let before = self.bytes;
        // Most calls are small, and take no lock.
        if bytes == before {
            return Ok(());
        }
        self.budget.change(&self.sender, before, bytes)?;
        self.bytes = bytes;
        ::metrics::gauge!(HELD).increment(bytes as f64 - before as f64);
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        // This cannot fail: giving bytes back is always allowed.
        let _ = self.count(0);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use tonic::Code;

    use super::*;

    fn user(name: &str) -> Sender {
        Sender::User(name.to_owned())
    }

    fn assert_nothing_is_held(budget: &ReceiveBudget) {
        let held = budget.held.lock().unwrap();
        assert_eq!((held.bytes, held.by_sender.len()), (0, 0));
    }

    #[test]
    fn shares_are_bounded_together_and_given_back() {
        let budget = ReceiveBudget::new(100);
        let (mut one, mut other) = (budget.share(user("anna")), budget.share(user("bob")));
        one.resize(FREE_BYTES + 60).unwrap();
        let error = other.resize(FREE_BYTES + 50).unwrap_err();
        assert_eq!(error.code(), Code::ResourceExhausted);
        assert!(error.message().contains("`server.max_flight_receive_bytes`, 100 bytes"), "{error}");
        other.resize(FREE_BYTES + 40).unwrap();
        budget.share(user("cleo")).resize(FREE_BYTES).unwrap();
        one.resize(FREE_BYTES + 10).unwrap();
        other.resize(FREE_BYTES + 90).unwrap();
        drop(other);
        one.resize(FREE_BYTES + 100).unwrap();
        drop(one);
        assert_nothing_is_held(&budget);
    }

    #[test]
    fn a_sender_leaves_some_of_the_budget_to_others() {
        let budget = ReceiveBudget::with_limits(100, 40);
        let (mut one, mut other) = (budget.share(user("anna")), budget.share(user("anna")));
        let mut third = budget.share(user("bob"));
        third.resize(FREE_BYTES + 10).unwrap();
        one.resize(FREE_BYTES + 30).unwrap();
        let error = other.resize(FREE_BYTES + 11).unwrap_err();
        assert_eq!(error.code(), Code::ResourceExhausted);
        assert!(error.message().contains("one user may hold, 40 bytes"), "{error}");
        other.resize(FREE_BYTES + 10).unwrap();
        let mut connection = budget.share(Sender::Connection(1));
        let error = connection.resize(FREE_BYTES + 41).unwrap_err();
        assert!(error.message().contains("one connection may hold, 40 bytes"), "{error}");
        connection.resize(FREE_BYTES + 40).unwrap();
        drop(one);
        other.resize(FREE_BYTES + 40).unwrap();
        drop((other, connection, third));
        assert_nothing_is_held(&budget);
    }

    #[test]
    fn a_sender_alone_may_hold_half_of_the_budget() {
        let budget = ReceiveBudget::with_limits(100, 40);
        let mut alone = budget.share(user("anna"));
        alone.resize(FREE_BYTES + 50).unwrap();
        let error = alone.resize(FREE_BYTES + 51).unwrap_err();
        assert!(error.message().contains("one user may hold, 40 bytes"), "{error}");
        drop(alone);
        assert_nothing_is_held(&budget);
    }

    #[test]
    fn a_sender_may_hold_a_quarter_and_always_one_message() {
        for (limit_bytes, of_sender) in [(1 << 20, MAX_MESSAGE_BYTES), (512 << 20, 128 << 20)] {
            assert_eq!(ReceiveBudget::new(limit_bytes).sender_limit_bytes, of_sender);
        }
    }
}
