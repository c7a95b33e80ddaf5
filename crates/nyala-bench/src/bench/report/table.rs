//! The report on a terminal: a line for each number of clients.

use comfy_table::presets::ASCII_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};

use super::document::{Report, RunReport};

type Column = (&'static str, fn(&RunReport) -> Option<String>);

/// A column that no run has a value for is left out.
const COLUMNS: [Column; 20] = [
    ("threads", |run| Some(run.clients.to_string())),
    ("handled queries", |run| Some(run.total.handled.to_string())),
    ("per second", |run| Some(format!("{:.1}", run.per_second))),
    ("of rounds", |run| {
        let rounds = || run.rounds_per_second.iter().copied();
        let (slowest, fastest) = (rounds().reduce(f64::min)?, rounds().reduce(f64::max)?);
        (rounds().len() > 1).then(|| format!("{slowest:.0}–{fastest:.0}"))
    }),
    ("mean ms", |run| Some(ms(run.total.mean_ms))),
    ("p50", |run| Some(ms(run.total.p50_ms))),
    ("p95", |run| Some(ms(run.total.p95_ms))),
    ("p99", |run| Some(ms(run.total.p99_ms))),
    ("p99.9", |run| Some(ms(run.total.p999_ms))),
    ("max", |run| Some(ms(run.total.max_ms))),
    ("errors", |run| Some(run.total.errors.to_string())),
    ("unfinished", |run| (run.total.unfinished > 0).then(|| run.total.unfinished.to_string())),
    ("beside", |run| {
        let beside = run.beside.as_ref()?;
        Some(format!("{} of {}, mean {} ms", beside.handled, beside.workload, ms(beside.mean_ms)))
    }),
    ("p95 by quiet", |run| run.beside.as_ref().map(|beside| format!("{:.2}", beside.p95_ratio))),
    ("SELECT 1 per second", |run| run.ceiling.map(|ceiling| format!("{:.0}", ceiling.per_second))),
    ("% of it", |run| {
        run.ceiling.map(|ceiling| format!("{:.0}", 100.0 * run.per_second / ceiling.per_second.max(1e-9)))
    }),
    ("client CPU ms", |run| run.cost.client_cpu_ms_per_query.map(ms)),
    ("server CPU ms", |run| run.cost.server_cpu_ms_per_query.map(ms)),
    ("server cores", |run| run.cost.server_cores.map(|cores| format!("{cores:.2}"))),
    ("server MB", |run| run.cost.server_memory_bytes.map(|bytes| format!("{:.0}", bytes as f64 / 1e6))),
];

/// The table; CPU times are for each query.
pub fn table(report: &Report) -> String {
    let (header, rows) = cells(report);
    let mut table = Table::new();
    table.load_preset(ASCII_FULL_CONDENSED).set_header(header);
    table.add_rows(rows);
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}

/// Names of the columns, and their texts.
pub fn cells(report: &Report) -> (Vec<&'static str>, Vec<Vec<String>>) {
    let used: Vec<&Column> =
        COLUMNS.iter().filter(|(_, cell)| report.runs.iter().any(|run| cell(run).is_some())).collect();
    let row = |run| used.iter().map(|(_, cell)| cell(run).unwrap_or_default()).collect();
    (used.iter().map(|(name, _)| *name).collect(), report.runs.iter().map(row).collect())
}

/// Milliseconds with three digits or more.
pub fn ms(value: f64) -> String {
    let digits = if value < 1.0 { 3 } else { usize::from(value < 100.0) * 2 };
    format!("{value:.digits$}")
}
