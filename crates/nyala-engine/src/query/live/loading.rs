//! A load that a door feeds, run like any statement: listed while it runs; ended by KILL QUERY, its client or
//! its timeout; then in the query log and the audit log.

use nyala_sql::error::{ErrorKind, QueryError, Result};
use std::sync::Arc;

use crate::query::activity::{Phase, Running};
use crate::query::deadline::Deadline;
use crate::query::engine::Engine;
use crate::query::options::SessionOptions;
use crate::query::session::Session;

/// A running load. A drop before `finish` or `fail` means that the client has gone.
#[derive(Debug)]
pub struct Loading {
    engine: Arc<Engine>,
    options: Arc<SessionOptions>,
    text: String,
    deadline: Deadline,
    running: Running,
    over: bool,
}

impl Session {
    /// Begins a load, which is listed as `text`.
    pub fn begin_load(&self, text: String) -> Result<Loading> {
        self.engine.runtime.check_open()?;
        let deadline = self.own_deadline();
        let (engine, options) = (Arc::clone(&self.engine), Arc::clone(self.options()));
        let running = self.begin(&text, &deadline);
        Ok(Loading { engine, options, text, deadline, running, over: false })
    }
}

impl Loading {
    /// Runs `work`, unless the load must end first.
    pub async fn within<T>(&mut self, work: impl Future<Output = Result<T>>) -> Result<T> {
        self.running.entry().enter(Phase::Running);
        let outcome = self.deadline.within(work).await;
        self.pass(outcome)
    }

    /// The next input of the client, unless the load must end first.
    pub async fn client<T>(&mut self, next: impl Future<Output = T>) -> Result<T> {
        self.running.entry().enter(Phase::Sending);
        let outcome = self.deadline.within(async { Ok(next.await) }).await;
        self.pass(outcome)
    }

    /// Passes the outcome on; an error ends the load.
    fn pass<T>(&mut self, outcome: Result<T>) -> Result<T> {
        if let Err(error) = &outcome {
            self.fail(error);
        }
        outcome
    }

    /// The time and the token that end the load.
    pub fn deadline(&self) -> Deadline {
        self.deadline.clone()
    }

    /// Counts rows that were read.
    pub fn add_rows(&self, rows: usize) {
        self.running.entry().add_rows(rows);
    }

    /// The load is done.
    pub fn finish(mut self) {
        self.over = true;
        self.running.finish();
        self.engine.observed.audit.statement(&self.options, || self.text.clone(), true, &Ok(()));
    }

    /// The load ends with this error.
    pub fn fail(&mut self, error: &QueryError) {
        if !std::mem::replace(&mut self.over, true) {
            self.running.fail(error);
            let outcome: Result<()> = Err(error.clone());
            self.engine.observed.audit.statement(&self.options, || self.text.clone(), true, &outcome);
        }
    }
}

impl Drop for Loading {
    fn drop(&mut self) {
        if !self.over {
            let error =
                QueryError::new(ErrorKind::Cancelled, "the client ended its load before it was whole");
            self.fail(&error);
        }
    }
}
