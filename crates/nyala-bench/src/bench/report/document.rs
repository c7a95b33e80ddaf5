//! The numbers of a report; as JSON they are the interface to other programs.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use anyhow::Result;
use serde::Serialize;

use crate::bench::door::Mode;
use crate::bench::host::Machine;
use crate::bench::load::{Held, Measured, Tally, Usage};
use crate::bench::workload::Workload;

/// Shares of the latency curve: closer together where it is steep.
const CURVE: [f64; 17] =
    [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.975, 0.99, 0.995, 0.999, 0.9999, 1.0];

/// Everything that a reader needs in order to judge the numbers.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Version of this program.
    pub tool_version: &'static str,
    /// When the measurements began, in UTC.
    pub date: String,
    /// Server, workload and load of the runs.
    pub setup: Setup,
    /// The machine that this program ran on.
    pub machine: Machine,
    /// One run for each number of clients.
    pub runs: Vec<RunReport>,
}

/// Server, workload and load of the runs.
#[derive(Debug, Clone, Serialize)]
pub struct Setup {
    /// Protocol, host and port.
    pub server: String,
    /// The server's version, if the protocol reports it.
    pub server_version: Option<String>,
    /// Names of the workloads.
    pub workload: String,
    /// How values reach the server.
    pub mode: Mode,
    /// The arrival rate of an open loop; none for a closed one.
    pub arrivals_per_second: Option<f64>,
    /// Unmeasured time before each run.
    pub warmup_seconds: f64,
    /// Measured time of each run.
    pub duration_seconds: f64,
    /// How often each number of clients ran, in turns with the others.
    pub rounds: u64,
    /// Seed of the drawn parameters.
    pub seed: u64,
}

/// One number of clients, over all rounds.
#[derive(Debug, Serialize)]
pub struct RunReport {
    /// Clients, each with a connection.
    pub clients: usize,
    /// The measured time of all rounds.
    pub elapsed_seconds: f64,
    /// All queries.
    pub total: Numbers,
    /// Queries handled in each second of the measured time, whenever they were due.
    pub per_second: f64,
    /// Queries handled in each second, of each round.
    pub rounds_per_second: Vec<f64>,
    /// The measured limit of the path to the server.
    pub ceiling: Option<Ceiling>,
    /// The load that ran at the same time; none for a run that had the server for itself.
    pub beside: Option<Beside>,
    /// CPU time and memory.
    pub cost: Cost,
    /// Memory, threads, files and progress of the server in the course of a long run.
    pub course: Vec<Held>,
    /// Messages of errors, and how often each came.
    pub error_messages: BTreeMap<String, u64>,
    /// Shares of the queries, and within how many milliseconds they were answered.
    pub curve: Vec<(f64, f64)>,
    /// Each query.
    pub queries: Vec<QueryReport>,
}

/// `SELECT 1` on the same door, in the same mode, from as many clients.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Ceiling {
    /// Queries handled in each second.
    pub per_second: f64,
    /// Queries that gave an error, or were not answered in time.
    pub errors: u64,
    /// Mean time of a query.
    pub mean_ms: f64,
    /// CPU time of this program for each query.
    pub client_cpu_ms_per_query: Option<f64>,
    /// CPU time of the server for each query.
    pub server_cpu_ms_per_query: Option<f64>,
}

/// Another workload that ran at the same time.
#[derive(Debug, Clone, Serialize)]
pub struct Beside {
    /// The name of the workload.
    pub workload: String,
    /// Clients of the workload, each with a connection.
    pub clients: usize,
    /// Queries that were begun in the measured time and answered, be it after its end.
    pub handled: u64,
    /// Queries that gave an error, or were not answered in time.
    pub errors: u64,
    /// Mean time of these queries.
    pub mean_ms: f64,
    /// The p95 of the run, as a multiple of the p95 without this load.
    pub p95_ratio: f64,
    /// Messages of errors, and how often each came.
    pub error_messages: BTreeMap<String, u64>,
}

/// One query of the workload.
#[derive(Debug, Serialize)]
pub struct QueryReport {
    /// The query's name in its file.
    pub name: String,
    /// The query's numbers.
    #[serde(flatten)]
    pub numbers: Numbers,
}

/// How many queries, and how long they took.
#[derive(Debug, Serialize)]
pub struct Numbers {
    /// Queries answered without an error.
    pub handled: u64,
    /// Queries answered by an error, or not in time.
    pub errors: u64,
    /// Queries not answered when the run ended; their waiting is in the times below.
    pub unfinished: u64,
    /// Rows of a mean answer.
    pub rows_per_query: f64,
    /// Mean time of a query.
    pub mean_ms: f64,
    /// Half of the queries took no longer.
    pub p50_ms: f64,
    /// 95 of 100 queries took no longer.
    pub p95_ms: f64,
    /// 99 of 100 queries took no longer.
    pub p99_ms: f64,
    /// 999 of 1000 queries took no longer.
    pub p999_ms: f64,
    /// The longest time of a query.
    pub max_ms: f64,
}

