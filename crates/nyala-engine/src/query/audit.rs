//! The audit log: logins, refused logins, changes, failed changes and denied statements.
//!
//! One JSON object a line, appended to a file by a thread of its own, so that no statement waits for the disk.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::thread::{self, JoinHandle};
use std::time::{SystemTime, UNIX_EPOCH};

use nyala_sql::error::{ErrorKind, QueryError, Result};
use nyala_sql::statement::{error_of, without_secrets};
use serde::Serialize;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::options::SessionOptions;

/// Longest part of a statement that is kept, in characters.
const STATEMENT_CHARS: usize = 10_000;

/// Kind of an audited event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditEvent {
    /// A connection was opened, or a token was issued.
    Login,
    /// A client had no password or a wrong one.
    LoginRefused,
    /// A statement changed something.
    Changed,
    /// A statement that would have changed something failed.
    Failed,
    /// A statement was refused because its privilege was not granted.
    Denied,
}

/// A line of the log.
#[derive(Debug, Serialize)]
struct Line<'a> {
    time: String,
    event: AuditEvent,
    user: &'a str,
    client: &'a str,
    application: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    statement: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

/// The log; without a file it records no events.
#[derive(Debug, Default)]
pub struct Audit(Option<Writer>);

#[derive(Debug)]
struct Writer {
    /// None while the writer is being closed.
    lines: Option<UnboundedSender<String>>,
    thread: Option<JoinHandle<()>>,
}

impl Audit {
    /// Opens the file, which is made if it is missing. An empty path means no log.
    pub fn open(path: &Path) -> Result<Self> {
        if path.as_os_str().is_empty() {
            return Ok(Self(None));
        }
        let unusable = |error: std::io::Error| {
            let message = format!("the audit log `{}` cannot be opened: {error}", path.display());
            QueryError::new(ErrorKind::Unreadable, message)
                .hint("set `server.audit_log` to a file in a folder that exists")
        };
        let file = options().open(path).map_err(unusable)?;
        let torn = is_torn(path);
        let (lines, received) = unbounded_channel();
        let work = move || write_all(file, received, torn);
        let thread = thread::Builder::new().name("nyala-audit".to_owned()).spawn(work).map_err(unusable)?;
        Ok(Self(Some(Writer { lines: Some(lines), thread: Some(thread) })))
    }

    fn record(&self, line: &Line<'_>) {
        let Some(lines) = self.0.as_ref().and_then(|writer| writer.lines.as_ref()) else { return };
        let taken = serde_json::to_string(line).is_ok_and(|text| lines.send(text).is_ok());
        if !taken {
            tracing::error!(?line, "the audit log has not taken a line");
        }
    }
}

/// Only the server's user may read the file.
fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Whether the last line of the file is incomplete, as after a full disk.
fn is_torn(path: &Path) -> bool {
    let last_byte = || {
        let mut file = File::open(path).ok()?;
        let mut last = [b'\n'];
        file.seek(SeekFrom::End(-1)).ok()?;
        file.read_exact(&mut last).ok()?;
        Some(last[0])
    };
    last_byte().is_some_and(|last| last != b'\n')
}

fn write_all(mut file: impl Write, mut lines: UnboundedReceiver<String>, mut torn: bool) {
    while let Some(line) = lines.blocking_recv() {
        // A line that a full disk cut short must not spoil the next one.
        let begin = if torn { "\n" } else { "" };
        let written = file.write_all(format!("{begin}{line}\n").as_bytes());
        torn = written.is_err();
        if let Err(error) = written {
            // The server's own log keeps the line instead.
            tracing::error!(%error, line, "the audit log cannot be written");
        }
    }
}

impl Drop for Writer {
    /// Waits until every line is written.
    fn drop(&mut self) {
        self.lines = None;
        if let Some(thread) = self.thread.take() {
            // The thread has ended, and a panic in it no longer matters.
            let _ = thread.join();
        }
    }
}

impl Audit {
    /// Records a login, or a refused login with its reason.
    pub fn login(&self, options: &SessionOptions, refused: Option<&str>) {
        let event = if refused.is_some() { AuditEvent::LoginRefused } else { AuditEvent::Login };
        // The client's texts have not been truncated yet.
        self.record(&line(&options.clone().cut(), event, None, refused));
    }

    /// Records a statement that changes something, or was denied.
    pub fn statement<T>(
        &self,
        options: &SessionOptions,
        statement: impl FnOnce() -> String,
        changes: bool,
        outcome: &Result<T>,
    ) {
        let event = match outcome {
            Err(error) if error.kind == ErrorKind::PermissionDenied => AuditEvent::Denied,
            Err(_) if changes => AuditEvent::Failed,
            Ok(_) if changes => AuditEvent::Changed,
            _ => return,
        };
        if self.0.is_none() {
            return;
        }
        let whole = statement();
        let text = without_secrets(&whole).chars().take(STATEMENT_CHARS).collect();
        let error = outcome.as_ref().err().map(|error| error_of(&whole, error));
        self.record(&line(options, event, Some(text), error.as_deref()));
    }
}

fn line<'a>(
    options: &'a SessionOptions,
    event: AuditEvent,
    statement: Option<String>,
    error: Option<&'a str>,
) -> Line<'a> {
    let SessionOptions { user, application, client, .. } = options;
    Line { time: now(), event, user, client, application, statement, error }
}

fn now() -> String {
    let ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_millis());
    let time = i64::try_from(ms).ok().and_then(chrono::DateTime::from_timestamp_millis).unwrap_or_default();
    time.format("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::io;

    use super::*;

    /// A file on a disk that is full for a while.
    struct Disk<'a> {
        written: &'a mut String,
        writes: usize,
    }

    impl Write for Disk<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.writes += 1;
            let taken = match self.writes {
                2 => bytes.len() / 2,
                3 => return Err(io::ErrorKind::StorageFull.into()),
                _ => bytes.len(),
            };
            self.written.push_str(std::str::from_utf8(bytes).unwrap().get(..taken).unwrap());
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_that_was_cut_spoils_no_other() {
        let (lines, received) = unbounded_channel();
        for line in ["{1}", "{2}", "{3}"] {
            lines.send(line.to_owned()).unwrap();
        }
        drop(lines);
        let mut written = String::new();
        write_all(Disk { written: &mut written, writes: 0 }, received, false);
        assert_eq!(written.lines().collect::<Vec<_>>(), ["{1}", "{2", "{3}"]);

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        for (before, torn) in [("", false), ("{1}\n", false), ("{1}\n{2", true)] {
            std::fs::write(&path, before).unwrap();
            assert_eq!(is_torn(&path), torn, "{before}");
        }
    }
}
