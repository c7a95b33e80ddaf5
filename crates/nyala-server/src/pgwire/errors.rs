//! Failures as PostgreSQL clients see them: severity, SQLSTATE, message, hint.

use nyala_engine::{ErrorKind, QueryError};
use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::response::{ErrorResponse, NoticeResponse};

use super::position::place_of;
use super::words;

/// SQLSTATE codes the door uses on its own account.
///
/// Source: PostgreSQL documentation, appendix A, "Error Codes".
pub mod sqlstate {
    pub const SUCCESSFUL_COMPLETION: &str = "00000";
    pub const WARNING: &str = "01000";
    pub const PROTOCOL_VIOLATION: &str = "08P01";
    pub const FEATURE_NOT_SUPPORTED: &str = "0A000";
    pub const INVALID_CHARACTERS: &str = "22021";
    pub const INVALID_PARAMETER_VALUE: &str = "22023";
    pub const INVALID_TEXT: &str = "22P02";
    pub const INVALID_TIME: &str = "22007";
    pub const INVALID_BINARY: &str = "22P03";
    pub const ACTIVE_TRANSACTION: &str = "25001";
    pub const NO_ACTIVE_TRANSACTION: &str = "25P01";
    pub const FAILED_TRANSACTION: &str = "25P02";
    pub const IDLE_IN_TRANSACTION: &str = "25P03";
    pub const INVALID_STATEMENT_NAME: &str = "26000";
    pub const INVALID_AUTHORIZATION: &str = "28000";
    pub const INVALID_PASSWORD: &str = "28P01";
    pub const INVALID_CURSOR_NAME: &str = "34000";
    pub const INVALID_CATALOG: &str = "3D000";
    pub const INVALID_SAVEPOINT: &str = "3B001";
    pub const SYNTAX_ERROR: &str = "42601";
    pub const DUPLICATE_CURSOR: &str = "42P03";
    pub const DUPLICATE_STATEMENT: &str = "42P05";
    pub const UNDEFINED_OBJECT: &str = "42704";
    pub const UNDEFINED_PARAMETER: &str = "42P02";
    pub const TOO_MANY_CONNECTIONS: &str = "53300";
    pub const LIMIT_EXCEEDED: &str = "53400";
    pub const PROGRAM_LIMIT_EXCEEDED: &str = "54000";
    pub const READ_ONLY_SETTING: &str = "55P02";
    pub const READ_ONLY_TRANSACTION: &str = "25006";
    pub const QUERY_CANCELED: &str = "57014";
    pub const ADMIN_SHUTDOWN: &str = "57P01";
    pub const IDLE_SESSION: &str = "57P05";
    pub const INTERNAL: &str = "XX000";
}

/// The scope of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// The failure ends nothing, and only informs the client.
    Notice,
    /// The failure ends nothing, but the statement may be a mistake.
    Warning,
    /// The failure ends the statement, and the transaction around it.
    Error,
    /// The failure ends the connection.
    Fatal,
}

impl Severity {
    fn text(self) -> &'static str {
        match self {
            Self::Notice => "NOTICE",
            Self::Warning => "WARNING",
            Self::Error => "ERROR",
            Self::Fatal => "FATAL",
        }
    }
}

/// One failure, ready to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    pub severity: Severity,
    pub sqlstate: &'static str,
    pub message: String,
    pub hint: Option<String>,
    /// Place in the text of the statement, in characters from 1.
    pub position: Option<usize>,
    /// The function of PostgreSQL that reports this failure: some drivers know failures by it.
    pub routine: Option<&'static str>,
}

impl Failure {
    /// A failure of one statement.
    pub fn error(sqlstate: &'static str, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            sqlstate,
            message: message.into(),
            hint: None,
            position: None,
            routine: None,
        }
    }

    /// A failure that closes the connection.
    pub fn fatal(sqlstate: &'static str, message: impl Into<String>) -> Self {
        Self { severity: Severity::Fatal, ..Self::error(sqlstate, message) }
    }

    /// A warning: the statement went well, but may be a mistake.
    pub fn warning(sqlstate: &'static str, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(sqlstate, message) }
    }

    /// Information for the client.
    pub fn notice(message: String) -> Self {
        let state = match message.ends_with("already exists, skipping") {
            true if message.starts_with("schema") => "42P06",
            true => "42P07",
            false => sqlstate::SUCCESSFUL_COMPLETION,
        };
        Self { severity: Severity::Notice, ..Self::error(state, message) }
    }

    /// The failure of a prepared statement whose columns have changed since its client was told them. Drivers know it by these words, or
    /// by the routine, and prepare the statement again.
    pub fn changed_columns() -> Self {
        Self {
            routine: Some("RevalidateCachedQuery"),
            ..Self::error(sqlstate::FEATURE_NOT_SUPPORTED, "cached plan must not change result type")
        }
        .hint("prepare the statement again")
    }

    /// The failure of a message that violates the protocol. The bytes after it cannot be trusted.
    pub fn protocol(message: impl Into<String>) -> Self {
        Self::fatal(sqlstate::PROTOCOL_VIOLATION, message)
    }

    /// Adds advice for the user.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Whether it is sent to a client whose `client_min_messages` is `level`.
    pub fn is_wanted(&self, level: Option<&str>) -> bool {
        match self.severity {
            Severity::Notice => !matches!(level, Some("warning" | "error")),
            Severity::Warning => level != Some("error"),
            _ => true,
        }
    }

    /// Whether the failure ends the connection.
    pub fn is_fatal(&self) -> bool {
        self.severity == Severity::Fatal
    }

    /// The message to send: a notice for warnings, an error otherwise.
    pub fn into_message(self) -> PgWireBackendMessage {
        let warning = matches!(self.severity, Severity::Warning | Severity::Notice);
        let severity = self.severity.text().to_owned();
        let mut fields = vec![
            (b'S', severity.clone()),
            (b'V', severity),
            (b'C', self.sqlstate.to_owned()),
            (b'M', without_nul(words::message(self.sqlstate, &self.message))),
        ];
        fields.extend(words::places(self.sqlstate, &self.message));
        fields.extend(words::detail(self.sqlstate, &self.message).map(|detail| (b'D', without_nul(detail))));
        fields.extend(self.hint.map(|hint| (b'H', without_nul(hint))));
        fields.extend(self.position.map(|position| (b'P', position.to_string())));
        fields.extend(self.routine.map(|routine| (b'R', routine.to_owned())));
        if warning {
            PgWireBackendMessage::NoticeResponse(NoticeResponse::new(fields))
        } else {
            PgWireBackendMessage::ErrorResponse(ErrorResponse::new(fields))
        }
    }
}