/// CPU time and memory.
#[derive(Debug, Serialize)]
pub struct Cost {
    /// CPU time of this program for each query.
    pub client_cpu_ms_per_query: Option<f64>,
    /// How many cores this program kept busy.
    pub client_cores: Option<f64>,
    /// CPU time of the server for each query.
    pub server_cpu_ms_per_query: Option<f64>,
    /// How many cores the server kept busy.
    pub server_cores: Option<f64>,
    /// Proportional set size of the server, with every client connected.
    pub server_memory_bytes: Option<u64>,
}

impl Report {
    /// A report without runs yet.
    pub fn new(setup: Setup) -> Self {
        let date = chrono::DateTime::<chrono::Utc>::from(SystemTime::now());
        Self {
            tool_version: env!("CARGO_PKG_VERSION"),
            date: date.format("%Y-%m-%d %H:%M UTC").to_string(),
            setup,
            machine: Machine::this(),
            runs: Vec::new(),
        }
    }

    /// Queries of all runs that gave an error, those beside them and of their ceilings too.
    pub fn errors(&self) -> u64 {
        let others = |run: &RunReport| {
            run.beside.as_ref().map_or(0, |beside| beside.errors)
                + run.ceiling.as_ref().map_or(0, |ceiling| ceiling.errors)
        };
        self.runs.iter().map(|run| run.total.errors + others(run)).sum()
    }
}

impl RunReport {
    /// The report of these runs, if there are any.
    pub fn of(rounds: Vec<Measured>, workload: &Workload, ceiling: Option<Ceiling>) -> Result<Option<Self>> {
        let rounds_per_second = rounds.iter().map(Measured::per_second).collect();
        let Some(measured) = Measured::sum(rounds)? else { return Ok(None) };
        let names = workload.queries.iter().map(|query| query.name.clone());
        let latencies = &measured.total.latencies;
        Ok(Some(Self {
            clients: measured.load.clients,
            elapsed_seconds: measured.usage.elapsed.as_secs_f64(),
            total: Numbers::of(&measured.total),
            per_second: measured.per_second(),
            rounds_per_second,
            ceiling,
            beside: None,
            cost: Cost::of(&measured.usage),
            course: measured.usage.course,
            error_messages: measured.errors,
            curve: CURVE.iter().map(|share| (*share, latencies.quantile_ms(*share))).collect(),
            queries: names
                .zip(&measured.queries)
                .map(|(name, tally)| QueryReport { name, numbers: Numbers::of(tally) })
                .collect(),
        }))
    }
}

impl Beside {
    /// The results of the load `measured` beside `run`, which is compared with the `quiet` run.
    pub fn of(measured: &Measured, workload: &Workload, run: &RunReport, quiet: &RunReport) -> Self {
        Self {
            workload: workload.name.clone(),
            clients: measured.load.clients,
            handled: measured.total.handled,
            errors: measured.total.errors,
            mean_ms: measured.total.latencies.mean_ms(),
            p95_ratio: run.total.p95_ms / quiet.total.p95_ms.max(1e-9),
            error_messages: measured.errors.clone(),
        }
    }
}

impl Ceiling {
    /// Throughput and CPU time of a run of `SELECT 1`.
    pub fn of(measured: &Measured) -> Self {
        let cost = Cost::of(&measured.usage);
        Self {
            per_second: measured.per_second(),
            errors: measured.total.errors,
            mean_ms: measured.total.latencies.mean_ms(),
            client_cpu_ms_per_query: cost.client_cpu_ms_per_query,
            server_cpu_ms_per_query: cost.server_cpu_ms_per_query,
        }
    }
}

impl Numbers {
    fn of(tally: &Tally) -> Self {
        let quantile = |share| tally.latencies.quantile_ms(share);
        Self {
            handled: tally.handled,
            errors: tally.errors,
            unfinished: tally.unfinished,
            rows_per_query: tally.rows as f64 / tally.handled.max(1) as f64,
            mean_ms: tally.latencies.mean_ms(),
            p50_ms: quantile(0.5),
            p95_ms: quantile(0.95),
            p99_ms: quantile(0.99),
            p999_ms: quantile(0.999),
            max_ms: quantile(1.0),
        }
    }
}

impl Cost {
    fn of(usage: &Usage) -> Self {
        let per_query =
            |cpu: Duration| (usage.ended > 0).then(|| cpu.as_secs_f64() * 1000.0 / usage.ended as f64);
        let cores = |cpu: Duration| cpu.as_secs_f64() / usage.elapsed.as_secs_f64().max(1e-9);
        Self {
            client_cpu_ms_per_query: usage.client_cpu.and_then(per_query),
            client_cores: usage.client_cpu.map(cores),
            server_cpu_ms_per_query: usage.server_cpu.and_then(per_query),
            server_cores: usage.server_cpu.map(cores),
            server_memory_bytes: usage.server_memory_bytes,
        }
    }
}
