//! The result of one check.

use nyala_client::report::message;

use crate::report::hint;

/// What a result means for a server that starts here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Nothing to do.
    Ok,
    /// The server starts, and may run worse than it could.
    Warning,
    /// The server does not start, or its clients cannot use it.
    Failed,
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// The file, address or limit that was checked, in a word or two.
    pub subject: &'static str,
    /// What the result means.
    pub state: State,
    /// The value or the fault that the check has found.
    pub found: String,
    /// What to do next; none if there is nothing to do, or if `found` tells it.
    pub next: Option<String>,
}

impl Check {
    /// A result with nothing to do.
    pub fn ok(subject: &'static str, found: impl Into<String>) -> Self {
        Self { subject, state: State::Ok, found: found.into(), next: None }
    }

    /// A result with which the server starts, but `next` had better be done.
    pub fn warning(subject: &'static str, found: impl Into<String>, next: impl Into<String>) -> Self {
        Self { subject, state: State::Warning, found: found.into(), next: Some(next.into()) }
    }

    /// A result with which the server does not work before `next` is done.
    pub fn failed(subject: &'static str, found: impl Into<String>, next: impl Into<String>) -> Self {
        Self { subject, state: State::Failed, found: found.into(), next: Some(next.into()) }
    }

    /// A warning that an address was not tried, because a server may be about to listen there.
    pub fn not_tried(subject: &'static str) -> Self {
        Self::warning(
            subject,
            "not tried: a server may be starting in the data folder, and would find them taken",
            "check again when no process uses the data folder",
        )
    }

    /// The result of an error that the server would fail with.
    pub fn error(subject: &'static str, error: impl Into<anyhow::Error>) -> Self {
        let error = error.into();
        Self { subject, state: State::Failed, found: message(&error), next: hint(&error) }
    }
}
