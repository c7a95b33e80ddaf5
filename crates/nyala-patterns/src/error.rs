//! Errors, with PostgreSQL's words and codes.

use std::fmt;

/// Why a pattern was refused, or why a value does not fit it.
///
/// `sqlstate`, `message`, `detail` and `hint` are what PostgreSQL 15 sends for the same call, so a caller
/// forwards them as they are. The classes: 22007 and 22008 (a text that does not fit its pattern), 22009 (a
/// time zone's displacement), 22003 and 22P02 (numbers), 42601 (a number pattern that contradicts itself),
/// 0A000 (a field that only writes), 54000 (a pattern over [`crate::Template::MAX_PATTERN_BYTES`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatternError {
    /// The five-character code.
    pub sqlstate: &'static str,
    /// The primary message.
    pub message: String,
    /// The secondary message, where PostgreSQL sends one.
    pub detail: Option<String>,
    /// The advice, where PostgreSQL sends one.
    pub hint: Option<&'static str>,
}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for PatternError {}

impl PatternError {
    pub(super) fn new(sqlstate: &'static str, message: impl Into<String>) -> Self {
        Self { sqlstate, message: message.into(), detail: None, hint: None }
    }

    pub(super) fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    pub(super) fn hint(mut self, hint: &'static str) -> Self {
        self.hint = Some(hint);
        self
    }

    /// 22007: the text or the pattern is not a well-formed date or time.
    pub(super) fn format(message: impl Into<String>) -> Self {
        Self::new("22007", message)
    }

    /// 22008: a field holds a number that no date or time has.
    pub(super) fn overflow(message: impl Into<String>) -> Self {
        Self::new("22008", message)
    }

    /// 22008, about the whole text: a field was read, but no date or time has its value.
    pub(super) fn field_overflow(text: &str) -> Self {
        Self::overflow(format!("date/time field value out of range: \"{text}\""))
    }

    /// 22003: a number needs more room than its type has.
    pub(super) fn numeric(message: &str) -> Self {
        Self::new("22003", message)
    }

    /// 42601: the parts of a number pattern contradict each other.
    pub(super) fn syntax(message: &str) -> Self {
        Self::new("42601", message)
    }

    /// 0A000: the field is known, but not for this direction.
    pub(super) fn unsupported(message: impl Into<String>) -> Self {
        Self::new("0A000", message)
    }
}
