//! `system.resource_groups`.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use nyala_sql::error::Result;

use crate::query::columns::{batch, number, numbers, text, texts};
use crate::query::engine::Engine;

pub fn groups_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        text("resource_group"),
        number("slots"),
        number("spread_slots"),
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
        numbers(groups.iter().map(|group| Some(group.spread_slots as u64))),
        numbers(groups.iter().map(|group| Some(group.running as u64))),
        numbers(groups.iter().map(|group| Some(group.queued as u64))),
        numbers(groups.iter().map(|group| Some(group.refused))),
        numbers(weights.map(|weight| Some(weight as u64))),
    ];
    batch(groups_schema(), columns)
}
