//! Log lines, on stderr.

use std::io::{IsTerminal, stderr};

use tracing::subscriber::set_global_default;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::fmt::format::debug_fn;

use crate::args::Command;
use crate::log_lines::{JsonLines, write_field};

/// Sets up logging with the filter in `NYALA_LOG` (`debug`, `nyala_engine=trace,warn`, …), or else the
/// command's default, in the form that `NYALA_LOG_FORMAT` names. A filter that cannot be parsed and a form that is not known are reported
/// and ignored.
pub fn init(command: &Command) {
    // Crate `delta_kernel` logs each step, and logs an error that the statement's client gets anyway.
    let default = match command {
        Command::Serve(_) => "info,delta_kernel=off",
        // The output of other commands is a conversation, which shows errors anyway.
        _ => "warn,delta_kernel=off",
    };
    let wanted = std::env::var("NYALA_LOG").unwrap_or_default();
    let parsed = EnvFilter::try_new(if wanted.is_empty() { default } else { &wanted });
    let invalid = parsed.as_ref().err().map(ToString::to_string);
    let builder = tracing_subscriber::fmt()
        .with_env_filter(parsed.unwrap_or_else(|_| EnvFilter::new(default)))
        .with_writer(stderr)
        // The subscriber would report its own errors by a macro that panics if stderr fails: a log without a reader, or
        // a full disk, would close doors and end the threads of disk stores.
        .log_internal_errors(false);
    let form = std::env::var("NYALA_LOG_FORMAT").unwrap_or_default();
    // The records of crate `log` are left out: the parser of SQL logs the texts of statements, and so their secrets.
    let _ = if form == "json" {
        set_global_default(builder.event_format(JsonLines).finish())
    } else {
        let fields = debug_fn(write_field).delimited(" ");
        set_global_default(builder.with_ansi(stderr().is_terminal()).fmt_fields(fields).finish())
    };
    if let Some(error) = invalid {
        tracing::warn!(%error, "ignoring the log filter in `NYALA_LOG`");
    }
    if !matches!(form.as_str(), "" | "text" | "json") {
        tracing::warn!(form, "ignoring `NYALA_LOG_FORMAT`, which may be `text` or `json`");
    }
}
