//! Divides a planned query among nodes, if there are others.

use std::collections::BTreeSet;

use nyala_sql::error::Result;

use super::activity::Entry;
use super::answer::{Placed, PlannedQuery, Purpose, StatementPart};
use super::engine::Engine;
use super::nodes::VERSION;
use super::plan::cost_class::CostClass;
use super::plan::physical::Plans;
use crate::session::{Settings, SnapshotContext};

/// While this node has as many queries at executors as there are executors, each may read this many times as many rows before it is
/// divided.
const BUSY_FACTOR: u64 = 8;

/// The operators that answer a planned query.
pub async fn place(
    engine: &Engine,
    plans: &Plans,
    (settings, purpose): (&Settings, Purpose),
    statement: &(dyn Fn(CostClass) -> StatementPart + Send + Sync),
) -> Result<Placed> {
    let here = || Placed::here(plans.physical.clone(), &plans.state);
    let Some(placement) = &engine.placement else { return Ok(here()) };
    if !settings.nyala().distributed {
        return Ok(here());
    }
    if let Some(node) = plans.kept_by()? {
        return Ok(here().because(format!("{node}, which keeps the cuboids in memory")));
    }
    // Cuboids are few cells, which each node has in memory or loads.
    if plans.report.hits() > 0 {
        return Ok(here());
    }
    let (class, rows) = (plans.cost_class()?, plans.rows_read());
    let executors = engine.nodes.executors();
    let has_others = executors.iter().any(|node| !engine.nodes.is_own(&node.id));
    let other_versions = if has_others { BTreeSet::new() } else { engine.nodes.other_versions() };
    // Dividing a query takes up to twice its processor time: worth it only while some threads have nothing to do.
    let is_busy = engine.runtime.admission.spread() >= executors.len();
    let limit = settings.nyala().single_node_rows as u64;
    let limit = if is_busy { limit.saturating_mul(BUSY_FACTOR) } else { limit };
    let query = PlannedQuery {
        plan: plans.physical.clone(),
        logical: &plans.logical,
        state: plans.state.clone(),
        class,
        is_run: purpose != Purpose::Shown,
        // A table without statistics may have any number of rows.
        reads_little: rows != u64::MAX && rows <= limit,
        is_measured: purpose == Purpose::Measured,
        executors,
        other_versions,
        statement: &|| statement(class),
    };
    placement.place(query).await
}

/// What other nodes are told of a statement that they do a part of.
pub fn part_of(
    engine: &Engine,
    entry: &Entry,
    context: &SnapshotContext,
    settings: &Settings,
    class: CostClass,
) -> StatementPart {
    StatementPart {
        node: engine.node.clone(),
        program: VERSION.to_owned(),
        query_id: entry.id,
        begun_ms: entry.begun_ms,
        text: entry.text.to_string(),
        class,
        options: entry.owner.as_ref().clone(),
        settings: settings.changed(),
        version: context.snapshot().version,
    }
}
