//! The order of measurements: each number of clients with the ceiling of its path, alone, and beside others.
//!
//! A machine that others share gives more at one time than at another. So several rounds go through all numbers of
//! clients, and the result of a number of clients is the sum of its runs: a slow round slows all numbers alike.

use std::io::{Write, stderr};
use std::sync::Arc;

use anyhow::Result;

use super::door::Target;
use super::host::Server;
use super::load::{Load, Measured, run, run_both};
use super::report::{Beside, Ceiling, RunReport};
use super::workload::{Workload, select_one};

/// The server, the workload and the runs.
pub struct Plan {
    /// The server.
    pub target: Target,
    /// The server's process, if it is to be watched.
    pub server: Option<Server>,
    /// The queries of the clients.
    pub workload: Arc<Workload>,
    /// How each run loads the server; number of clients and seed are those of the run.
    pub load: Load,
    /// Numbers of clients, in their order.
    pub clients: Vec<usize>,
    /// How often each number of clients is measured.
    pub rounds: u64,
    /// How `SELECT 1` loads the server before each run, if it does.
    pub ceiling: Option<Load>,
    /// The queries of other clients at the same time, and the number of these clients.
    pub beside: Option<(Arc<Workload>, usize)>,
}

/// The runs of one number of clients.
#[derive(Default)]
struct Runs {
    ceiling: Vec<Measured>,
    quiet: Vec<Measured>,
    busy: Vec<Measured>,
    others: Vec<Measured>,
}

/// Measures everything that is planned.
pub async fn measure(plan: &Plan) -> Result<Vec<RunReport>> {
    let mut all: Vec<Runs> = plan.clients.iter().map(|_| Runs::default()).collect();
    for round in 0..plan.rounds {
        for (clients, runs) in plan.clients.iter().zip(&mut all) {
            let of = if plan.rounds > 1 { format!("round {}, ", round + 1) } else { String::new() };
            // A closed stderr is no reason to give up the results.
            let _ = writeln!(stderr(), "{of}clients: {clients} …");
            plan.measure_once(*clients, round, runs).await?;
        }
    }
    let mut reports = Vec::new();
    for runs in all {
        reports.extend(plan.report(runs)?);
    }
    Ok(reports)
}

impl Plan {
    async fn measure_once(&self, clients: usize, round: u64, runs: &mut Runs) -> Result<()> {
        let seed = self.load.seed.wrapping_add(round);
        let load = Load { clients, seed, ..self.load.clone() };
        if let Some(ceiling) = &self.ceiling {
            let load = Load { clients, seed, ..ceiling.clone() };
            runs.ceiling.push(run(&self.target, &Arc::new(select_one()?), load, self.server).await?);
        }
        runs.quiet.push(run(&self.target, &self.workload, load.clone(), self.server).await?);
        if let Some((beside, clients)) = &self.beside {
            let _ = writeln!(stderr(), "… beside {} …", beside.name);
            let others = Load { per_second: None, clients: *clients, ..load.clone() };
            let (own, others) = ((&self.workload, load), (beside, others));
            let (busy, others) = run_both(&self.target, own, others, self.server).await?;
            runs.busy.push(busy);
            runs.others.push(others);
        }
        Ok(())
    }

    /// A report of the runs alone, and one of the runs beside others.
    fn report(&self, runs: Runs) -> Result<Vec<RunReport>> {
        let ceiling = Measured::sum(runs.ceiling)?.map(|ceiling| Ceiling::of(&ceiling));
        let quiet = RunReport::of(runs.quiet, &self.workload, ceiling)?;
        let mut busy = RunReport::of(runs.busy, &self.workload, None)?;
        if let (Some(quiet), Some(busy), Some((beside, _)), Some(others)) =
            (&quiet, &mut busy, &self.beside, Measured::sum(runs.others)?)
        {
            busy.beside = Some(Beside::of(&others, beside, busy, quiet));
        }
        Ok(quiet.into_iter().chain(busy).collect())
    }
}
