//! Counts of reads of remote files, for metrics.

use std::sync::atomic::{AtomicU64, Ordering};

use nyala_storage::object::cache::BlockCache;

use super::engine::Engine;

/// A count with the labels that it is shown with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteCount {
    /// Name of the metric.
    pub name: &'static str,
    /// Label and its value.
    pub label: Option<(&'static str, String)>,
    /// The count since the start of the process, or the number at this moment.
    pub value: u64,
}

fn load(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

impl Engine {
    /// What remote stores were asked for, and what the cache of their files had. Empty while no remote store was opened.
    pub fn remote_counts(&self) -> Vec<RemoteCount> {
        let stores = self.snapshots.stores();
        let opened = stores.opened().unwrap_or_default();
        let mut counts = Vec::new();
        for (url, store) in opened {
            let Some(asked) = store.counts() else { continue };
            for (name, value) in [
                ("nyala_store_gets_total", &asked.gets),
                ("nyala_store_heads_total", &asked.heads),
                ("nyala_store_lists_total", &asked.lists),
                ("nyala_store_puts_total", &asked.puts),
                ("nyala_store_read_bytes_total", &asked.got_bytes),
                ("nyala_store_written_bytes_total", &asked.put_bytes),
            ] {
                counts.push(RemoteCount { name, label: Some(("store", url.clone())), value: load(value) });
            }
        }
        if counts.is_empty() {
            return counts;
        }
        let reads = stores.all_reads();
        for (place, bytes) in
            [("memory", &reads.memory_bytes), ("disk", &reads.disk_bytes), ("store", &reads.store_bytes)]
        {
            let label = Some(("from", place.to_owned()));
            counts.push(RemoteCount { name: "nyala_remote_read_bytes_total", label, value: load(bytes) });
        }
        if let Some(cache) = stores.cache() {
            counts.extend(of_cache(cache));
        }
        counts
    }
}

fn of_cache(cache: &BlockCache) -> impl Iterator<Item = RemoteCount> {
    let (stats, (disk, memory)) = (cache.stats(), cache.used_bytes());
    let counts = [
        ("nyala_block_cache_fetches_total", load(&stats.fetches)),
        ("nyala_block_cache_borrowed_bytes_total", load(&stats.borrowed_bytes)),
        ("nyala_block_cache_lent_bytes_total", load(&stats.lent_bytes)),
        ("nyala_block_cache_written_bytes_total", load(&stats.written_bytes)),
        ("nyala_block_cache_evictions_total", load(&stats.evicted_blocks)),
        ("nyala_block_cache_rejections_total", load(&stats.rejected_blocks)),
        ("nyala_block_cache_skipped_writes_total", load(&stats.skipped_writes)),
        ("nyala_block_cache_damaged_total", load(&stats.damaged_blocks)),
        ("nyala_block_cache_io_errors_total", load(&stats.io_errors)),
        ("nyala_block_cache_disk_bytes", disk),
        ("nyala_block_cache_memory_bytes", memory),
    ];
    counts.into_iter().map(|(name, value)| RemoteCount { name, label: None, value })
}
