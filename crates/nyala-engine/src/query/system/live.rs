//! `system.disk_stores`, `system.live_tables` and `system.recovery`.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use nyala_cube::live::{OpenStore, StoreState, phase_name};
use nyala_sql::error::{QueryError, Result};
use nyala_storage::oplog::{Damage, LiveTable, Phase, StoreStats};

use crate::query::columns::{batch, number, numbers, text, texts};
use crate::query::engine::Engine;

pub fn disk_stores_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        text("disk_store"),
        text("folder"),
        text("state"),
        number("lsn"),
        number("checkpoint_lsn"),
        number("logs"),
        number("log_bytes"),
        text("error"),
    ]))
}

/// The disk stores, and the reason why a store takes no writes.
pub async fn disk_stores(engine: &Engine) -> Result<RecordBatch> {
    let stores = engine.snapshots.live().all();
    let asked = stores.clone();
    // On a blocking thread: it may wait for a group commit.
    let stats =
        tokio::task::spawn_blocking(move || asked.iter().map(|store| stats(store)).collect::<Vec<_>>());
    let stats = stats.await.map_err(QueryError::internal)?;
    let count = |of: fn(&StoreStats) -> u64| numbers(stats.iter().map(move |stats| stats.as_ref().map(of)));
    let folders: Vec<String> = stores.iter().map(|store| store.folder().display().to_string()).collect();
    let states: Vec<(&str, Option<String>)> = stores.iter().map(|store| state(store)).collect();
    let columns: Vec<ArrayRef> = vec![
        texts(stores.iter().map(|store| Some(store.name()))),
        texts(folders.iter().map(|folder| Some(folder.as_str()))),
        texts(states.iter().map(|(word, _)| Some(*word))),
        count(|stats| stats.lsn),
        count(|stats| stats.checkpoint_lsn),
        count(|stats| stats.logs),
        count(|stats| stats.log_bytes),
        texts(states.iter().map(|(_, error)| error.as_deref())),
    ];
    batch(disk_stores_schema(), columns)
}

fn stats(store: &OpenStore) -> Option<StoreStats> {
    Some(store.ready().ok()??.stats())
}

fn state(store: &OpenStore) -> (&'static str, Option<String>) {
    match store.state() {
        StoreState::Opening => ("opening", None),
        StoreState::Failed(error) => ("failed", Some(error.to_string())),
        StoreState::Closed => ("closed", None),
        StoreState::Open(open, _) => match (open.check_writable(), open.report().damage.first()) {
            (Err(error), _) => ("read-only", Some(error.to_string())),
            (Ok(()), Some(damage)) => ("damaged", Some(damage.to_string())),
            (Ok(()), None) => ("open", None),
        },
    }
}

pub fn live_tables_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        text("schema"),
        text("table"),
        text("disk_store"),
        number("rows"),
        number("dead_rows"),
        number("units"),
        number("sealed_bytes"),
        number("memory_bytes"),
        Field::new("in_memory", DataType::Boolean, true),
        text("error"),
    ]))
}