impl From<QueryError> for Failure {
    fn from(error: QueryError) -> Self {
        Self {
            severity: Severity::Error,
            sqlstate: sqlstate_of(&error),
            message: error.message,
            hint: error.hint,
            position: None,
            routine: None,
        }
    }
}

/// The SQLSTATE of a failure.
pub fn sqlstate_of(error: &QueryError) -> &'static str {
    error.sqlstate.unwrap_or_else(|| sqlstate_of_kind(error.kind))
}

/// The one table from error kinds to SQLSTATE.
fn sqlstate_of_kind(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Syntax => sqlstate::SYNTAX_ERROR,
        ErrorKind::UndefinedTable => "42P01",
        ErrorKind::UndefinedColumn => "42703",
        ErrorKind::AmbiguousColumn => "42702",
        ErrorKind::UndefinedObject => sqlstate::UNDEFINED_OBJECT,
        ErrorKind::DuplicateTable => "42P07",
        ErrorKind::DuplicateColumn => "42701",
        ErrorKind::DuplicateSchema => "42P06",
        ErrorKind::DuplicateObject => "42710",
        ErrorKind::InvalidDefinition => "42P17",
        ErrorKind::InvalidTableDefinition => "42P16",
        ErrorKind::InvalidParameter => sqlstate::INVALID_PARAMETER_VALUE,
        ErrorKind::InvalidText => "42804",
        ErrorKind::Data => "22000",
        ErrorKind::InvalidValue => sqlstate::INVALID_TEXT,
        ErrorKind::InvalidTime => "22007",
        ErrorKind::OutOfRange => "22003",
        ErrorKind::Cardinality => "21000",
        ErrorKind::DivisionByZero => "22012",
        ErrorKind::NullValue => "23502",
        ErrorKind::TooLong => "22001",
        ErrorKind::Unsupported => sqlstate::FEATURE_NOT_SUPPORTED,
        ErrorKind::LimitExceeded => "54001",
        ErrorKind::ResourcesExhausted => "53200",
        ErrorKind::TooManyQueries => "53300",
        ErrorKind::DiskFull => "53100",
        ErrorKind::Cancelled | ErrorKind::Timeout => sqlstate::QUERY_CANCELED,
        // Also where a store did not answer, and a later try may succeed: drivers take the codes of class 08 for the end of their
        // connection.
        ErrorKind::Unreadable => "58030",
        ErrorKind::Changed => "40001",
        ErrorKind::Corrupt => "XX001",
        ErrorKind::PermissionDenied => "42501",
        ErrorKind::InUse => "55006",
        ErrorKind::Needed => "2BP01",
        ErrorKind::WrongObject => "42809",
        ErrorKind::Conflict => "40001",
        ErrorKind::ReadOnly => "25006",
        ErrorKind::Unconfirmed => "08007",
        ErrorKind::Gone => "55000",
        ErrorKind::ShuttingDown => sqlstate::ADMIN_SHUTDOWN,
        // The kinds may grow; a kind that is missing in this table is a fault of the server.
        _ => sqlstate::INTERNAL,
    }
}

/// Fields end at the first NUL, so a message must not hold one.
fn without_nul(text: String) -> String {
    if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text }
}

/// Why the handling of a message ended early.
#[derive(Debug)]
pub enum Stop {
    /// The client is told; whether the connection goes on depends on the severity.
    Failure(Failure),
    /// The client went away, so it cannot be told.
    Gone,
}

impl Stop {
    /// Adds the failure's place in the client's text, if it is known: psql draws a caret there.
    #[must_use]
    pub fn within(self, sql: &str) -> Self {
        match self {
            Self::Failure(failure) => {
                let position = failure.position.or_else(|| place_of(&failure, sql));
                let message = words::as_named(failure.sqlstate, failure.message, sql);
                Self::Failure(Failure { position, message, ..failure })
            }
            Self::Gone => Self::Gone,
        }
    }
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl From<QueryError> for Stop {
    fn from(error: QueryError) -> Self {
        Self::Failure(error.into())
    }
}

impl From<std::io::Error> for Stop {
    fn from(_: std::io::Error) -> Self {
        Self::Gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_map_to_the_codes_clients_test_for() {
        let check = |kind, code| assert_eq!(sqlstate_of_kind(kind), code);
        check(ErrorKind::Syntax, "42601");
        check(ErrorKind::UndefinedTable, "42P01");
        check(ErrorKind::UndefinedColumn, "42703");
        check(ErrorKind::AmbiguousColumn, "42702");
        check(ErrorKind::Cancelled, "57014");
        check(ErrorKind::Internal, "XX000");
    }

    #[test]
    fn a_nul_cannot_cut_a_message_short() {
        assert_eq!(without_nul("a\0b".to_owned()), "a\u{fffd}b");
    }
}
