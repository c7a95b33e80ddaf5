//! One client: a connection, and queries one after the other.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::alarm::Alarm;
use super::pace::Pace;
use super::recorder::{Outcome, Recorder};
use super::usage::Progress;
use crate::bench::door::{Answer, Connection, Failure, Target};
use crate::bench::workload::{Query, Random, Workload};

/// How long a client waits in a closed loop when it could not connect.
const RETRY: Duration = Duration::from_millis(50);

/// State that the clients of a run share.
pub struct Shared {
    pub target: Target,
    pub workload: Arc<Workload>,
    pub pace: Pace,
    pub times: Times,
    pub recorder: Recorder,
    pub progress: Progress,
}

/// The times of a run.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// Queries due from here on are measured.
    pub from: Instant,
    /// Queries due from here on are not begun.
    pub until: Instant,
    /// Queries that are not answered by then count as unfinished.
    pub deadline: Instant,
    /// Longest wait for one answer.
    pub timeout: Duration,
}

/// A client that has connected, or will try again.
pub struct Client {
    shared: Arc<Shared>,
    connection: Option<Connection>,
    random: Random,
    alarm: Alarm,
}

impl Client {
    pub fn new(shared: Arc<Shared>, connection: Option<Connection>, random: Random) -> Self {
        let alarm = Alarm::at(shared.times.from + shared.times.timeout);
        Self { shared, connection, random, alarm }
    }

    /// Asks until no query is due any more. Returns its connection, so that the server's memory can be measured with
    /// every client connected: a server that has a process for each connection holds less without them.
    pub async fn run(mut self) -> Option<Connection> {
        let shared = Arc::clone(&self.shared);
        while let Some(due) = shared.pace.next(shared.times.until).await {
            let place = self.random.below(shared.workload.queries.len() as u64) as usize;
            let Some(query) = shared.workload.queries.get(place) else { break };
            let outcome = shared.recorder.checked(place, self.ask(query).await);
            shared.progress.count(&outcome);
            if due >= shared.times.from {
                shared.recorder.record(place, Instant::now().saturating_duration_since(due), outcome);
            }
            if self.connection.is_none() && matches!(shared.pace, Pace::Closed) {
                tokio::time::sleep(RETRY).await;
            }
        }
        self.connection
    }

    async fn ask(&mut self, query: &Query) -> Outcome {
        let now = Instant::now();
        let times = self.shared.times;
        if now >= times.deadline {
            return Outcome::Unfinished;
        }
        let limit = (now + times.timeout).min(times.deadline);
        let answer = self
            .alarm
            .within(limit, answer(&self.shared.target, &mut self.connection, query, &mut self.random))
            .await;
        match answer {
            Some(Ok(answer)) => return Outcome::Handled(answer),
            Some(Err(Failure::Refused(reason))) => return Outcome::Failed(reason),
            // A connection on which an answer is still to come cannot be used for the next.
            Some(Err(Failure::Broken(_))) | None => self.connection = None,
        }
        match answer {
            Some(Err(failure)) => Outcome::Failed(failure.to_string()),
            _ if limit == times.deadline => Outcome::Unfinished,
            _ => Outcome::TimedOut(format!("no answer within {:?}", times.timeout)),
        }
    }
}

/// Asks over `connection`; if there is none, or the server has closed it, over a new one. State that few queries need
/// is boxed: a waiting client must be small, because a thousand large ones fit no processor's cache.
async fn answer(
    target: &Target,
    connection: &mut Option<Connection>,
    query: &Query,
    random: &mut Random,
) -> Result<Answer, Failure> {
    let values = query.draw(random).map_err(|error| Failure::Refused(format!("{error:#}")))?;
    if connection.as_mut().is_some_and(Connection::has_ended) {
        *connection = None;
    }
    let connection = match connection {
        Some(connection) => connection,
        none => none.insert(Box::pin(target.connect()).await?),
    };
    connection.run(query, values).await
}
