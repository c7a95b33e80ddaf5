//! Counts of the engine, for metrics.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nyala_cube::cube::build::BuildStats;
use nyala_cube::scan::HotStats;
use nyala_model::{CatalogSnapshot, SegmentState};

use super::activity;
use super::answer::ResultCacheStats;
use super::engine::Engine;
use super::live::{self, DiskStoreStats};
use super::plans::PlanCacheStats;

/// Counts since the start, for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineStats {
    /// Statements running now.
    pub queries_running: u64,
    /// Statements begun.
    pub queries_total: u64,
    /// Statements that ended with an error.
    pub queries_failed: u64,
    /// Rows given to clients.
    pub rows_returned: u64,
    /// Aggregations answered from a cuboid.
    pub cube_hits: u64,
    /// Aggregations over a cube's fact table that no cuboid answered.
    pub cube_misses: u64,
    /// Memory that running work has reserved, in bytes.
    pub memory_reserved_bytes: usize,
    /// Statements, builds and recoveries that made no progress when the watchdog looked last.
    pub stuck: u64,
    /// Version of the catalog snapshot that new queries see.
    pub catalog_version: u64,
    /// Segments out of use because a file of them is damaged.
    pub damaged_segments: u64,
    /// Counts of the cache of hot cuboids.
    pub hot_cuboids: HotStats,
    /// Counts of the plan cache.
    pub plans: PlanCacheStats,
    /// Counts of the result cache.
    pub results: ResultCacheStats,
    /// Counts of cube builds.
    pub builds: BuildStats,
}

/// A resource group at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupStats {
    /// Name of the group.
    pub name: String,
    /// Slots for long queries that compute on this node, and as many again for short ones.
    pub slots: usize,
    /// Slots for long queries that other nodes compute, and as many again for short ones.
    pub spread_slots: usize,
    /// Queries that hold a slot.
    pub running: usize,
    /// Queries that wait for a slot.
    pub queued: usize,
    /// Queries that were refused since the start, because too many waited or they waited too long.
    pub refused: u64,
}

fn damaged_segments(snapshot: &CatalogSnapshot) -> u64 {
    let segments = snapshot.cubes.values().flat_map(|cube| &cube.segments);
    segments.filter(|segment| segment.state == SegmentState::Damaged).count() as u64
}

impl Engine {
    /// The resource groups as they stand now, by name.
    pub fn resource_groups(&self) -> Vec<GroupStats> {
        let groups = self.runtime.admission.groups().map(|group| {
            let (running, queued) = group.count();
            GroupStats {
                name: group.name.clone(),
                slots: group.size,
                spread_slots: group.spread_size(),
                running,
                queued,
                refused: group.refused(),
            }
        });
        groups.collect()
    }

    /// Whether the watchdog of statements looks when it should. Statements without progress do not count: the cause of
    /// one may be its client. False means that the threads of the engine stand still, which only a restart mends. Always true
    /// without a watchdog (`query.stuck_after_ms = 0`).
    pub fn is_watched(&self) -> bool {
        let after = self.query_config.stuck_after_ms;
        let since = self.observed.registry.since_look();
        after == 0 || !activity::is_overdue(since, Duration::from_millis(after))
    }

    /// The disk stores as they stand now, by name.
    pub fn disk_stores(&self) -> Vec<DiskStoreStats> {
        self.snapshots.live().all().iter().map(|store| live::stats(self, store)).collect()
    }

    /// Counts since the start.
    pub fn stats(&self) -> EngineStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        EngineStats {
            queries_running: read(&self.observed.counters.running),
            queries_total: read(&self.observed.counters.total),
            queries_failed: read(&self.observed.counters.failed),
            rows_returned: read(&self.observed.counters.rows),
            cube_hits: read(&self.observed.counters.cube_hits),
            cube_misses: read(&self.observed.counters.cube_misses),
            memory_reserved_bytes: self.snapshots.source().runtime.memory_pool.reserved()
                + self.building.runtime.memory_pool.reserved()
                + self.building.frugal_runtime.memory_pool.reserved(),
            stuck: self.observed.registry.stuck().len() as u64,
            catalog_version: self.snapshots.current().snapshot().version.0,
            damaged_segments: damaged_segments(self.snapshots.current().snapshot()),
            builds: self.building.jobs.stats(),
            hot_cuboids: self.snapshots.source().hot.as_ref().map(|hot| hot.stats()).unwrap_or_default(),
            plans: self.snapshots.plans.stats(),
            results: self.results.stats(),
        }
    }
}
