//! Outcomes and latencies of the queries of a run.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Result;
use hdrhistogram::Histogram;

use crate::bench::door::Answer;

/// Longest time that is recorded: longer times count as this one.
const MAX_LATENCY: Duration = Duration::from_secs(3600);
/// Digits of a time that are kept.
const DIGITS: u8 = 3;
/// Most different messages that are kept; further ones are only counted.
const MESSAGES: usize = 20;

/// Times in microseconds.
#[derive(Debug, Clone)]
pub struct Latencies(Histogram<u64>);

impl Latencies {
    fn new() -> Result<Self> {
        Ok(Self(Histogram::new_with_max(MAX_LATENCY.as_micros() as u64, DIGITS)?))
    }

    fn record(&mut self, time: Duration) {
        self.0.saturating_record(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    }

    /// Number of the times.
    #[cfg(test)]
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// Mean of the times, in milliseconds.
    pub fn mean_ms(&self) -> f64 {
        self.0.mean() / 1000.0
    }

    /// The time in milliseconds within which this share of the queries lies; a `quantile` of 1 gives the longest.
    pub fn quantile_ms(&self, quantile: f64) -> f64 {
        self.0.value_at_quantile(quantile) as f64 / 1000.0
    }

    /// Number of the times that are at least this long.
    #[cfg(test)]
    pub fn count_from(&self, time: Duration) -> u64 {
        self.0.count_between(time.as_micros() as u64, u64::MAX)
    }

    fn add(&mut self, other: &Self) -> Result<()> {
        Ok(self.0.add(&other.0)?)
    }
}

/// Counts and latencies of one query, or of all.
#[derive(Debug, Clone)]
pub struct Tally {
    /// Answered queries, from when they were due to the end of the answer; and those that were not answered
    /// when the run ended, with the time they had waited.
    pub latencies: Latencies,
    /// Queries that were answered without an error.
    pub handled: u64,
    /// Queries that were answered by an error, or not in time, or lost with the connection.
    pub errors: u64,
    /// Queries that were not answered when the run ended.
    pub unfinished: u64,
    /// Rows of all answers.
    pub rows: u64,
}

impl Tally {
    fn new() -> Result<Self> {
        Ok(Self { latencies: Latencies::new()?, handled: 0, errors: 0, unfinished: 0, rows: 0 })
    }

    /// Adds the counts and latencies of `other`.
    pub fn add(&mut self, other: &Self) -> Result<()> {
        self.latencies.add(&other.latencies)?;
        self.handled += other.handled;
        self.errors += other.errors;
        self.unfinished += other.unfinished;
        self.rows += other.rows;
        Ok(())
    }
}

/// How a query ended.
#[derive(Debug)]
pub enum Outcome {
    /// The query was answered.
    Handled(Answer),
    /// The query ended with an error.
    Failed(String),
    /// The query ended with an error, because it took too long.
    TimedOut(String),
    /// The query did not end.
    Unfinished,
}

/// Records the outcomes that clients report.
pub struct Recorder {
    queries: Vec<Mutex<Tally>>,
    /// Columns of each query's answers: the first answer decides for the others.
    columns: Vec<Mutex<Option<usize>>>,
    messages: Mutex<BTreeMap<String, u64>>,
}

impl Recorder {
    /// A recorder for so many queries.
    pub fn new(queries: usize) -> Result<Self> {
        Ok(Self {
            queries: (0..queries).map(|_| Tally::new().map(Mutex::new)).collect::<Result<_>>()?,
            columns: (0..queries).map(|_| Mutex::new(None)).collect(),
            messages: Mutex::default(),
        })
    }

    /// Records how a query ended, `waited` after it was due.
    pub fn record(&self, query: usize, waited: Duration, outcome: Outcome) {
        let Some(tally) = self.queries.get(query) else { return };
        let mut tally = lock(tally);
        match outcome {
            Outcome::Handled(answer) => {
                tally.latencies.record(waited);
                tally.handled += 1;
                tally.rows += answer.rows;
            }
            Outcome::Failed(message) => {
                tally.errors += 1;
                self.note(message);
            }
            Outcome::TimedOut(message) => {
                // Such queries are the slowest of all: without them a server that stalls would have no slow answer.
                tally.latencies.record(waited);
                tally.errors += 1;
                self.note(message);
            }
            Outcome::Unfinished => {
                tally.latencies.record(waited);
                tally.unfinished += 1;
            }
        }
    }

    /// The outcome, or an error: all answers of a query have as many columns as the first.
    pub fn checked(&self, query: usize, outcome: Outcome) -> Outcome {
        let (Outcome::Handled(Answer { columns: Some(found), .. }), Some(known)) =
            (&outcome, self.columns.get(query))
        else {
            return outcome;
        };
        match *lock(known).get_or_insert(*found) {
            known if known != *found => {
                Outcome::Failed(format!("an answer of {found} columns, after one of {known}"))
            }
            _ => outcome,
        }
    }

    fn note(&self, message: String) {
        let mut messages = lock(&self.messages);
        let known = messages.contains_key(&message) || messages.len() < MESSAGES;
        let message = if known { message } else { "other errors".to_owned() };
        *messages.entry(message).or_default() += 1;
    }

    /// The tally of each query.
    pub fn queries(&self) -> Vec<Tally> {
        self.queries.iter().map(|tally| lock(tally).clone()).collect()
    }

    /// The tally of all queries.
    pub fn total(&self) -> Result<Tally> {
        let mut total = Tally::new()?;
        for tally in &self.queries {
            total.add(&lock(tally))?;
        }
        Ok(total)
    }

    /// Messages of errors, and how often each came.
    pub fn messages(&self) -> BTreeMap<String, u64> {
        lock(&self.messages).clone()
    }
}

/// A client that panicked leaves no partial record: each change under a lock is complete.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;

    #[test]
    fn errors_are_counted_apart_and_waiting_counts() {
        let recorder = Recorder::new(2).unwrap();
        let answer = |query, columns| {
            recorder.checked(query, Outcome::Handled(Answer { columns: Some(columns), rows: 5 }))
        };
        recorder.record(0, Duration::from_millis(10), answer(0, 2));
        recorder.record(0, Duration::from_millis(20), answer(0, 3));
        recorder.record(1, Duration::from_millis(30), answer(1, 3));
        recorder.record(1, Duration::from_millis(40), Outcome::Failed("no".to_owned()));
        recorder.record(1, Duration::from_millis(50), Outcome::Unfinished);
        recorder.record(1, Duration::from_millis(70), Outcome::TimedOut("late".to_owned()));
        let total = recorder.total().unwrap();
        assert_eq!((total.handled, total.errors, total.unfinished, total.rows), (2, 3, 1, 10));
        assert_eq!(total.latencies.count(), 4);
        assert!((total.latencies.mean_ms() - 40.0).abs() < 0.1, "{}", total.latencies.mean_ms());
        assert!((total.latencies.quantile_ms(1.0) - 70.0).abs() < 0.1);
        let messages: Vec<_> = recorder.messages().into_iter().collect();
        assert_eq!(
            messages,
            [("an answer of 3 columns, after one of 2", 1), ("late", 1), ("no", 1)]
                .map(|(message, count)| (message.to_owned(), count))
        );
        assert_eq!(recorder.queries()[0].errors, 1);
    }
}
