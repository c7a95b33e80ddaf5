//! The cache of plans, by shape.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::{DefaultHashBuilder, Equivalent};
use moka::sync::Cache;
use nyala_model::NodeId;

use super::template::Template;
use crate::query::counters::CacheCounts;
use crate::query::plan::parts::Parts;
use crate::session::{Settings, SnapshotContext};

/// Entries unused for this long are dropped.
const IDLE: Duration = Duration::from_secs(3600);
/// Fixed size of an entry, in bytes, besides texts and template.
const ENTRY_BYTES: usize = 256;
/// Estimated size of a resolved statement, in bytes.
const KEPT_BYTES: usize = 8 << 10;

/// The inputs of a plan besides its text and values.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PlanBasis {
    settings: Arc<str>,
    /// The dialect of the session's texts: a door may translate them.
    dialect: &'static str,
    /// The epoch of the context: one catalog snapshot with one listing of files.
    epoch: u64,
}

impl PlanBasis {
    pub fn of(settings: &Settings, context: &SnapshotContext, dialect: &'static str) -> Self {
        Self { settings: Arc::clone(settings.key()), dialect, epoch: context.epoch() }
    }
}

/// All inputs of a plan except its values.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PlanKey {
    text: Arc<str>,
    basis: PlanBasis,
}

impl PlanKey {
    pub fn new(text: &str, basis: PlanBasis) -> Self {
        Self { text: text.into(), basis }
    }
}

/// A borrowed [`PlanKey`] for look-ups, without a copy of the text. Both hash alike, field by field.
#[derive(Hash)]
struct Sought<'a> {
    text: &'a str,
    basis: &'a PlanBasis,
}

impl Equivalent<PlanKey> for Sought<'_> {
    fn equivalent(&self, key: &PlanKey) -> bool {
        *self.basis == key.basis && *self.text == *key.text
    }
}

/// State of a text or shape.
#[derive(Debug, Clone)]
pub enum Known {
    /// It was planned once. Many are never seen again.
    Once,
    /// Its template is being made.
    Planning,
    Ready(Arc<Template>),
    /// Another node keeps its cuboids in memory.
    Kept(Arc<KeptQuery>),
    /// It has no template, and trying again would give none.
    Unfit,
}

/// A query whose cuboids another node keeps in memory.
#[derive(Debug)]
pub struct KeptQuery {
    /// The node.
    pub node: NodeId,
    /// The statement, with parameters in the places of its values.
    pub parts: Arc<Parts>,
    /// The basis on which the node was found.
    pub basis: PlanBasis,
}

/// Templates, bounded in bytes. Often used ones stay.
pub struct PlanCache {
    plans: Cache<PlanKey, Known, DefaultHashBuilder>,
    counts: CacheCounts,
}

/// Counts of the plan cache since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PlanCacheStats {
    /// Queries that ran from a ready plan.
    pub hits: u64,
    /// Queries that were planned.
    pub misses: u64,
    /// Cached shapes and texts.
    pub entries: u64,
    /// Their estimated memory, in bytes.
    pub bytes: u64,
}

impl PlanCache {
    /// A cache of about `budget_bytes`; 0 keeps nothing.
    pub fn new(budget_bytes: usize) -> Self {
        let plans = Cache::builder()
            .max_capacity(budget_bytes as u64)
            .weigher(|key: &PlanKey, known: &Known| weight(key, known))
            .time_to_idle(IDLE)
            .build_with_hasher(DefaultHashBuilder::default());
        Self { plans, counts: CacheCounts::default() }
    }

    /// The state of a text.
    pub fn find(&self, text: &str, basis: &PlanBasis) -> Option<Known> {
        self.plans.get(&Sought { text, basis })
    }

    pub fn learn(&self, key: PlanKey, known: Known) {
        self.plans.insert(key, known);
    }

    /// Drops all entries. One just added for the newest snapshot may be lost too, and is learnt again.
    pub fn forget(&self) {
        self.plans.invalidate_all();
        self.plans.run_pending_tasks();
    }

    pub fn count(&self, hit: bool) {
        self.counts.count(hit);
    }

    pub fn stats(&self) -> PlanCacheStats {
        self.plans.run_pending_tasks();
        PlanCacheStats {
            hits: self.counts.hits(),
            misses: self.counts.misses(),
            entries: self.plans.entry_count(),
            bytes: self.plans.weighted_size(),
        }
    }
}

fn weight(key: &PlanKey, known: &Known) -> u32 {
    let template = match known {
        Known::Ready(template) => template.estimated_bytes(),
        Known::Kept(_) => KEPT_BYTES,
        Known::Once | Known::Planning | Known::Unfit => 0,
    };
    u32::try_from(ENTRY_BYTES + key.text.len() + key.basis.settings.len() + template).unwrap_or(u32::MAX)
}

impl fmt::Debug for PlanCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlanCache").field("counts", &self.counts).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::hash::BuildHasher;

    use super::*;

    #[test]
    fn what_is_sought_is_found_by_its_hash() {
        let basis = |settings: &str, epoch| PlanBasis { settings: settings.into(), dialect: "", epoch };
        let key = PlanKey::new("SELECT $1", basis("{}", 7));
        let hasher = DefaultHashBuilder::default();
        let check = |text, basis: PlanBasis, same: bool| {
            let sought = Sought { text, basis: &basis };
            assert_eq!(sought.equivalent(&key), same);
            assert_eq!(hasher.hash_one(&sought) == hasher.hash_one(&key), same);
        };
        check("SELECT $1", basis("{}", 7), true);
        check("SELECT $2", basis("{}", 7), false);
        check("SELECT $1", basis("", 7), false);
        check("SELECT $1", basis("{}", 8), false);
        check("SELECT $1", PlanBasis { dialect: "other", ..basis("{}", 7) }, false);
    }
}