/// The live tables. Figures are null while the store of a table is being opened.
pub fn live_tables(engine: &Engine) -> Result<RecordBatch> {
    let context = engine.snapshots.current();
    let entries: Vec<_> = context.snapshot().tables.values().filter_map(|t| Some((t, t.live()?))).collect();
    let opened = entries.iter().map(|(entry, _)| match context.live_table(&entry.name)? {
        Ok(table) => Some(table.ready()),
        Err(error) => Some(Err(error)),
    });
    let opened: Vec<Result<Option<LiveTable>>> = opened.map(|found| found.unwrap_or(Ok(None))).collect();
    let tables: Vec<Option<&LiveTable>> =
        opened.iter().map(|found| found.as_ref().ok().and_then(Option::as_ref)).collect();
    let stats: Vec<_> = tables.iter().map(|table| table.map(LiveTable::stats)).collect();
    let error = |found: &Result<Option<LiveTable>>| match found {
        Ok(Some(table)) => table.version().damage().first().map(Damage::to_string),
        Ok(None) => None,
        Err(error) => Some(error.to_string()),
    };
    let errors: Vec<Option<String>> = opened.iter().map(error).collect();
    let columns: Vec<ArrayRef> = vec![
        texts(entries.iter().map(|(entry, _)| Some(entry.name.schema.as_str()))),
        texts(entries.iter().map(|(entry, _)| Some(entry.name.name.as_str()))),
        texts(entries.iter().map(|(_, live)| Some(live.store.as_str()))),
        numbers(stats.iter().map(|stats| stats.as_ref().map(|stats| stats.rows))),
        numbers(stats.iter().map(|stats| stats.as_ref().map(|stats| stats.dead_rows))),
        numbers(stats.iter().map(|stats| stats.as_ref().map(|stats| stats.units))),
        numbers(stats.iter().map(|stats| stats.as_ref().map(|stats| stats.sealed_bytes))),
        numbers(stats.iter().map(|stats| stats.as_ref().map(|stats| stats.memory_bytes))),
        Arc::new(tables.iter().map(|table| table.map(LiveTable::is_loaded)).collect::<BooleanArray>()),
        texts(errors.iter().map(Option::as_deref)),
    ];
    batch(live_tables_schema(), columns)
}

pub fn recovery_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        text("disk_store"),
        text("phase"),
        number("percent"),
        number("rows"),
        number("log_bytes_total"),
        number("log_bytes_done"),
        number("value_bytes_total"),
        number("value_bytes_done"),
        number("keys_ready_ms"),
        text("note"),
    ]))
}

/// Progress of the disk stores on their way into memory.
pub fn recovery(engine: &Engine) -> Result<RecordBatch> {
    let stores = engine.snapshots.live().all();
    let reports: Vec<_> = stores.iter().map(|store| store.progress().report()).collect();
    let states: Vec<StoreState> = stores.iter().map(|store| store.state()).collect();
    let notes: Vec<Option<String>> = states.iter().map(note).collect();
    let percent = |done: u64, total: u64| (done * 100).checked_div(total).unwrap_or(100).min(100);
    let columns: Vec<ArrayRef> = vec![
        texts(stores.iter().map(|store| Some(store.name()))),
        texts(reports.iter().map(|report| Some(phase_name(report.phase)))),
        numbers(reports.iter().map(|report| match report.phase {
            Phase::Waiting => Some(0),
            // The index is built after all keys are read.
            Phase::Keys => Some(percent(report.rows_done, report.rows_total).min(99)),
            Phase::Log => Some(percent(report.log_bytes_done, report.log_bytes_total)),
            Phase::Values => Some(percent(report.bytes_done, report.bytes_total)),
            Phase::Ready => Some(100),
        })),
        numbers(reports.iter().map(|report| Some(report.rows))),
        numbers(reports.iter().map(|report| Some(report.log_bytes_total))),
        numbers(reports.iter().map(|report| Some(report.log_bytes_done))),
        numbers(reports.iter().map(|report| Some(report.bytes_total))),
        numbers(reports.iter().map(|report| Some(report.bytes_done))),
        numbers(states.iter().map(|state| match state {
            StoreState::Open(_, took) => u64::try_from(took.as_millis()).ok(),
            _ => None,
        })),
        texts(notes.iter().map(Option::as_deref)),
    ];
    batch(recovery_schema(), columns)
}

/// The error of a start, or the damage that it found.
fn note(state: &StoreState) -> Option<String> {
    match state {
        StoreState::Failed(error) => Some(error.to_string()),
        StoreState::Open(store, _) => {
            let report = store.report();
            let torn = report.torn.as_ref().map(|torn| format!("the end of a log was cut: {torn:?}"));
            let damage = report.damage.iter().map(Damage::to_string);
            let all: Vec<String> = torn.into_iter().chain(damage).collect();
            (!all.is_empty()).then(|| all.join("; "))
        }
        StoreState::Opening | StoreState::Closed => None,
    }
}
