//! Metrics for Prometheus: engine, resource groups, running builds, disk stores, HTTP requests, the process.

mod groups;
mod jobs;
mod process;
mod remote;
mod stores;

use std::sync::OnceLock;
use std::time::Duration;

use ::metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use metrics_exporter_prometheus::{BuildError, PrometheusBuilder, PrometheusHandle};
use nyala_engine::{BuildStats, Engine, EngineStats, HotStats, PhaseTimes, PlanCacheStats, ResultCacheStats};

/// Renders the process's metrics; clones share them.
#[derive(Debug, Clone)]
pub struct Metrics {
    handle: PrometheusHandle,
}

/// Upper bounds of the request time histogram, in seconds.
const SECONDS: [f64; 13] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0];

/// The recorder is one for the process, as is the `metrics` facade that it serves.
static INSTALLED: OnceLock<PrometheusHandle> = OnceLock::new();

/// A value of a label, which must not end it.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

impl Metrics {
    /// Installs the recorder, or finds the one installed before.
    pub fn install() -> Result<Self, BuildError> {
        if let Some(handle) = INSTALLED.get() {
            return Ok(Self { handle: handle.clone() });
        }
        let recorder = PrometheusBuilder::new().set_buckets(&SECONDS)?.build_recorder();
        let handle = recorder.handle();
        // Another thread may have been faster, or the embedding process has a recorder of its own, which then gets
        // the values. The handle stays valid either way.
        if ::metrics::set_global_recorder(recorder).is_ok() {
            describe();
            begin_at_zero();
        }
        Ok(Self { handle: INSTALLED.get_or_init(|| handle).clone() })
    }

    /// The metrics in Prometheus' text format, those of the engine with them.
    pub fn render(&self, engine: &Engine) -> String {
        set_engine(engine.stats());
        let mut text = self.handle.render();
        write_phases(&mut text, &engine.phase_times());
        text.push_str(&groups::render(&engine.resource_groups()));
        text.push_str(&jobs::render(&engine.build_progress()));
        text.push_str(&stores::render(&engine.disk_stores()));
        text.push_str(&remote::render(&engine.remote_counts()));
        text.push_str(&process::render());
        text
    }

    /// Moves recorded request times into the histogram. The server calls it every few seconds, because otherwise they pile up until a client
    /// asks for the metrics.
    pub fn upkeep(&self) {
        self.handle.run_upkeep();
    }
}

/// Makes counters that have counted nothing yet: to Prometheus, a counter that first appears with 1 has not risen.
fn begin_at_zero() {
    counter!("nyala_http_refused_total").increment(0);
    counter!("nyala_postgres_refused_total").increment(0);
    gauge!("nyala_build_info", "version" => env!("CARGO_PKG_VERSION")).set(1.0);
}

/// Records one answered HTTP request.
pub fn http_request(status: u16, duration: Duration) {
    counter!("nyala_http_requests_total", "status" => status.to_string()).increment(1);
    histogram!("nyala_http_request_seconds").record(duration.as_secs_f64());
}

/// The engine counts the times of phases itself: the recorder's histograms would take each time on its own, under a lock.
fn write_phases(text: &mut String, phases: &[PhaseTimes]) {
    const NAME: &str = "nyala_query_phase_seconds";
    let help = "How long statements were in a phase: parsing, planning, queued, running, sending.";
    let mut lines = vec![format!("# HELP {NAME} {help}"), format!("# TYPE {NAME} histogram")];
    for times in phases {
        let (phase, count) = (times.phase, times.count());
        for (bound, count) in times.cumulative() {
            lines.push(format!("{NAME}_bucket{{phase=\"{phase}\",le=\"{bound}\"}} {count}"));
        }
        lines.push(format!("{NAME}_bucket{{phase=\"{phase}\",le=\"+Inf\"}} {count}"));
        lines.push(format!("{NAME}_sum{{phase=\"{phase}\"}} {}", times.sum_us as f64 / 1e6));
        lines.push(format!("{NAME}_count{{phase=\"{phase}\"}} {count}"));
    }
    text.push_str(&lines.join("\n"));
    text.push('\n');
}

fn set_engine(stats: EngineStats) {
    counter!("nyala_queries_total").absolute(stats.queries_total);
    counter!("nyala_queries_failed_total").absolute(stats.queries_failed);
    counter!("nyala_rows_returned_total").absolute(stats.rows_returned);
    counter!("nyala_cube_hits_total").absolute(stats.cube_hits);
    counter!("nyala_cube_misses_total").absolute(stats.cube_misses);
    gauge!("nyala_queries_running").set(stats.queries_running as f64);
    gauge!("nyala_stuck").set(stats.stuck as f64);
    gauge!("nyala_memory_reserved_bytes").set(stats.memory_reserved_bytes as f64);
    gauge!("nyala_catalog_version").set(stats.catalog_version as f64);
    gauge!("nyala_damaged_segments").set(stats.damaged_segments as f64);
    set_hot_cuboids(stats.hot_cuboids);
    set_plans(stats.plans);
    set_results(stats.results);
    set_builds(stats.builds);
}

fn set_plans(stats: PlanCacheStats) {
    counter!("nyala_plan_cache_hits_total").absolute(stats.hits);
    counter!("nyala_plan_cache_misses_total").absolute(stats.misses);
    gauge!("nyala_plan_cache_entries").set(stats.entries as f64);
    gauge!("nyala_plan_cache_bytes").set(stats.bytes as f64);
}

