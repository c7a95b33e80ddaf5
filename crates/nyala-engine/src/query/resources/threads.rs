//! The computing threads, apart from the network threads.
//!
//! Planning is recursive over the users' SQL, so it runs on few threads with large stacks; a stack is
//! address space only until it is used. While a statement waits for a store to list files, its thread plans
//! others: a store that does not answer delays only the statements that read it. Execution runs on a
//! runtime of its own, so that a busy query never delays an accepted connection or a health check.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use nyala_runtime::{Reason, Scope, ThreadClass, Work, before_sleep, join_class};
use nyala_sql::error::{ErrorKind, QueryError, Result};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::guard::Works;
use super::jobs::Jobs;
use super::tracer;

/// Stack for planning statements at the limits of size and depth.
const PLANNING_STACK_BYTES: usize = 256 << 20;
/// How long all planning threads may compute before an extra one is started for waiting jobs.
const PATIENCE: Duration = Duration::from_millis(20);
/// Greatest number of extra planning threads.
const MAX_STAND_INS: usize = 16;
/// Stack for evaluating the deepest expressions that planning lets through.
const EXECUTION_STACK_BYTES: usize = 16 << 20;

/// Threads for planning and for execution.
#[derive(Debug)]
pub struct Threads {
    planning: Arc<Jobs>,
    runtimes: Vec<Runtime>,
    handle: Handle,
    short: Handle,
    large: Handle,
    loading: Handle,
    works: Arc<Works>,
    /// Permits for further extra planning threads.
    stand_ins: Arc<Semaphore>,
}

impl Threads {
    /// Starts `count` threads of each kind, but one for loading.
    pub fn start(count: usize) -> Result<Self> {
        let failed = |error: std::io::Error| {
            QueryError::new(ErrorKind::ResourcesExhausted, format!("cannot start threads: {error}"))
        };
        let runtime = |name: &str, threads: usize, start: fn()| {
            Builder::new_multi_thread()
                .worker_threads(threads)
                .thread_name(name)
                .thread_stack_size(EXECUTION_STACK_BYTES)
                .on_thread_start(start)
                .on_thread_park(before_sleep)
                .enable_all()
                .build()
                .map_err(failed)
        };
        tracer::install();
        let execution = runtime("nyala-query", count, || join_class(ThreadClass::Serving))?;
        let short = runtime("nyala-short", count, || join_class(ThreadClass::Short))?;
        let large = runtime("nyala-large", count, || join_class(ThreadClass::Large))?;
        let loading = runtime("nyala-load", 1, || join_class(ThreadClass::Large))?;
        let threads = Self {
            planning: Arc::new(Jobs::default()),
            handle: execution.handle().clone(),
            short: short.handle().clone(),
            large: large.handle().clone(),
            loading: loading.handle().clone(),
            works: Arc::default(),
            stand_ins: Arc::new(Semaphore::new(MAX_STAND_INS)),
            runtimes: vec![execution, short, large, loading],
        };
        for _ in 0..count {
            threads.start_planning(Jobs::work).map_err(failed)?;
        }
        Ok(threads)
    }

    fn start_planning(&self, work: impl FnOnce(&Jobs) + Send + 'static) -> std::io::Result<()> {
        let (jobs, handle) = (Arc::clone(&self.planning), self.handle.clone());
        let thread =
            std::thread::Builder::new().name("nyala-plan".to_owned()).stack_size(PLANNING_STACK_BYTES);
        thread.spawn(move || {
            join_class(ThreadClass::Short);
            let _within = handle.enter();
            work(&jobs);
        })?;
        Ok(())
    }

    /// Starts an extra planning thread because all others compute: planning a statement may take seconds.
    fn start_stand_in(&self) {
        let stand_ins = Arc::clone(&self.stand_ins);
        let Ok(permit) = stand_ins.try_acquire_owned() else { return };
        let started = self.start_planning(move |jobs| {
            jobs.work_off();
            drop(permit);
        });
        if let Err(error) = started {
            tracing::warn!(%error, "statements wait for planning threads that compute");
        }
    }

    /// The runtime of small queries, and of tasks that mostly wait.
    pub fn execution(&self) -> &Handle {
        &self.handle
    }

    /// The runtime that loads cuboids into memory. It has a thread of its own: queries are slow until the
    /// load is done, and among them it would be done last.
    pub fn loading(&self) -> &Handle {
        &self.loading
    }

