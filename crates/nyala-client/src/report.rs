//! Errors for people: the failure, and the next step.

use std::fmt;

/// An error with the next step.
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

/// `error: …` and, if an error of the chain has a next step, `hint: …`.
pub fn text(error: &anyhow::Error) -> String {
    text_with(error, hint(error))
}

/// `error: …`, and the next step.
pub fn text_with(error: &anyhow::Error, hint: Option<String>) -> String {
    let mut text = format!("error: {}\n", message(error));
    if let Some(hint) = hint {
        text += &format!("hint: {hint}\n");
    }
    text
}

/// The next step, if an error of the chain has one.
pub fn hint(error: &anyhow::Error) -> Option<String> {
    error.chain().find_map(|cause| cause.downcast_ref::<Hinted>().map(|error| error.hint.clone()))
}

/// The error and its causes in one line, without causes that the line already contains.
pub fn message(error: &anyhow::Error) -> String {
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
