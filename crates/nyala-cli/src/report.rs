//! Errors for people, those of the server among them.

use std::io::{ErrorKind, Write, stderr};

use nyala_client::report::{self, text_with};
use nyala_engine::QueryError;
use nyala_server::serve::ServeError;

/// Writes the error to stderr. A closed stderr is ignored: it has no reader.
pub fn print(error: &anyhow::Error) {
    let _ = stderr().lock().write_all(text(error).as_bytes());
}

/// `error: …` and, where the next step is known, `hint: …`.
pub fn text(error: &anyhow::Error) -> String {
    text_with(error, hint(error))
}

/// The next step, if an error of the chain has one.
pub fn hint(error: &anyhow::Error) -> Option<String> {
    report::hint(error).or_else(|| server_hint(error))
}

fn server_hint(error: &anyhow::Error) -> Option<String> {
    error.chain().find_map(|cause| {
        let query = || cause.downcast_ref::<QueryError>().and_then(|error| error.hint.clone());
        query().or_else(|| cause.downcast_ref::<ServeError>().and_then(ServeError::hint))
    })
}

/// Whether the error is only that the reader closed the output.
pub fn is_closed_output(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}
