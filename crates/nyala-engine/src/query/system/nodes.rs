//! `system.nodes` and `system.leases`.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use nyala_model::NodeEntry;
use nyala_sql::error::Result;

use crate::query::columns::{batch, number, numbers, text, texts, time, times};
use crate::query::engine::Engine;
use crate::query::nodes::Nodes;

pub fn nodes_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        text("node"),
        text("state"),
        text("address"),
        text("version"),
        Field::new("executor", DataType::Boolean, true),
        time("started_at"),
        number("running"),
        number("oldest_snapshot"),
        number("silent_ms"),
        text("error"),
    ]))
}

/// The nodes that share the catalog, this one included, and why one did not answer when this node last asked for its
/// statements.
pub fn nodes(engine: &Engine) -> Result<RecordBatch> {
    let (nodes, unanswered) = (engine.nodes.all(), engine.nodes.unanswered());
    let columns: Vec<ArrayRef> = vec![
        texts(nodes.iter().map(|node| Some(node.id.0.as_str()))),
        texts(nodes.iter().map(|node| Some(state(node)))),
        texts(nodes.iter().map(|node| Some(node.address.as_str()).filter(|address| !address.is_empty()))),
        texts(nodes.iter().map(|node| Some(node.version.as_str()))),
        Arc::new(nodes.iter().map(|node| Some(node.executor)).collect::<BooleanArray>()),
        times(nodes.iter().map(|node| Some(node.started_at_ms))),
        numbers(nodes.iter().map(|node| Some(node.running.into()))),
        numbers(nodes.iter().map(|node| Some(node.oldest_version.0))),
        numbers(nodes.iter().map(|node| Some(node.age_ms))),
        texts(nodes.iter().map(|node| unanswered.get(&node.id).map(String::as_str))),
    ];
    batch(nodes_schema(), columns)
}

fn state(node: &NodeEntry) -> &'static str {
    match (Nodes::is_alive(node), node.draining, node.starting) {
        (false, ..) => "silent",
        (true, true, _) => "stopping",
        (true, false, true) => "starting",
        (true, false, false) => "serving",
    }
}

pub fn leases_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![text("lease"), text("node"), number("token"), number("left_ms")]))
}

/// The leases: each is for work that one node at a time does, and names that node.
pub async fn leases(engine: &Engine) -> Result<RecordBatch> {
    let leases = engine.catalog().leases().await?;
    let columns: Vec<ArrayRef> = vec![
        texts(leases.iter().map(|lease| Some(lease.name.as_str()))),
        texts(leases.iter().map(|lease| Some(lease.owner.0.as_str()))),
        numbers(leases.iter().map(|lease| Some(lease.token))),
        numbers(leases.iter().map(|lease| Some(lease.left_ms))),
    ];
    batch(leases_schema(), columns)
}
