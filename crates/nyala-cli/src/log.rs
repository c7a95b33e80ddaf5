//! Log lines, on stderr.

use std::io::{IsTerminal, stderr};

use tracing_subscriber::EnvFilter;

use crate::args::Command;

/// Sets up logging with the filter in `NYALA_LOG` (`debug`, `nyala_engine=trace,warn`, …), or else the
/// command's default. A filter that cannot be parsed is reported and ignored.
pub fn init(command: &Command) {
    // Crate `delta_kernel` logs each step, and logs an error that the statement's client gets anyway.
    let default = match command {
        Command::Serve(_) => "info,delta_kernel=off",
        // Here the output is a conversation, and errors are part of it anyway.
        _ => "warn,delta_kernel=off",
    };
    let wanted = std::env::var("NYALA_LOG").unwrap_or_default();
    let parsed = EnvFilter::try_new(if wanted.is_empty() { default } else { &wanted });
    let invalid = parsed.as_ref().err().map(ToString::to_string);
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(parsed.unwrap_or_else(|_| EnvFilter::new(default)))
        .with_writer(stderr)
        .with_ansi(stderr().is_terminal())
        // The subscriber would report its own errors by a macro that panics if stderr fails: a log without a reader, or
        // a full disk, would close doors and end the threads of disk stores.
        .log_internal_errors(false)
        .finish();
    // Without the records of crate `log`: the parser of SQL tells it the texts of statements, and so their secrets.
    let _ = tracing::subscriber::set_global_default(subscriber);
    if let Some(error) = invalid {
        tracing::warn!(%error, "ignoring the log filter in `NYALA_LOG`");
    }
}
