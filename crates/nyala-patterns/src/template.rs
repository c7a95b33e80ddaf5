//! A compiled pattern for dates, times and intervals.

use super::error::PatternError;
use super::moment::Moment;
use super::number_template::NumberTemplate;
use super::read::Read;
use super::span::Span;
use super::times_read::read_fields;
use super::times_resolve::resolve;
use super::times_write::{Parts, write_nodes};
use super::tokens::{Node, cut};

/// A pattern of `to_char(timestamp | interval, text)`, `to_date` and `to_timestamp`.
///
/// A template is immutable and may be shared by threads. Writing and reading do not look at the clock, at the
/// locale or at a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    nodes: Vec<Node>,
    is_empty: bool,
}

impl Template {
    /// A longer pattern is refused (54000). A compiled template takes about 24 bytes for each of its
    /// pattern's, so this bounds the memory that one text can claim.
    pub const MAX_PATTERN_BYTES: usize = 1 << 20;

    /// Compiles a pattern for dates and times. Fields it does not know are copied when it writes.
    pub fn for_times(pattern: &str) -> Result<Self, PatternError> {
        check_length(pattern)?;
        Ok(Self { nodes: cut(pattern), is_empty: pattern.is_empty() })
    }

    /// Compiles a pattern for intervals, and refuses (22007) the fields that only a date has.
    pub fn for_intervals(pattern: &str) -> Result<Self, PatternError> {
        let template = Self::for_times(pattern)?;
        template.check_spans()?;
        Ok(template)
    }

    /// Compiles a pattern for numbers. Its errors (42601, 22003) are those of [`NumberTemplate`].
    pub fn for_numbers(pattern: &str) -> Result<NumberTemplate, PatternError> {
        check_length(pattern)?;
        NumberTemplate::compile(pattern)
    }

    /// Whether the pattern is the empty text, for which PostgreSQL's `to_char` gives NULL.
    pub fn is_empty(&self) -> bool {
        self.is_empty
    }

    /// Appends a date and time: `to_char(timestamp, text)`.
    pub fn write(&self, moment: &Moment, out: &mut String) {
        write_nodes(&self.nodes, &Parts::of_moment(moment), out);
    }

    /// Appends an interval: `to_char(interval, text)`.
    ///
    /// Nothing is appended where the pattern has a field that only a date has (22007).
    pub fn write_span(&self, span: &Span, out: &mut String) -> Result<(), PatternError> {
        self.check_spans()?;
        write_nodes(&self.nodes, &Parts::of_span(span), out);
        Ok(())
    }

    /// Reads a date and time, without the limits of a type. [`Self::read_date`] and
    /// [`Self::read_timestamp`] add them.
    ///
    /// Fields that the pattern lacks are those of 1 January 1 BC 00:00:00. A day past the end of its month,
    /// which PostgreSQL lets pass where the year is not given, is a day of the next month.
    pub fn read(&self, text: &str) -> Result<Read, PatternError> {
        resolve(read_fields(&self.nodes, text)?, text)
    }

    /// Reads a date: `to_date(text, text)`. The time of day is read and checked too, but has no part in a date.
    pub fn read_date(&self, text: &str) -> Result<Read, PatternError> {
        let read = self.read(text)?;
        if read.is_date() {
            return Ok(read);
        }
        Err(PatternError::overflow(format!("date out of range: \"{text}\"")))
    }

    /// Reads a timestamp: `to_timestamp(text, text)`. The last of the fields `FF1` to `FF6` rounds it.
    ///
    /// Where the text has no offset, the caller's time zone decides the instant; the limits of the type are
    /// checked here as if that zone were UTC.
    pub fn read_timestamp(&self, text: &str) -> Result<Read, PatternError> {
        let out_of_range = || PatternError::overflow("timestamp out of range");
        self.read(text)?.rounded_timestamp().ok_or_else(out_of_range)
    }

    fn check_spans(&self) -> Result<(), PatternError> {
        let is_of_dates = |node: &Node| matches!(node, Node::Field(field) if !field.key.is_of_spans());
        if self.nodes.iter().any(is_of_dates) {
            return Err(PatternError::format("invalid format specification for an interval value")
                .hint("Intervals are not tied to specific calendar dates."));
        }
        Ok(())
    }
}

fn check_length(pattern: &str) -> Result<(), PatternError> {
    if pattern.len() <= Template::MAX_PATTERN_BYTES {
        return Ok(());
    }
    let message = format!("pattern has {} bytes, the most is {}", pattern.len(), Template::MAX_PATTERN_BYTES);
    Err(PatternError::new("54000", message))
}
