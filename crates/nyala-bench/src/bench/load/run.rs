//! Connects clients, lets them ask, and gathers their reports.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use futures::future::join_all;

use super::client::{Client, Shared, Times};
use super::pace::Pace;
use super::recorder::{Recorder, Tally};
use super::usage::{Progress, Usage, watch};
use crate::bench::door::{Connection, Target};
use crate::bench::host::Server;
use crate::bench::workload::{Random, Workload};

/// How a server is loaded.
#[derive(Debug, Clone)]
pub struct Load {
    /// Clients, each with a connection of its own.
    pub clients: usize,
    /// Queries a second that are due, however slow the server is; none: each client asks again when it has
    /// its answer.
    pub per_second: Option<f64>,
    /// How long clients ask before anything is measured.
    pub warmup: Duration,
    /// How long is measured.
    pub duration: Duration,
    /// Longest wait for one answer.
    pub timeout: Duration,
    /// How long after the end answers are waited for.
    pub drain: Duration,
    /// Seed of everything that is drawn.
    pub seed: u64,
}

/// The results of a run, or of several.
#[derive(Debug)]
pub struct Measured {
    /// How the server was loaded.
    pub load: Load,
    /// All queries.
    pub total: Tally,
    /// Each query, in the workload's order.
    pub queries: Vec<Tally>,
    /// Messages of errors, and how often each came.
    pub errors: BTreeMap<String, u64>,
    /// CPU time and memory of client and server.
    pub usage: Usage,
}

impl Measured {
    /// Queries that were handled in each second of the measured time, whenever they were due.
    ///
    /// A count of queries that were due in that time would be another one: they begin with the first of a steady stream and end after its last
    /// second, when fewer and fewer clients wait. With a thousand clients that end is several per cent of a few seconds.
    pub fn per_second(&self) -> f64 {
        self.usage.handled as f64 / self.usage.elapsed.as_secs_f64().max(1e-9)
    }

    /// The sum of several runs of one load, as one run that took as long as all of them.
    pub fn sum(runs: impl IntoIterator<Item = Self>) -> Result<Option<Self>> {
        let mut runs = runs.into_iter();
        let Some(mut sum) = runs.next() else { return Ok(None) };
        for run in runs {
            sum.add(run)?;
        }
        Ok(Some(sum))
    }

    fn add(&mut self, other: Self) -> Result<()> {
        self.total.add(&other.total)?;
        for (query, other) in self.queries.iter_mut().zip(&other.queries) {
            query.add(other)?;
        }
        for (message, count) in other.errors {
            *self.errors.entry(message).or_default() += count;
        }
        self.usage.add(other.usage);
        Ok(())
    }
}

/// Runs each query once, so that a wrong one is told before anything is measured. Gives the version of the
/// server, if it tells.
pub async fn probe(
    target: &Target,
    workload: &Workload,
    timeout: Duration,
    seed: u64,
) -> Result<Option<String>> {
    let place = target.place();
    let within = |what: String| anyhow!("{what} did not end within {timeout:?}");
    let connecting = tokio::time::timeout(timeout, target.connect()).await;
    let mut connection = connecting
        .map_err(|_| within("connecting".to_owned()))?
        .map_err(|error| anyhow!("{error}"))
        .with_context(|| format!("cannot connect to `{place}`"))?;
    let mut random = Random::of_client(seed, u64::MAX);
    for query in &workload.queries {
        let answer = tokio::time::timeout(timeout, connection.run(query, query.draw(&mut random)?)).await;
        answer
            .map_err(|_| within("it".to_owned()))
            .and_then(|answer| answer.map_err(|error| anyhow!("{error}")))
            .with_context(|| format!("query `{}` fails on `{place}`", query.name))?;
    }
    Ok(connection.server_version())
}

/// Loads a server.
pub async fn run(
    target: &Target,
    workload: &Arc<Workload>,
    load: Load,
    server: Option<Server>,
) -> Result<Measured> {
    let connections = connect(target, load.clients, load.timeout).await;
    run_from(Instant::now(), connections, target, workload, load, server).await
}

/// Runs two loads from one moment on: connecting takes longer where there are more clients.
pub async fn run_both(
    target: &Target,
    (workload, load): (&Arc<Workload>, Load),
    (beside, others): (&Arc<Workload>, Load),
    server: Option<Server>,
) -> Result<(Measured, Measured)> {
    let (own, theirs) = tokio::join!(
        connect(target, load.clients, load.timeout),
        connect(target, others.clients, others.timeout)
    );
    let start = Instant::now();
    let (mut one, other) = tokio::try_join!(
        run_from(start, own, target, workload, load, server),
        run_from(start, theirs, target, beside, others, None)
    )?;
    // The CPU time is the sum of both runs, which cannot be told apart.
    (one.usage.client_cpu, one.usage.server_cpu) = (None, None);
    Ok((one, other))
}

async fn run_from(
    start: Instant,
    connections: Vec<Option<Connection>>,
    target: &Target,
    workload: &Arc<Workload>,
    load: Load,
    server: Option<Server>,
) -> Result<Measured> {
    let from = start + load.warmup;
    let until = from + load.duration;
    let times = Times { from, until, deadline: until + load.drain, timeout: load.timeout };
    let shared = Arc::new(Shared {
        target: target.clone(),
        workload: Arc::clone(workload),
        pace: load.per_second.map_or(Pace::Closed, |rate| Pace::open(start, until, rate)),
        times,
        recorder: Recorder::new(workload.queries.len())?,
        progress: Progress::default(),
    });
    let clients: Vec<_> = connections
        .into_iter()
        .enumerate()
        .map(|(number, connection)| {
            let random = Random::of_client(load.seed, number as u64);
            tokio::spawn(Client::new(Arc::clone(&shared), connection, random).run())
        })
        .collect();
    let usage = watch(from, until, &shared.progress, server).await;
    for client in clients {
        // The server's memory has been measured: now the clients disconnect.
        drop(client.await.context("a client died")?);
    }
    gather(load, &shared, usage)
}

/// Connections for all clients. A client without one tries again at its next query, and that time counts.
async fn connect(target: &Target, clients: usize, timeout: Duration) -> Vec<Option<Connection>> {
    let connecting = (0..clients).map(|_| async {
        let connected = tokio::time::timeout(timeout, target.connect()).await;
        connected.ok().and_then(Result::ok)
    });
    join_all(connecting).await
}

fn gather(load: Load, shared: &Shared, usage: Usage) -> Result<Measured> {
    let recorder = &shared.recorder;
    Ok(Measured {
        load,
        total: recorder.total()?,
        queries: recorder.queries(),
        errors: recorder.messages(),
        usage,
    })
}
