//! The command line and the order of things.

use std::fs::{self, OpenOptions};
use std::io::{Write, stdout};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nyala_client::report::Hinted;
use nyala_client::span;

use super::door::{Mode, Target};
use super::host::Server;
use super::load::{Load, probe};
use super::report::{Report, Setup, page, table};
use super::rounds::{Plan, measure};
use super::workload::{Random, Workload, read};

/// Arguments of `nyala bench`.
#[derive(Debug, Clone, clap::Args)]
pub struct BenchArgs {
    /// Query files, folders of them, or a workload that comes with the program: `ssb`, `ssb-postgres`
    #[arg(required = true, value_name = "WORKLOAD")]
    pub workloads: Vec<String>,
    /// Server: `postgres://user@host:port/database`, with `?sslmode=` for encryption, `http://host:port`, `https://…`,
    /// or `kylin://user:password@host:port` for Kylin's API; user and password may be percent-encoded
    #[arg(long, required_unless_present = "print")]
    pub url: Option<String>,
    /// PEM file of the authorities that may vouch for the server [default: those the operating system trusts]
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// How values reach the server
    #[arg(long, value_enum, default_value_t = Mode::Simple)]
    pub mode: Mode,
    /// Numbers of clients; each gets runs of its own
    #[arg(long, value_delimiter = ',', value_name = "N,…", default_values_t = [1, 15, 25, 50, 75, 100, 150])]
    pub clients: Vec<usize>,
    /// Queries a second that are due, however slow the server is; without it, each client asks again when it
    /// has its answer
    #[arg(long, value_name = "PER_SECOND")]
    pub rate: Option<f64>,
    /// Measured time of each run
    #[arg(long, value_parser = span::parse, default_value = "10s")]
    pub duration: Duration,
    /// How often each number of clients is measured, in turns with the others; its numbers are those of all its runs.
    /// On a machine that is slower at times, that slows all of them alike
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub rounds: u64,
    /// Time before it that is not measured
    #[arg(long, value_parser = span::parse, default_value = "2s")]
    pub warmup: Duration,
    /// Time of a run of `SELECT 1` before each run; 0s leaves it out
    #[arg(long, value_parser = span::parse, default_value = "3s")]
    pub ceiling: Duration,
    /// Longest wait for one answer
    #[arg(long, value_parser = span::parse, default_value = "60s")]
    pub timeout: Duration,
    /// How long answers are waited for when the time is up
    #[arg(long, value_parser = span::parse, default_value = "10s")]
    pub drain: Duration,
    /// Seed of the parameters; the same seed asks the same
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Query files, or folders of them, that other clients run at the same time: each number of clients is measured
    /// without them first
    #[arg(long, value_name = "WORKLOAD")]
    pub beside: Vec<String>,
    /// How many other clients these are
    #[arg(long, value_name = "N", default_value_t = 1, requires = "beside")]
    pub beside_clients: usize,
    /// Process of a server on this machine: reports the CPU time and memory of it and of its child processes
    #[arg(long, value_name = "PID")]
    pub server_pid: Option<u32>,
    /// File for the numbers
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// File for a page with charts
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print so many drawn statements, one on each line after its name and a tab, and ask no server
    #[arg(long, value_name = "N")]
    pub print: Option<usize>,
}

/// Runs `nyala bench`.
pub async fn command(args: BenchArgs) -> Result<()> {
    let workload = Arc::new(read(&args.workloads)?);
    if let Some(count) = args.print {
        return print(&workload, count, args.seed);
    }
    check(&args)?;
    let target = Target::parse(args.url.as_deref().unwrap_or_default(), args.mode, args.ca.as_deref())?;
    let plan = plan(&args, workload, target)?;
    let server_version = probe(&plan.target, &plan.workload, args.timeout, args.seed).await?;
    for file in [&args.json, &args.html].into_iter().flatten() {
        check_writable(file)?;
    }
    let mut report = Report::new(setup(&args, &plan, server_version));
    report.runs = measure(&plan).await?;
    publish(&args, &report)
}

