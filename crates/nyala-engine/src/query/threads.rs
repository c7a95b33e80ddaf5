//! The threads that compute, apart from those that serve the network.
//!
//! Planning is recursive over what users write, so it runs on few threads with much stack; the stack
//! is address space only until it is used. Execution runs on a runtime of its own, so that a busy
//! query never delays an accepted connection or a health check.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

use futures::FutureExt;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;

use crate::error::{ErrorKind, QueryError, Result};

/// Room for planning statements at the limits of size and depth.
const PLANNING_STACK_BYTES: usize = 256 << 20;
/// Room for evaluating the deepest expressions that planning lets through.
const EXECUTION_STACK_BYTES: usize = 16 << 20;

type Job = Box<dyn FnOnce() + Send>;

/// Threads for planning and for execution.
#[derive(Debug)]
pub(super) struct Threads {
    planning: Sender<Job>,
    execution: Option<Runtime>,
    handle: Handle,
}

impl Threads {
    /// Starts `count` threads of each kind.
    pub(super) fn start(count: usize) -> Result<Self> {
        let failed = |error: std::io::Error| {
            QueryError::new(ErrorKind::ResourcesExhausted, format!("cannot start threads: {error}"))
        };
        let execution = Builder::new_multi_thread()
            .worker_threads(count)
            .thread_name("nyala-query")
            .thread_stack_size(EXECUTION_STACK_BYTES)
            .enable_all()
            .build()
            .map_err(failed)?;
        let (planning, jobs) = channel();
        let jobs = Arc::new(Mutex::new(jobs));
        for _ in 0..count {
            let jobs = Arc::clone(&jobs);
            std::thread::Builder::new()
                .name("nyala-plan".to_owned())
                .stack_size(PLANNING_STACK_BYTES)
                .spawn(move || work(&jobs))
                .map_err(failed)?;
        }
        let handle = execution.handle().clone();
        Ok(Self { planning, execution: Some(execution), handle })
    }

    /// The runtime that executes queries and builds.
    pub(super) fn execution(&self) -> &Handle {
        &self.handle
    }

    /// Runs `work` on a planning thread. If the caller goes away the result is thrown away.
    pub(super) async fn plan<F, T>(&self, work: F) -> Result<T>
    where
        F: Future<Output = Result<T>> + Send + 'static,
        T: Send + 'static,
    {
        let (sender, receiver) = oneshot::channel();
        let handle = self.handle.clone();
        let job: Job = Box::new(move || {
            if !sender.is_closed() {
                let done = handle.block_on(AssertUnwindSafe(work).catch_unwind());
                let _ = sender.send(done.unwrap_or_else(|panic| Err(from_panic(panic.as_ref()))));
            }
        });
        let gone = || QueryError::new(ErrorKind::ShuttingDown, "the server is stopping");
        self.planning.send(job).map_err(|_| gone())?;
        receiver.await.map_err(|_| gone())?
    }

    /// Runs `work` on a planning thread, some time. Nobody waits for it.
    pub(super) fn plan_later(&self, work: impl Future<Output = ()> + Send + 'static) {
        let handle = self.handle.clone();
        let job: Job = Box::new(move || {
            if let Err(panic) = handle.block_on(AssertUnwindSafe(work).catch_unwind()) {
                tracing::warn!(error = %from_panic(panic.as_ref()), "planning in the background failed");
            }
        });
        // The other side is gone only when the engine is.
        let _ = self.planning.send(job);
    }
}

fn work(jobs: &Mutex<Receiver<Job>>) {
    loop {
        let job = match jobs.lock() {
            Ok(jobs) => jobs.recv(),
            Err(_) => return,
        };
        match job {
            Ok(job) => job(),
            Err(_) => return,
        }
    }
}

/// A panic below us is an error of one statement, never the end of the process or of its answer.
pub(super) fn from_panic(panic: &(dyn std::any::Any + Send)) -> QueryError {
    let text = panic.downcast_ref::<&str>().copied().map(str::to_owned);
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    QueryError::internal(text.unwrap_or_else(|| "a panic without a message".to_owned()))
}

impl Drop for Threads {
    /// A runtime may be dropped from within another one only in the background.
    fn drop(&mut self) {
        if let Some(execution) = self.execution.take() {
            execution.shutdown_background();
        }
    }
}
