//! The forms of the log: JSON for programs that gather logs, an object for each event, and text for people. An event is one line in both.

use std::fmt;

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Writes `{"time", "level", "target", "message", "fields"}`.
pub struct JsonLines;

impl<S, N> FormatEvent<S, N> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        let mut fields = Fields::default();
        event.record(&mut fields);
        let metadata = event.metadata();
        writeln!(writer, "{}", line(&time, metadata.level().as_str(), metadata.target(), fields.0))
    }
}

/// Writes a field of a line of text. Statements and names of clients are in some: they must neither look like further lines of the log nor
/// steer a terminal.
pub fn write_field(writer: &mut Writer<'_>, field: &Field, value: &dyn fmt::Debug) -> fmt::Result {
    if field.name() != "message" {
        write!(writer, "{}=", field.name())?;
    }
    write!(writer, "{}", without_controls(&format!("{value:?}")))
}

fn without_controls(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// The order of the keys is that of reading.
fn line(time: &str, level: &str, target: &str, mut fields: Map<String, Value>) -> String {
    let message = fields.remove("message").unwrap_or_else(|| Value::from(""));
    let [time, level, target] = [time, level, target].map(Value::from);
    let fields = Value::Object(fields);
    format!(
        "{{\"time\":{time},\"level\":{level},\"target\":{target},\"message\":{message},\"fields\":{fields}}}"
    )
}

/// The fields of an event, with its message.
#[derive(Default)]
struct Fields(Map<String, Value>);

impl Fields {
    fn set(&mut self, field: &Field, value: impl Into<Value>) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.set(field, format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.set(field, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_value_ends_a_line_of_text() {
        let check = |value: &str, expected: &str| assert_eq!(without_controls(value), expected);
        check("SELECT 'ä\\' -- 1", "SELECT 'ä\\' -- 1");
        check("SELECT\n1\r\n\tAS a", "SELECT\\n1\\r\\n\\tAS a");
        check("\u{1b}[31m\u{9b}31m", "\\u{1b}[31m\\u{9b}31m");
    }

    #[test]
    fn a_line_is_an_object_whatever_is_in_the_message() {
        let mut fields = Map::new();
        fields.insert("message".to_owned(), Value::from("a \"quoted\"\nline"));
        fields.insert("rows".to_owned(), Value::from(7));
        assert_eq!(
            line("2026-11-28T15:04:05Z", "INFO", "nyala", fields),
            r#"{"time":"2026-11-28T15:04:05Z","level":"INFO","target":"nyala","message":"a \"quoted\"\nline","fields":{"rows":7}}"#
        );
        assert!(line("", "", "", Map::new()).ends_with(r#""message":"","fields":{}}"#));
    }
}
