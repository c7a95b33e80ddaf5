//! Leases: rights that one node at a time holds, for example to build a cube.
//!
//! A lease ends by itself, so that a node that died does not keep it. A node that is only slow may not know that
//! its lease ended: each lease has a token that grows whenever it is taken, and changes made under an old token
//! are refused. Changes under a lease that has ended are refused even if no node has taken it since, and such a
//! lease cannot be renewed: the search for leftover files treats the files of a job without a lease as leftovers.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nyala_model::{LeaseEntry, NodeId};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::error::CatalogError;
use crate::store::CatalogStore;

/// How long a lease is held without being renewed.
pub const HOLD: Duration = Duration::from_secs(30);
/// How often a lease is renewed.
const RENEW: Duration = Duration::from_secs(10);
/// Pause after a failed attempt to renew. An attempt that got no answer has taken half of the lease: with a
/// pause of [`RENEW`] after it, the lease would end although the database is back.
const RENEW_AGAIN: Duration = Duration::from_secs(1);
/// How long before its end a holder stops relying on its lease: the database's clock may be a little faster.
const MARGIN: Duration = Duration::from_secs(2);

/// A number that grows whenever a lease is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LeaseToken(pub u64);

/// A lease that a change is made under.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence {
    /// Name of the lease.
    pub lease: String,
    /// The token that it was taken with.
    pub token: LeaseToken,
}

/// A lease that this process holds and renews, until it is dropped.
pub struct Lease {
    fence: Fence,
    store: Arc<dyn CatalogStore>,
    /// When the lease ends unless it is renewed; none once it is lost.
    until: watch::Receiver<Option<Instant>>,
    renewing: JoinHandle<()>,
    /// The runtime that gives the lease back: the lease may be dropped on a thread without one.
    runtime: Handle,
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease").field("fence", &self.fence).finish_non_exhaustive()
    }
}

impl Lease {
    /// Takes the lease, unless another node holds it. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// The catalog's database fails.
    pub async fn take(
        store: &Arc<dyn CatalogStore>,
        name: &str,
        owner: &NodeId,
    ) -> Result<Option<Self>, CatalogError> {
        // The hold is counted from before the request, so that it ends here no later than in the database.
        let asked = Instant::now();
        let Some(token) = store.take_lease(name, owner, HOLD).await? else { return Ok(None) };
        let fence = Fence { lease: name.to_owned(), token };
        let (held, until) = watch::channel(Some(end_of(asked)));
        let renewing = tokio::spawn(renew(Arc::clone(store), fence.clone(), held));
        Ok(Some(Self { fence, store: Arc::clone(store), until, renewing, runtime: Handle::current() }))
    }

    /// The fence for changes under this lease.
    pub fn fence(&self) -> &Fence {
        &self.fence
    }

    /// Whether this node certainly holds the lease: no other node can have taken it.
    pub fn is_held(&self) -> bool {
        self.until.borrow().is_some_and(|until| Instant::now() < until)
    }

    /// Returns when the lease is lost: its database did not answer for long, or it was taken by another node.
    pub async fn lost(&self) {
        let mut until = self.until.clone();
        loop {
            let Some(end) = *until.borrow_and_update() else { return };
            tokio::select! {
                () = tokio::time::sleep_until(end.into()) => return,
                renewed = until.changed() => if renewed.is_err() { return },
            }
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.renewing.abort();
        let (store, fence) = (Arc::clone(&self.store), self.fence.clone());
        self.runtime.spawn(async move {
            if let Err(error) = store.release_lease(&fence.lease, fence.token).await {
                tracing::debug!(lease = fence.lease, %error, "a lease is not given back; it ends by itself");
            }
        });
    }
}

/// The right to make changes under leases: of the node that holds them, or lent to a node that works for the holder.
#[derive(Debug, Clone)]
pub struct Permit {
    fences: Vec<Fence>,
    /// Keeps the lease from being given back; none on a node that the permit is lent to.
    _held: Option<Arc<Lease>>,
}

impl Permit {
    /// The permit of a node that works for the holder of the leases. It ends when the holder gives one of them up.
    pub fn lent(fences: Vec<Fence>) -> Self {
        Self { fences, _held: None }
    }

