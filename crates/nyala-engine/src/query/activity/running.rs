//! A statement while it runs: dropping this ends it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use nyala_runtime::Scope;
use nyala_sql::error::QueryError;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::entry::{Entry, Phase, Status, TEXT_BYTES};
use super::registry::Registry;
use super::route::Route;
use crate::query::counters::Counters;
use crate::query::options::SessionOptions;

/// A query that counts as running until this and its [`Listed`] are dropped. Dropping this stops it.
#[derive(Debug)]
pub struct Running {
    listed: Arc<Listed>,
    task: Option<JoinHandle<()>>,
}

/// The place of a statement in the list of running ones. The task that answers may hold it until the end is
/// known.
#[derive(Debug)]
pub struct Listed {
    counters: Arc<Counters>,
    registry: Arc<Registry>,
    entry: Arc<Entry>,
}

impl Running {
    pub fn begin(
        counters: &Arc<Counters>,
        registry: &Arc<Registry>,
        text: &str,
        owner: &Arc<SessionOptions>,
        cancel: CancellationToken,
    ) -> Self {
        counters.total.fetch_add(1, Ordering::Relaxed);
        let listed = Listed::begin(counters, registry, text, owner, cancel);
        Self { listed: Arc::new(listed), task: None }
    }

    /// Its place in the list of running statements.
    pub fn listed(&self) -> &Arc<Listed> {
        &self.listed
    }

    pub fn entry(&self) -> &Arc<Entry> {
        &self.listed.entry
    }

    pub fn counters(&self) -> &Arc<Counters> {
        &self.listed.counters
    }

    /// Records an answer from the result cache.
    pub fn gives_again(&self, rows: usize, route: Arc<Route>) {
        self.counters().rows.fetch_add(rows as u64, Ordering::Relaxed);
        let entry = self.entry();
        entry.add_rows(rows);
        entry.takes(route);
        entry.is_given_again();
        entry.enter(Phase::Sending);
    }

    /// The scope of the statement's tasks. The statement is listed until the last of them is gone.
    pub fn scope(&self) -> Scope {
        Scope::new(Arc::clone(self.entry().account())).holding(Arc::clone(&self.listed))
    }

    /// Takes the task that computes the statement; it is aborted when this is dropped.
    pub fn compute(&mut self, task: JoinHandle<()>) {
        self.task = Some(task);
    }

    pub fn fail(&self, error: &QueryError) {
        self.listed.fail(error);
    }

    pub fn finish(&self) {
        self.listed.finish();
    }

    /// Stops the work at its next await or check.
    pub fn stop(&self) {
        if let Some(task) = &self.task {
            task.abort();
        }
        self.entry().end_work();
    }
}

impl Listed {
    fn begin(
        counters: &Arc<Counters>,
        registry: &Arc<Registry>,
        text: &str,
        owner: &Arc<SessionOptions>,
        cancel: CancellationToken,
    ) -> Self {
        counters.running.fetch_add(1, Ordering::Relaxed);
        Self {
            counters: Arc::clone(counters),
            registry: Arc::clone(registry),
            entry: registry.begin(text, Arc::clone(owner), cancel),
        }
    }

    /// Records the error that ends the statement.
    pub fn fail(&self, error: &QueryError) {
        fail(&self.counters, &self.entry, error);
    }

    /// Ends the entry uncounted and unlogged: another entry, here or on another node, stands for the statement.
    pub fn hand_over(&self) {
        self.counters.total.fetch_sub(1, Ordering::Relaxed);
        self.entry.end_with(Status::Prepared);
    }

    /// Records that the statement succeeded.
    pub fn finish(&self) {
        self.entry.end_with(Status::Finished);
    }
}

/// A statement while it is prepared. It is listed, but counted and logged only if preparation ends it. If
/// not, each execution is counted and logged.
#[derive(Debug)]
pub struct Preparing {
    listed: Listed,
}

impl Preparing {
    pub fn begin(
        counters: &Arc<Counters>,
        registry: &Arc<Registry>,
        text: &str,
        owner: &Arc<SessionOptions>,
        cancel: CancellationToken,
    ) -> Self {
        Self { listed: Listed::begin(counters, registry, text, owner, cancel) }
    }

    pub fn entry(&self) -> &Arc<Entry> {
        &self.listed.entry
    }

    pub fn fail(&self, error: &QueryError) {
        self.listed.fail(error);
    }

    /// Records that it can be executed.
    pub fn finish(self) {
        self.listed.registry.phases().prepared(self.listed.entry.begun.elapsed());
        self.listed.entry.end_with(Status::Prepared);
    }
}

impl Drop for Preparing {
    fn drop(&mut self) {
        if !self.listed.entry.is_prepared() {
            self.listed.counters.total.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Records the error that ends a statement. The error may repeat a value of many megabytes; the log keeps at
/// most [`TEXT_BYTES`] of it, as of the statement.
pub fn fail(counters: &Counters, entry: &Entry, error: &QueryError) {
    if entry.end().is_none() {
        counters.failed.fetch_add(1, Ordering::Relaxed);
        let mut message = entry.text.error(error);
        message.truncate(message.floor_char_boundary(TEXT_BYTES));
        message.shrink_to_fit();
        entry.end_with(Status::Failed(message));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.entry.end_with(Status::Abandoned);
        self.registry.end(&self.entry);
        self.counters.running.fetch_sub(1, Ordering::Relaxed);
    }
}