    /// Runs `work` in `scope` on the threads of builds and of long queries.
    pub fn spawn_large<F>(&self, scope: Scope, work: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.large_for(scope.work()).spawn(scope.run(work))
    }

    /// The runtime of builds and of long queries, for work that enters its scope itself.
    pub fn large_for(&self, account: &Arc<Work>) -> &Handle {
        self.works.add(account);
        &self.large
    }

    /// The runtime of queries of some tenths of a second, for one with this account. A batch of a large
    /// query may take as long.
    pub fn short_for(&self, account: &Arc<Work>) -> &Handle {
        self.works.add(account);
        &self.short
    }

    /// The runtime of queries of some tenths of a second, for work whose account is known.
    pub fn short(&self) -> &Handle {
        &self.short
    }

    /// The runtime of long queries, for work whose account is known.
    pub fn large(&self) -> &Handle {
        &self.large
    }

    /// Accounts of the work on these threads.
    pub fn works(&self) -> &Arc<Works> {
        &self.works
    }

    /// All runtimes, by the name of their threads.
    pub fn runtimes(&self) -> [(&'static str, &Handle); 4] {
        [
            ("nyala-query", &self.handle),
            ("nyala-short", &self.short),
            ("nyala-large", &self.large),
            ("nyala-load", &self.loading),
        ]
    }

    /// Runs `work` on a planning thread. If the caller goes away, the work ends where it next waits, as for a
    /// store that does not answer.
    pub async fn plan<F, T>(&self, work: F) -> Result<T>
    where
        F: Future<Output = Result<T>> + Send + 'static,
        T: Send + 'static,
    {
        let (mut sender, receiver) = oneshot::channel();
        let account = Arc::new(Work::default());
        self.works.add(&account);
        let work = Scope::new(Arc::clone(&account)).run(AssertUnwindSafe(work).catch_unwind());
        let job = async move {
            let done = tokio::select! {
                biased;
                () = sender.closed() => return,
                done = work => done,
            };
            let _ = sender.send(done.unwrap_or_else(|panic| Err(from_panic(panic.as_ref()))));
        };
        let gone = || QueryError::new(ErrorKind::ShuttingDown, "the server is stopping");
        self.planning.push(job);
        // Dropped with this call, so that work which computes without waiting ends too, at its next rule.
        let _ends = EndOnDrop(account);
        let mut receiver = receiver;
        let mut taken = self.planning.taken_before_others();
        loop {
            if let Ok(done) = timeout(PATIENCE, &mut receiver).await {
                return done.map_err(|_| gone())?;
            }
            let before = std::mem::replace(&mut taken, self.planning.taken_before_others());
            if before.is_some() && before == taken {
                self.start_stand_in();
            }
        }
    }

    /// Runs `work` on a planning thread in the background.
    pub fn plan_later(&self, work: impl Future<Output = ()> + Send + 'static) {
        let job = async move {
            if let Err(panic) = AssertUnwindSafe(work).catch_unwind().await {
                tracing::warn!(error = %from_panic(panic.as_ref()), "planning in the background failed");
            }
        };
        self.planning.push(job);
    }
}

/// Ends the work when its caller stops waiting.
struct EndOnDrop(Arc<Work>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.end(Reason::Cancelled);
    }
}

/// Turns a panic into an error of its statement: neither the process nor the answer just ends.
pub fn from_panic(panic: &(dyn std::any::Any + Send)) -> QueryError {
    let text = panic.downcast_ref::<&str>().copied().map(str::to_owned);
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    QueryError::internal(text.unwrap_or_else(|| "a panic without a message".to_owned()))
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.planning.close();
        self.runtimes.drain(..).for_each(stop);
    }
}

/// Ends a runtime on a new thread, which waits for the runtime's threads: this one may be within another
/// runtime, where nothing may wait. Not in the background: that detaches threads while they end, and glibc
/// 2.36 then crashes if the stack of one has just gone (its bug 19951: a segmentation fault).
fn stop(runtime: Runtime) {
    // Held here too: a thread that cannot be started drops its closure.
    let held = Arc::new(Mutex::new(Some(runtime)));
    let take = |held: &Mutex<Option<Runtime>>| held.lock().unwrap_or_else(PoisonError::into_inner).take();
    let given = Arc::clone(&held);
    let waiting = std::thread::Builder::new().name("nyala-stop".to_owned());
    if waiting.spawn(move || drop(take(&given))).is_err()
        && let Some(runtime) = take(&held)
    {
        runtime.shutdown_background();
    }
}

#[cfg(test)]
#[path = "threads_tests.rs"]
mod tests;
