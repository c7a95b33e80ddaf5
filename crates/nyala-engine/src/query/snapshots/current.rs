//! The newest snapshot of the catalog, open for statements.

use std::collections::VecDeque;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use arc_swap::ArcSwap;
use nyala_catalog::Catalog;
use nyala_cube::live::LiveStores;
use nyala_cube::scan::Stores;
use nyala_model::SnapshotVersion;
use nyala_sql::error::Result;
use nyala_sql::statement::StatementLimits;
use tokio::sync::{Mutex, MutexGuard};

use crate::query::plans::PlanCache;
use crate::session::{ContextSource, SnapshotContext};

/// Most versions that are kept with the time since when statements read them. A statement that began before the oldest of these counts as
/// one that reads it.
const KNOWN_VERSIONS: usize = 10_000;

/// The newest snapshot of the catalog, open for statements.
#[derive(Debug)]
pub struct Snapshots {
    catalog: Arc<Catalog>,
    source: ContextSource,
    current: ArcSwap<SnapshotContext>,
    /// Serialises the opening of new snapshots; statements never take it.
    opening: Mutex<()>,
    /// The versions that statements read, each with the time since when, the newest at the back.
    versions: std::sync::Mutex<VecDeque<(SnapshotVersion, Instant)>>,
    /// Plans over the current snapshot.
    pub plans: PlanCache,
}

/// The right to replace the current snapshot.
pub struct Opening<'a> {
    snapshots: &'a Snapshots,
    _one_at_a_time: MutexGuard<'a, ()>,
}

impl Snapshots {
    /// Opens the catalog's newest snapshot. `plans_bytes` is the budget of the plan cache.
    pub async fn open(catalog: Arc<Catalog>, source: ContextSource, plans_bytes: usize) -> Result<Self> {
        let context = SnapshotContext::open(catalog.snapshot(), &source, None).await?;
        let first = (context.snapshot().version, Instant::now());
        Ok(Self {
            versions: std::sync::Mutex::new(VecDeque::from([first])),
            catalog,
            source,
            current: ArcSwap::from_pointee(context),
            opening: Mutex::new(()),
            plans: PlanCache::new(plans_bytes),
        })
    }

    /// The catalog.
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// The snapshot that a statement beginning now reads.
    pub fn current(&self) -> Arc<SnapshotContext> {
        self.current.load_full()
    }

    /// The lowest version that a statement which began then, or later, may read.
    pub fn version_at(&self, begun: Instant) -> SnapshotVersion {
        lowest_since(&self.versions.lock().unwrap_or_else(PoisonError::into_inner), begun)
    }

    /// Limits of texts, plans and cubes.
    pub fn limits(&self) -> &StatementLimits {
        &self.source.limits
    }

    /// The stores of files.
    pub fn stores(&self) -> &Arc<Stores> {
        &self.source.stores
    }

    /// The disk stores of live tables.
    pub fn live(&self) -> &Arc<LiveStores> {
        &self.source.live
    }

    /// The runtime, memory and caches that sessions are made with.
    pub fn source(&self) -> &ContextSource {
        &self.source
    }

    /// Opens the catalog's newest snapshot for statements that begin from now on.
    pub async fn refresh(&self) -> Result<()> {
        let opening = self.opening().await;
        let before = self.current();
        let snapshot = self.catalog.snapshot();
        if !snapshot.is_same_version(before.snapshot()) {
            opening.publish(SnapshotContext::open(snapshot, &self.source, Some(&before)).await?);
        }
        Ok(())
    }

    /// Waits for the right to replace the current snapshot.
    pub async fn opening(&self) -> Opening<'_> {
        Opening { snapshots: self, _one_at_a_time: self.opening.lock().await }
    }
}

/// The lowest version read by statements that began then or later. Versions go down when a shared catalog goes back to an older
/// state.
fn lowest_since(versions: &VecDeque<(SnapshotVersion, Instant)>, begun: Instant) -> SnapshotVersion {
    let first = versions.iter().rposition(|(_, since)| *since <= begun).unwrap_or(0);
    versions.iter().skip(first).map(|(version, _)| *version).min().unwrap_or_default()
}

impl Opening<'_> {
    /// Makes `context` the snapshot of statements that begin from now on. Cached plans of the old snapshot are dropped
    /// at once: each keeps all of it in memory.
    pub fn publish(&self, context: SnapshotContext) {
        let version = context.snapshot().version;
        self.snapshots.current.store(Arc::new(context));
        let mut versions = self.snapshots.versions.lock().unwrap_or_else(PoisonError::into_inner);
        if versions.back().is_none_or(|(newest, _)| *newest != version) {
            versions.push_back((version, Instant::now()));
            if versions.len() > KNOWN_VERSIONS {
                versions.pop_front();
            }
        }
        drop(versions);
        self.snapshots.plans.forget();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_lowest_version_counts_after_the_catalog_went_back() {
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let versions = [(5, 1), (6, 2), (3, 3), (4, 4)];
        let versions: VecDeque<_> =
            versions.map(|(version, since)| (SnapshotVersion(version), at(since))).into();
        let check = |seconds, lowest| {
            assert_eq!(lowest_since(&versions, at(seconds)), SnapshotVersion(lowest), "{seconds}");
        };
        // The statement began before the oldest version that is known.
        check(0, 3);
        check(1, 3);
        check(2, 3);
        check(3, 3);
        check(4, 4);
        check(9, 4);
        assert_eq!(lowest_since(&VecDeque::new(), begun), SnapshotVersion(0));
    }
}
