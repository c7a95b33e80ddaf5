//! `system.caches` and `system.resource_groups`.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use nyala_sql::error::Result;

use crate::query::columns::{batch, number, numbers, text, texts};
use crate::query::engine::Engine;

pub fn caches_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        text("cache"),
        number("entries"),
        number("bytes"),
        number("hits"),
        number("misses"),
        number("evictions"),
    ]))
}

/// The caches of this process, with their hits and misses.
pub fn caches(engine: &Engine) -> Result<RecordBatch> {
    let stats = engine.stats();
    let (hot, plans, results) = (stats.hot_cuboids, stats.plans, stats.results);
    let columns: Vec<ArrayRef> = vec![
        texts(["hot_cuboids", "plans", "results"].into_iter().map(Some)),
        numbers([hot.cuboids, plans.entries, results.entries].into_iter().map(Some)),
        numbers([hot.bytes, plans.bytes, results.bytes].into_iter().map(Some)),
        numbers([hot.hits, plans.hits, results.hits].into_iter().map(Some)),
        numbers([hot.misses, plans.misses, results.misses].into_iter().map(Some)),
        numbers([Some(hot.evictions), None, None].into_iter()),
    ];
    batch(caches_schema(), columns)
}

pub fn groups_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        text("resource_group"),
        number("slots"),
        number("running"),
        number("queued"),
        number("refused"),
        number("weight"),
    ]))
}

/// The resource groups, how many of their queries compute and wait, and how many were refused.
pub fn groups(engine: &Engine) -> Result<RecordBatch> {
    let groups = engine.resource_groups();
    let weights = engine.runtime.admission.groups().map(|group| group.weight());
    let columns: Vec<ArrayRef> = vec![
        texts(groups.iter().map(|group| Some(group.name.as_str()))),
        numbers(groups.iter().map(|group| Some(group.slots as u64))),
        numbers(groups.iter().map(|group| Some(group.running as u64))),
        numbers(groups.iter().map(|group| Some(group.queued as u64))),
        numbers(groups.iter().map(|group| Some(group.refused))),
        numbers(weights.map(|weight| Some(weight as u64))),
    ];
    batch(groups_schema(), columns)
}
