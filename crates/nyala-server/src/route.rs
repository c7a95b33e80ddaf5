//! Facts about a statement as JSON: for the HTTP door, and for a notice of the PostgreSQL door.

use nyala_engine::{BlockReport, Profile};
use serde_json::{Map, Value, json};

/// How an answer was computed.
pub fn route_of(profile: &Profile) -> Value {
    let phases =
        profile.phases.iter().map(|(name, time)| ((*name).to_owned(), json!(time.as_micros() as u64)));
    let aggregations = profile.route.iter().flat_map(|route| route.aggregations.iter().map(aggregation));
    let nodes = profile.route.as_ref().map(|route| route.nodes.as_str()).filter(|nodes| !nodes.is_empty());
    json!({
        "query": profile.query_id,
        "ready_plan": profile.ready_plan,
        "result_cache": profile.from_result_cache,
        "answered_from": profile.route.as_ref().and_then(|route| route.answered_from.as_deref()),
        "aggregations": aggregations.collect::<Vec<_>>(),
        "nodes": nodes,
        "phases_us": phases.collect::<Map<_, _>>(),
        "bytes_read": profile.bytes.map(|bytes| json!({
            "memory": bytes.memory,
            "disk": bytes.disk,
            "store": bytes.store,
        })),
        "peak_memory_bytes": profile.peak_memory_bytes,
    })
}

fn aggregation(report: &BlockReport) -> Value {
    let misses = report.misses.iter().map(|(cube, reason)| json!({ "cube": cube, "reason": reason }));
    let misses: Vec<Value> = misses.collect();
    match &report.chosen {
        None => json!({ "cube": null, "other_cubes": misses }),
        Some(chosen) => json!({
            "cube": chosen.cube,
            "cuboids": chosen.cuboids,
            "segments": chosen.segments,
            "joined": chosen.joined,
            "from_tables": chosen.raw,
            "lacking": chosen.lacking,
            "live": chosen.live,
            "estimated_rows": chosen.rows,
            "other_cubes": misses,
        }),
    }
}

/// A statement that runs or ran, with its route.
pub fn statement(profile: &Profile) -> Value {
    let progress = profile
        .progress
        .map(|progress| json!({ "rows_read": progress.rows_read, "rows_total": progress.rows_total }));
    json!({
        "query": profile.query_id,
        "state": profile.state,
        "sql": profile.text,
        "error": profile.error,
        "elapsed_ms": profile.took.as_secs_f64() * 1000.0,
        "rows": profile.rows,
        "progress": progress,
        "route": profile.route.as_ref().map(|_| route_of(profile)),
    })
}
