//! `system.caches` and `system.cache_blocks`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{ArrayRef, Float64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use nyala_sql::error::{QueryError, Result};
use nyala_storage::object::cache::{BlockCache, Tally};

use crate::query::columns::{batch, number, numbers, text, texts};
use crate::query::engine::Engine;

pub fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        text("cache"),
        text("table_name"),
        number("entries"),
        number("bytes"),
        number("hits"),
        number("misses"),
        Field::new("hit_ratio", DataType::Float64, true),
        number("evictions"),
        number("bytes_from_memory"),
        number("bytes_from_disk"),
        number("bytes_from_store"),
    ]))
}

/// One cache, or the use of one by a table.
#[derive(Default)]
struct Row {
    cache: &'static str,
    table: Option<String>,
    entries: Option<u64>,
    bytes: Option<u64>,
    hits: u64,
    misses: u64,
    evictions: Option<u64>,
    memory_bytes: Option<u64>,
    disk_bytes: Option<u64>,
    store_bytes: Option<u64>,
}

impl Row {
    fn with_entries(cache: &'static str, (entries, bytes): (u64, u64), (hits, misses): (u64, u64)) -> Self {
        Self { cache, entries: Some(entries), bytes: Some(bytes), hits, misses, ..Self::default() }
    }

    fn of_reads(table: Option<String>, tally: &Tally) -> Self {
        Self {
            cache: "remote_files",
            table,
            hits: load(&tally.hits),
            misses: load(&tally.misses),
            memory_bytes: Some(load(&tally.memory_bytes)),
            disk_bytes: Some(load(&tally.disk_bytes)),
            store_bytes: Some(load(&tally.store_bytes)),
            ..Self::default()
        }
    }

    fn hit_ratio(&self) -> Option<f64> {
        let all = self.hits + self.misses;
        (all > 0).then(|| self.hits as f64 / all as f64)
    }
}

fn load(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

/// The caches of this process, with their hits and misses, and what each table of remote files read.
pub fn caches(engine: &Engine) -> Result<RecordBatch> {
    let stats = engine.stats();
    let (hot, plans, results) = (stats.hot_cuboids, stats.plans, stats.results);
    let mut rows = vec![
        Row {
            evictions: Some(hot.evictions),
            ..Row::with_entries("hot_cuboids", (hot.cuboids, hot.bytes), (hot.hits, hot.misses))
        },
        Row::with_entries("plans", (plans.entries, plans.bytes), (plans.hits, plans.misses)),
        Row::with_entries("results", (results.entries, results.bytes), (results.hits, results.misses)),
    ];
    let stores = engine.snapshots.stores();
    if let Some(cache) = stores.cache() {
        rows.push(of_blocks(cache, &stores.all_reads()));
    }
    let tables = stores.tallies().into_iter().map(|(table, tally)| Row::of_reads(Some(table), &tally));
    rows.extend(tables.filter(|row| row.hits + row.misses > 0));
    let of = |value: fn(&Row) -> Option<u64>| numbers(rows.iter().map(value));
    let columns: Vec<ArrayRef> = vec![
        texts(rows.iter().map(|row| Some(row.cache))),
        texts(rows.iter().map(|row| row.table.as_deref())),
        of(|row| row.entries),
        of(|row| row.bytes),
        of(|row| Some(row.hits)),
        of(|row| Some(row.misses)),
        Arc::new(rows.iter().map(Row::hit_ratio).collect::<Float64Array>()),
        of(|row| row.evictions),
        of(|row| row.memory_bytes),
        of(|row| row.disk_bytes),
        of(|row| row.store_bytes),
    ];
    batch(schema(), columns)
}

fn of_blocks(cache: &BlockCache, reads: &Tally) -> Row {
    let ((disk_blocks, memory_blocks), (disk_bytes, memory_bytes)) =
        (cache.block_counts(), cache.used_bytes());
    Row {
        entries: Some(disk_blocks + memory_blocks),
        bytes: Some(disk_bytes + memory_bytes),
        evictions: Some(load(&cache.stats().evicted_blocks)),
        ..Row::of_reads(None, reads)
    }
}

pub fn blocks_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![text("file"), number("block"), number("bytes")]))
}

/// The cached blocks on disk.
pub async fn blocks(engine: &Engine) -> Result<RecordBatch> {
    let found = match engine.snapshots.stores().cache() {
        Some(cache) => {
            let cache = Arc::clone(cache);
            tokio::task::spawn_blocking(move || cache.blocks()).await.map_err(QueryError::internal)?
        }
        None => Vec::new(),
    };
    let columns: Vec<ArrayRef> = vec![
        texts(found.iter().map(|block| block.file.as_deref())),
        numbers(found.iter().map(|block| Some(block.number))),
        numbers(found.iter().map(|block| Some(block.bytes))),
    ];
    batch(blocks_schema(), columns)
}