/// Statements as other programs may run them: without line breaks.
fn print(workload: &Workload, count: usize, seed: u64) -> Result<()> {
    let mut random = Random::of_client(seed, 0);
    let mut out = stdout().lock();
    for _ in 0..count {
        let place = random.below(workload.queries.len() as u64) as usize;
        let Some(query) = workload.queries.get(place) else { continue };
        let text = query.literal(&query.draw(&mut random)?);
        writeln!(out, "{}\t{}", query.name, text.split('\n').collect::<Vec<_>>().join(" "))?;
    }
    Ok(())
}

fn check(args: &BenchArgs) -> Result<()> {
    if args.clients.is_empty() || args.clients.contains(&0) {
        bail!("`--clients` needs numbers above 0, such as `1,15,150`");
    }
    if args.duration.is_zero() || args.timeout.is_zero() {
        bail!("`--duration` and `--timeout` must be above 0");
    }
    if args.beside_clients == 0 {
        bail!("`--beside-clients` must be above 0");
    }
    match args.rate {
        Some(rate) if !(rate.is_finite() && (0.001..=1e6).contains(&rate)) => {
            bail!("`--rate` must be between 0.001 and 1000000 queries a second, not {rate}")
        }
        _ => Ok(()),
    }
}

/// Fails before measuring if the report could not be written afterwards. An existing file keeps its contents until then.
fn check_writable(path: &Path) -> Result<()> {
    // Opening and closing a pipe would tell its reader that the output has ended.
    if fs::metadata(path).is_ok_and(|there| !there.is_file()) {
        return Ok(());
    }
    let opened = OpenOptions::new().append(true).create(true).open(path);
    opened.map(drop).with_context(|| format!("cannot write `{}`", path.display()))
}

fn server(pid: Option<u32>) -> Result<Option<Server>> {
    let Some(pid) = pid else { return Ok(None) };
    let server = Server::of_pid(pid);
    if server.is_none() {
        return Err(Hinted::error(
            format!("process {pid} is not found in `/proc`"),
            "name a server that runs on this machine, under Linux",
        ));
    }
    Ok(server)
}

fn setup(args: &BenchArgs, plan: &Plan, server_version: Option<String>) -> Setup {
    Setup {
        server: plan.target.place(),
        server_version,
        workload: plan.workload.name.clone(),
        mode: args.mode,
        arrivals_per_second: args.rate,
        warmup_seconds: args.warmup.as_secs_f64(),
        duration_seconds: args.duration.as_secs_f64(),
        rounds: args.rounds,
        seed: args.seed,
    }
}

fn plan(args: &BenchArgs, workload: Arc<Workload>, target: Target) -> Result<Plan> {
    let load = Load {
        clients: 1,
        per_second: args.rate,
        warmup: args.warmup,
        duration: args.duration,
        timeout: args.timeout,
        drain: args.drain,
        seed: args.seed,
    };
    let warmup = args.warmup.min(args.ceiling / 2);
    let ceiling = Load { per_second: None, warmup, duration: args.ceiling, ..load.clone() };
    let beside = (!args.beside.is_empty()).then(|| read(&args.beside)).transpose()?;
    Ok(Plan {
        target,
        server: server(args.server_pid)?,
        workload,
        load,
        clients: args.clients.clone(),
        rounds: args.rounds,
        ceiling: (!args.ceiling.is_zero()).then_some(ceiling),
        beside: beside.map(|beside| (Arc::new(beside), args.beside_clients)),
    })
}

fn publish(args: &BenchArgs, report: &Report) -> Result<()> {
    // The table comes first: writing the files may fail.
    writeln!(stdout().lock(), "{}", table(report))?;
    write_files(args, report)?;
    let errors = report.errors();
    if errors == 0 {
        return Ok(());
    }
    let messages = report.runs.iter().flat_map(|run| &run.error_messages);
    let told: Vec<String> =
        messages.take(5).map(|(message, count)| format!("{count} times: {message}")).collect();
    bail!("{errors} queries failed\n{}", told.join("\n"))
}

fn write_files(args: &BenchArgs, report: &Report) -> Result<()> {
    let write = |path: &Path, text: String| {
        fs::write(path, text).with_context(|| format!("cannot write `{}`", path.display()))
    };
    if let Some(path) = &args.json {
        write(path, serde_json::to_string_pretty(report)? + "\n")?;
    }
    if let Some(path) = &args.html {
        write(path, page(report))?;
    }
    Ok(())
}