    /// The fences for changes under this permit.
    pub fn fences(&self) -> &[Fence] {
        &self.fences
    }
}

impl From<Arc<Lease>> for Permit {
    fn from(lease: Arc<Lease>) -> Self {
        Self { fences: vec![lease.fence().clone()], _held: Some(lease) }
    }
}

fn end_of(asked: Instant) -> Instant {
    asked + HOLD.saturating_sub(MARGIN)
}

async fn renew(store: Arc<dyn CatalogStore>, fence: Fence, held: watch::Sender<Option<Instant>>) {
    let mut pause = RENEW;
    let mut is_failing = false;
    loop {
        tokio::time::sleep(pause).await;
        let asked = Instant::now();
        let renewed = store.renew_lease(&fence.lease, fence.token, HOLD).await;
        pause = pause_after(&renewed);
        match renewed {
            Ok(true) => {
                is_failing = false;
                held.send_replace(Some(end_of(asked)));
            }
            Ok(false) => {
                tracing::warn!(lease = fence.lease, "a lease of this node has ended");
                held.send_replace(None);
                return;
            }
            // Each lease is tried again every second: only its first failure is logged.
            Err(_) if is_failing => {}
            Err(error) => {
                tracing::warn!(lease = fence.lease, %error, "a lease is not renewed for the moment");
                is_failing = true;
            }
        }
    }
}

/// The pause before the next attempt.
fn pause_after<T, E>(renewed: &Result<T, E>) -> Duration {
    if renewed.is_ok() { RENEW } else { RENEW_AGAIN }
}

/// The leases of a catalog that only one process has open.
#[derive(Debug, Default)]
pub struct LocalLeases {
    taken: BTreeMap<String, (NodeId, LeaseToken, Instant)>,
    last: u64,
}

impl LocalLeases {
    pub fn take(&mut self, name: &str, owner: &NodeId, hold: Duration) -> Option<LeaseToken> {
        let now = Instant::now();
        if self.taken.get(name).is_some_and(|(holder, _, until)| holder != owner && now < *until) {
            return None;
        }
        self.last += 1;
        self.taken.insert(name.to_owned(), (owner.clone(), LeaseToken(self.last), now + hold));
        Some(LeaseToken(self.last))
    }

    pub fn renew(&mut self, name: &str, token: LeaseToken, hold: Duration) -> bool {
        let now = Instant::now();
        let held = self.taken.get_mut(name).filter(|(_, held, until)| *held == token && now < *until);
        held.map(|(_, _, until)| *until = now + hold).is_some()
    }

    pub fn release(&mut self, name: &str, token: LeaseToken) {
        if self.taken.get(name).is_some_and(|(_, held, _)| *held == token) {
            self.taken.remove(name);
        }
    }

    /// Whether the lease is still held under this token.
    pub fn is_held(&self, name: &str, token: LeaseToken) -> bool {
        let now = Instant::now();
        self.taken.get(name).is_some_and(|(_, held, until)| *held == token && now < *until)
    }

    pub fn list(&self) -> Vec<LeaseEntry> {
        let now = Instant::now();
        let held = self.taken.iter().filter(|(_, (_, _, until))| now < *until);
        held.map(|(name, (owner, token, until))| LeaseEntry {
            name: name.clone(),
            owner: owner.clone(),
            token: token.0,
            left_ms: u64::try_from((*until - now).as_millis()).unwrap_or(u64::MAX),
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::postgres::DEADLINE;

    #[test]
    fn a_lease_outlasts_an_attempt_that_is_never_answered() {
        assert_eq!(pause_after(&Ok::<_, CatalogError>(true)), RENEW);
        let failed = pause_after(&Err::<bool, _>(CatalogError::UnknownOutcome));
        let second = RENEW + DEADLINE + failed;
        assert!(second < HOLD.saturating_sub(MARGIN), "the second attempt begins after {second:?}");
    }
}