fn set_results(stats: ResultCacheStats) {
    counter!("nyala_result_cache_hits_total").absolute(stats.hits);
    counter!("nyala_result_cache_misses_total").absolute(stats.misses);
    gauge!("nyala_result_cache_entries").set(stats.entries as f64);
    gauge!("nyala_result_cache_bytes").set(stats.bytes as f64);
}

fn set_builds(stats: BuildStats) {
    gauge!("nyala_builds_running").set(stats.running as f64);
    for (outcome, count) in [("done", stats.done), ("failed", stats.failed), ("cancelled", stats.cancelled)] {
        counter!("nyala_builds_total", "outcome" => outcome).absolute(count);
    }
    counter!("nyala_build_retries_total").absolute(stats.retries);
    counter!("nyala_build_rows_total").absolute(stats.rows);
    counter!("nyala_build_cuboids_total").absolute(stats.cuboids);
    counter!("nyala_build_bytes_total").absolute(stats.bytes);
}

fn set_hot_cuboids(stats: HotStats) {
    counter!("nyala_hot_cuboid_hits_total").absolute(stats.hits);
    counter!("nyala_hot_cuboid_misses_total").absolute(stats.misses);
    counter!("nyala_hot_cuboid_loads_total").absolute(stats.loads);
    counter!("nyala_hot_cuboid_load_failures_total").absolute(stats.failures);
    counter!("nyala_hot_cuboid_evictions_total").absolute(stats.evictions);
    gauge!("nyala_hot_cuboids").set(stats.cuboids as f64);
    gauge!("nyala_hot_cuboid_bytes").set(stats.bytes as f64);
}

fn describe() {
    describe_counter!("nyala_queries_total", "Statements started.");
    describe_counter!(
        "nyala_queries_failed_total",
        "Statements that ended in an error, cancelled ones included."
    );
    describe_counter!("nyala_rows_returned_total", "Rows sent to clients.");
    describe_counter!(
        "nyala_cube_hits_total",
        "Aggregations answered from a cube; a query may have several."
    );
    describe_counter!("nyala_cube_misses_total", "Aggregations that no cube could answer.");
    describe_gauge!(
        "nyala_queries_running",
        "Statements that have begun and not ended, also those that wait for a slot."
    );
    describe_gauge!(
        "nyala_stuck",
        "Statements, builds and recoveries without progress for `query.stuck_after_ms`: `system.stuck` names them."
    );
    describe_gauge!(
        "nyala_memory_reserved_bytes",
        Unit::Bytes,
        "Memory that running queries and builds hold."
    );
    describe_gauge!(
        "nyala_damaged_segments",
        "Segments of cubes out of use because a file of them is damaged: `SHOW SEGMENTS` names it."
    );
    describe_hot_cuboids();
    describe_plans();
    describe_results();
    describe_builds();
    describe_gauge!("nyala_catalog_version", "Version of the catalog snapshot new queries read.");
    describe_gauge!("nyala_build_info", "The version of the server, as a label; always 1.");
    describe_counter!("nyala_http_refused_total", "HTTP connections refused by the limit.");
    describe_counter!("nyala_http_requests_total", "API requests by HTTP status.");
    describe_histogram!(
        "nyala_http_request_seconds",
        Unit::Seconds,
        "Time until the status of an API request was known."
    );
}

fn describe_builds() {
    describe_gauge!("nyala_builds_running", "Build jobs running now.");
    describe_counter!("nyala_builds_total", "Build jobs that ended, by outcome.");
    describe_counter!("nyala_build_retries_total", "Attempts of builds after a failure of the moment.");
    describe_counter!("nyala_build_rows_total", "Rows that builds read.");
    describe_counter!("nyala_build_cuboids_total", "Cuboids that builds finished.");
    describe_counter!("nyala_build_bytes_total", Unit::Bytes, "Bytes of cuboids that builds wrote.");
}

fn describe_hot_cuboids() {
    describe_counter!("nyala_hot_cuboid_hits_total", "Scans of a cuboid that memory answered.");
    describe_counter!("nyala_hot_cuboid_misses_total", "Scans of a cuboid that read files.");
    describe_counter!("nyala_hot_cuboid_loads_total", "Loads of cuboids into memory that ended well.");
    describe_counter!("nyala_hot_cuboid_load_failures_total", "Loads of cuboids that ended with an error.");
    describe_counter!("nyala_hot_cuboid_evictions_total", "Cuboids put out of memory for others.");
    describe_gauge!("nyala_hot_cuboids", "Cuboids in memory.");
    describe_gauge!("nyala_hot_cuboid_bytes", Unit::Bytes, "Memory of the cuboids in memory.");
}

fn describe_plans() {
    describe_counter!("nyala_plan_cache_hits_total", "Queries that ran from a ready plan.");
    describe_counter!("nyala_plan_cache_misses_total", "Queries that were planned.");
    describe_gauge!("nyala_plan_cache_entries", "Shapes and texts of queries that are known.");
    describe_gauge!("nyala_plan_cache_bytes", Unit::Bytes, "About the memory that ready plans take.");
}

fn describe_results() {
    describe_counter!("nyala_result_cache_hits_total", "Queries whose answer had been given before.");
    describe_counter!(
        "nyala_result_cache_misses_total",
        "Queries that were to be answered again, and were not."
    );
    describe_gauge!("nyala_result_cache_entries", "Answers that are kept.");
    describe_gauge!("nyala_result_cache_bytes", Unit::Bytes, "Memory that kept answers take.");
}
