//! Errors for people: what went wrong, and what to do next.

use std::fmt;
use std::io::{ErrorKind, Write, stderr};

use nyala_engine::QueryError;
use nyala_server::serve::ServeError;

/// An error that knows the next step.
#[derive(Debug)]
pub struct Hinted {
    message: String,
    hint: String,
}

impl Hinted {
    /// An error with the next step.
    pub fn error(message: impl Into<String>, hint: impl Into<String>) -> anyhow::Error {
        anyhow::Error::new(Self { message: message.into(), hint: hint.into() })
    }
}

impl fmt::Display for Hinted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Hinted {}

/// Writes the error to stderr. A closed stderr is ignored: there is nobody left to tell.
pub fn print(error: &anyhow::Error) {
    let _ = stderr().lock().write_all(text(error).as_bytes());
}

/// `error: …` and, where the next step is known, `hint: …`.
pub fn text(error: &anyhow::Error) -> String {
    let mut text = format!("error: {}\n", message(error));
    if let Some(hint) = hint(error) {
        text += &format!("hint: {hint}\n");
    }
    text
}

/// The error and its causes in one line, without causes that the line already tells.
fn message(error: &anyhow::Error) -> String {
    let mut message = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if message.is_empty() {
            message = cause;
        } else if !message.contains(&cause) {
            message = format!("{message}: {cause}");
        }
    }
    message
}

fn hint(error: &anyhow::Error) -> Option<String> {
    error.chain().find_map(|cause| {
        let hinted = cause.downcast_ref::<Hinted>().map(|error| error.hint.clone());
        let query = || cause.downcast_ref::<QueryError>().and_then(|error| error.hint.clone());
        let serve = || cause.downcast_ref::<ServeError>().and_then(ServeError::hint);
        hinted.or_else(query).or_else(serve)
    })
}

/// Whether the error is only that nobody reads the output any more.
pub fn is_closed_output(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn a_cause_is_told_once_and_the_hint_is_found_below_context() {
        let cause = Hinted::error("no such file", "create it");
        assert_eq!(
            text(&cause.context("cannot read `a`")),
            "error: cannot read `a`: no such file\nhint: create it\n"
        );
        let repeated = anyhow!("denied").context("cannot open `a`: denied");
        assert_eq!(text(&repeated), "error: cannot open `a`: denied\n");
    }
}
