//! The binary `nyala`: reads arguments and configuration, and runs the command.
//!
//! The work is done by the crates below it; only the dialogue with a person at a terminal belongs here.

mod allocator;
mod args;
mod backup;
mod build_progress;
mod catalog;
mod catalog_move;
mod config;
mod demo;
mod disk_store;
mod doctor;
mod first_user;
mod greeting;
mod log;
mod log_lines;
mod node_port;
mod open;
mod ping;
mod report;
mod serve;
mod service_manager;
mod sql;
mod stop;
mod storage;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use nyala_runtime::{ThreadClass, join_class};

use crate::args::{Args, Command};

/// Fewest threads for sockets and signals. There is one for each processor, because they also run the cached plans that
/// answer from memory; other queries have threads of their own.
const MIN_THREADS: usize = 2;
/// Most ready sockets that an idle thread takes at once. Its queue holds 256 tasks, and those may wake others: tasks
/// that do not fit go to a queue of all threads, and wait behind later tasks.
const EVENTS: usize = 128;
/// Most ready sockets that a thread with tasks takes at once. The system keeps the others, in order.
const EVENTS_WHEN_BUSY: usize = 16;

/// Room for parsing statements at the limits of size and depth, and for walking over them: 500 SELECTs that UNION combines are a tree
/// as deep. Only the used part takes memory.
const STACK_BYTES: usize = 16 << 20;

fn main() -> ExitCode {
    nyala_server::install_provider();
    allocator::count();
    let args = Args::parse();
    log::init(&args.command);
    match run(args.command) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of the output has closed it: `nyala sql … | head` is no failure.
        Err(error) if report::is_closed_output(&error) => ExitCode::SUCCESS,
        Err(error) => {
            report::print(&error);
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> anyhow::Result<()> {
    let processors = std::thread::available_parallelism().map_or(MIN_THREADS, Into::into);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(processors.max(MIN_THREADS))
        .thread_stack_size(STACK_BYTES)
        .max_io_events_per_tick(EVENTS)
        .max_io_events_per_busy_tick(EVENTS_WHEN_BUSY)
        .enable_all()
        .on_thread_start(|| join_class(ThreadClass::Serving))
        .build()?;
    let result = runtime.block_on(dispatch(command));
    // Running tasks have had their time to end; a blocked read must not keep the process.
    runtime.shutdown_timeout(Duration::from_secs(1));
    result
}

async fn dispatch(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Serve(args) => serve::command(args).await,
        Command::Sql(args) => sql::command(args).await,
        Command::Demo(args) => demo::command(args).await,
        Command::Gen(args) => {
            let storage = config::load(&args.config, &[])?.config.storage;
            nyala_bench::generate::command(args.generate, storage).await
        }
        Command::Bench(args) => nyala_bench::bench::command(args).await,
        Command::Backup(args) => backup::backup(args).await,
        Command::Restore(args) => backup::restore(&args).await,
        Command::Catalog(args) => catalog::command(&args).await,
        Command::DiskStore(args) => disk_store::command(&args),
        Command::Storage(args) => storage::command(&args).await,
        Command::Config(args) => config::command(&args),
        Command::Doctor(args) => doctor::command(&args).await,
        Command::Ping(args) => ping::command(&args).await,
        Command::Completions(args) => args::completions(args.shell),
    }
}
