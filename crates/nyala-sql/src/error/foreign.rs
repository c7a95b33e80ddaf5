//! Converts errors of libraries to ours: recovered by type, through any number of layers.

use arrow::error::ArrowError;
use datafusion::common::{DataFusionError, SchemaError};
use datafusion::sql::sqlparser::parser::ParserError;
use nyala_model::suggest::nearest;
use nyala_runtime::Ended;
use nyala_storage::StorageError;
use nyala_storage::folder_backup::BackupError;
use nyala_storage::object::{FileChanged, refusal};
use parquet::errors::ParquetError;

use super::words::{overflown, sql_name, unread, unread_text};
use super::{ErrorKind, QueryError};

/// Part of the message that the resource group of a query, and not the memory pool, is at its limit (`query/resources/memory.rs`).
const GROUP_IS_FULL: &str = "bytes that resource group";
/// DataFusion's text for too much spilling. It hides in an I/O error, and names a setting that users cannot change
/// here.
const TOO_MUCH_SPILLED: &str = "spilling process has exceeded the allowable limit";

/// Parts of the messages of casts that a number does not fit its type.
const OUT_OF_RANGE: [&str; 3] = ["Can't cast value ", " is out of range ", "Overflowing on "];
/// Parts of Arrow's messages that a number does not fit its decimal type.
const IS_TOO_LARGE: [&str; 2] = ["is too large to store in a", "is too small to store in a"];

/// Parts of DataFusion's messages about calls that must not be nested, with PostgreSQL's codes.
const NESTED: [(&str, &str); 3] = [
    ("Aggregate function calls cannot be nested", "42803"),
    ("Aggregate function calls cannot contain window function calls", "42803"),
    ("Window function calls cannot be nested", "42P20"),
];

/// DataFusion's message about a subquery that stands for one value and has several rows.
const SEVERAL_ROWS: &str = "Scalar subquery returned more than one row";

pub fn from_datafusion(error: &DataFusionError) -> QueryError {
    match error {
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => from_datafusion(inner),
        DataFusionError::Shared(inner) => from_datafusion(inner),
        DataFusionError::Collection(errors) => errors
            .first()
            .map_or_else(|| QueryError::internal("an empty collection of errors"), from_datafusion),
        DataFusionError::SQL(inner, _) if matches!(**inner, ParserError::RecursionLimitExceeded) => {
            QueryError::new(ErrorKind::LimitExceeded, "statement is nested too deeply")
                .hint("split it with common table expressions")
        }
        DataFusionError::SQL(inner, _) => QueryError::new(ErrorKind::Syntax, tidy(&inner.to_string())),
        DataFusionError::ArrowError(inner, _) => from_arrow(inner),
        DataFusionError::SchemaError(inner, _) => from_schema(inner),
        DataFusionError::ParquetError(inner) => from_parquet(inner),
        DataFusionError::ObjectStore(inner) => from_object_store(inner),
        DataFusionError::IoError(inner) => from_io(inner),
        DataFusionError::NotImplemented(text) => QueryError::new(ErrorKind::Unsupported, tidy(text)),
        DataFusionError::Plan(text) => from_plan_text(text),
        DataFusionError::Configuration(text) => QueryError::new(ErrorKind::InvalidParameter, tidy(text)),
        DataFusionError::Execution(text) if text == SEVERAL_ROWS => QueryError::several_rows(),
        DataFusionError::Execution(text) => QueryError::new(ErrorKind::Data, tidy(text)),
        DataFusionError::ResourcesExhausted(text) => {
            let hint = match text.contains(GROUP_IS_FULL) {
                true => "ask for less at a time, or raise `query_memory_bytes` of the group",
                false => "ask for less at a time, or raise `query.memory_limit_bytes`",
            };
            QueryError::new(ErrorKind::ResourcesExhausted, format!("not enough memory: {}", tidy(text)))
                .hint(hint)
        }
        DataFusionError::External(inner) => from_external(inner.as_ref()),
        DataFusionError::Internal(text) if text.contains("failed to match any signature") => {
            let what = text.split(", errors:").next().unwrap_or(text);
            QueryError::new(ErrorKind::InvalidText, tidy(what))
                .hint("cast the arguments to types that it takes")
        }
        other => QueryError::internal(other),
    }
}

/// Looks for errors of known types through a chain of sources.
fn from_external(error: &(dyn std::error::Error + Send + Sync + 'static)) -> QueryError {
    find_known(error).or_else(|| of_regex(&error.to_string())).unwrap_or_else(|| QueryError::internal(error))
}

/// The error of a regular expression that cannot be compiled. The crate that compiles it names the fault in its last line.
fn of_regex(text: &str) -> Option<QueryError> {
    let is_one =
        text.starts_with("regex parse error") || text.starts_with("Compiled regex exceeds size limit");
    let what = text.lines().last().unwrap_or(text).trim_start_matches("error: ");
    is_one.then(|| {
        QueryError::new(ErrorKind::Data, format!("invalid regular expression: {what}")).hint(
            "regular expressions are those of Rust's crate `regex`: no look-around and no backreferences",
        )
    })
}

fn find_known(error: &(dyn std::error::Error + Send + Sync + 'static)) -> Option<QueryError> {
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(current) = source {
        if let Some(ours) = current.downcast_ref::<QueryError>() {
            return Some(ours.clone());
        }
        if let Some(ended) = current.downcast_ref::<Ended>() {
            return Some((*ended).into());
        }
        if let Some(inner) = current.downcast_ref::<DataFusionError>() {
            return Some(from_datafusion(inner));
        }
        if let Some(inner) = current.downcast_ref::<ArrowError>() {
            return Some(from_arrow(inner));
        }
        if let Some(inner) = current.downcast_ref::<object_store::Error>() {
            return Some(from_object_store(inner));
        }
        if let Some(inner) = current.downcast_ref::<std::io::Error>() {
            return Some(from_io(inner));
        }
        source = current.source();
    }
    None
}

pub fn from_arrow(error: &ArrowError) -> QueryError {
    match error {
        ArrowError::ExternalError(inner) => from_external(inner.as_ref()),
        ArrowError::IoError(_, inner) => from_io(inner),
        ArrowError::ParquetError(text) => unreadable(text),
        ArrowError::DivideByZero => QueryError::new(ErrorKind::DivisionByZero, "division by zero"),
        ArrowError::ArithmeticOverflow(text) => {
            let operation = text.strip_prefix("Overflow happened on: ").unwrap_or(text);
            let name = overflown(operation);
            QueryError::new(ErrorKind::OutOfRange, format!("{name} out of range: `{operation}`"))
                .hint("compute with a wider type: CAST one of the operands to BIGINT or DECIMAL(38, 0)")
        }
        ArrowError::CastError(text) if OUT_OF_RANGE.iter().any(|words| text.contains(words)) => {
            let name = text.rsplit_once(" to type ").map(|(_, name)| name.trim());
            let message = match name.and_then(sql_name) {
                Some(name) => format!("{name} out of range: {}", tidy(text)),
                None => tidy(text),
            };
            QueryError::new(ErrorKind::OutOfRange, message)
                .hint("cast to a wider type, or use TRY_CAST, which gives NULL then")
        }
        ArrowError::InvalidArgumentError(text) if IS_TOO_LARGE.iter().any(|words| text.contains(words)) => {
            QueryError::new(ErrorKind::OutOfRange, tidy(text)).hint("use a decimal of more digits, or DOUBLE")
        }
        ArrowError::CastError(text) | ArrowError::ParseError(text) => {
            if let Some(error) = unread_text(text) {
                return error;
            }
            let kind = unread(text).unwrap_or(ErrorKind::Data);
            QueryError::new(kind, tidy(&error.to_string()))
        }
        ArrowError::CsvError(text) | ArrowError::JsonError(text) => unreadable(text),
        ArrowError::NotYetImplemented(text) => QueryError::new(ErrorKind::Unsupported, tidy(text)),
        other => QueryError::new(ErrorKind::Data, tidy(&other.to_string())),
    }
}

fn from_parquet(error: &ParquetError) -> QueryError {
    match error {
        ParquetError::External(inner) => match find_known(inner.as_ref()) {
            Some(known) => known,
            None => unreadable(&error.to_string()),
        },
        other => unreadable(&other.to_string()),
    }
}

fn from_schema(error: &SchemaError) -> QueryError {
    match error {
        SchemaError::FieldNotFound { field, valid_fields } => {
            let wanted = field.flat_name().replace('"', "");
            let known: Vec<String> = valid_fields.iter().map(|f| f.flat_name().replace('"', "")).collect();
            let error =
                QueryError::new(ErrorKind::UndefinedColumn, format!("column `{wanted}` does not exist"));
            match nearest_column(&wanted, &known) {
                Some(name) => error.hint(format!("did you mean `{name}`?")),
                None if known.is_empty() => error,
                None => error.hint("`DESCRIBE table` lists the columns of a table"),
            }
        }
        SchemaError::AmbiguousReference { field } => {
            let name = field.flat_name().replace('"', "");
            QueryError::new(ErrorKind::AmbiguousColumn, format!("column `{name}` is ambiguous"))
                .hint("put the table's name or alias before it")
        }
        other => QueryError::new(ErrorKind::InvalidText, tidy(&other.to_string())),
    }
}

/// Compares column names without their qualifiers when the wanted one has none.
fn nearest_column(wanted: &str, known: &[String]) -> Option<String> {
    let bare = |name: &str| name.rsplit('.').next().unwrap_or(name).to_owned();
    let by_bare: Vec<String> = known.iter().map(|name| bare(name)).collect();
    nearest(wanted, known.iter().map(String::as_str))
        .map(str::to_owned)
        .or_else(|| nearest(&bare(wanted), by_bare.iter().map(String::as_str)).map(str::to_owned))
}

fn from_object_store(error: &object_store::Error) -> QueryError {
    if let Some(refused) = refusal(error) {
        return refused.into();
    }
    if let Some(changed) = find::<FileChanged>(error) {
        return QueryError { transient: true, ..QueryError::new(ErrorKind::Changed, changed.to_string()) };
    }
    match error {
        object_store::Error::NotFound { path, .. } => {
            QueryError::new(ErrorKind::Unreadable, format!("file `{path}` does not exist"))
                .hint("the table's files changed while they were read, or were deleted; check its location")
        }
        object_store::Error::PermissionDenied { source, .. } if source.is::<StorageError>() => source
            .downcast_ref::<StorageError>()
            .map_or_else(|| unreadable(&error.to_string()), QueryError::from),
        object_store::Error::Generic { source, .. } => match find::<std::io::Error>(source.as_ref()) {
            Some(io) => from_io(io),
            // A network store failed, or did not answer, after its own retries.
            None => QueryError { transient: true, ..unreadable(&error.to_string()) },
        },
        other => unreadable(&other.to_string()),
    }
}

/// The first of an error and its causes that is a `T`.
fn find<'a, T: std::error::Error + 'static>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a T> {
    std::iter::successors(Some(error), |error| error.source()).find_map(|error| error.downcast_ref())
}

fn from_io(error: &std::io::Error) -> QueryError {
    match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
            QueryError::new(ErrorKind::DiskFull, format!("no space left on the disk: {error}"))
                .hint("free some space, then run the statement again")
        }
        kind => QueryError { transient: is_transient(kind), ..unreadable(&error.to_string()) },
    }
}

/// Temporary faults: the same request may succeed later.
fn is_transient(kind: std::io::ErrorKind) -> bool {
    use std::io::ErrorKind as Io;
    matches!(
        kind,
        Io::ConnectionRefused
            | Io::ConnectionReset
            | Io::ConnectionAborted
            | Io::NotConnected
            | Io::HostUnreachable
            | Io::NetworkUnreachable
            | Io::NetworkDown
            | Io::BrokenPipe
            | Io::TimedOut
            | Io::WouldBlock
            | Io::Interrupted
            | Io::ResourceBusy
            | Io::StaleNetworkFileHandle
    )
}

fn unreadable(text: &str) -> QueryError {
    if text.contains("No space left on device") {
        return QueryError::new(ErrorKind::DiskFull, "no space left on the disk")
            .hint("free some space, then run the statement again");
    }
    if text.contains(TOO_MUCH_SPILLED) {
        let message = "rows that do not fit in memory take more of the disk than `query.spill_limit_bytes`";
        return QueryError::new(ErrorKind::ResourcesExhausted, message)
            .hint("ask for less at a time, or raise `query.spill_limit_bytes`");
    }
    QueryError::new(ErrorKind::Unreadable, format!("cannot read a source file: {}", tidy(text)))
        .hint("check that the table's files are whole and reachable")
}

/// DataFusion reports missing tables and functions as plain planning texts; only the kind of these errors has
/// to be read from the message.
fn from_plan_text(text: &str) -> QueryError {
    let quoted = || text.split('\'').nth(1).unwrap_or_default();
    if text.starts_with("table '") && text.ends_with("not found") {
        let name = quoted().trim_start_matches("nyala.").to_owned();
        return QueryError::new(ErrorKind::UndefinedTable, format!("table `{name}` does not exist"));
    }
    if text.starts_with("Invalid function '") {
        let error =
            QueryError::new(ErrorKind::UndefinedObject, format!("function `{}` does not exist", quoted()));
        return match text.split('\'').nth(3) {
            Some(near) if text.contains("Did you mean") => error.hint(format!("did you mean `{near}`?")),
            _ => error,
        };
    }
    for (nested, code) in NESTED {
        if text.starts_with(nested) {
            return QueryError::new(ErrorKind::InvalidText, tidy(nested))
                .sqlstate(code)
                .hint("compute the inner call in a subquery in FROM");
        }
    }
    QueryError::new(ErrorKind::InvalidText, tidy(text))
}

/// Brings a foreign message to the house style: lower case first, no full stop, no prefix of layers.
fn tidy(text: &str) -> String {
    let mut text = text.trim();
    for layer in ["Error during planning: ", "sql parser error: ", "ParserError: ", "Execution error: "] {
        text = text.strip_prefix(layer).unwrap_or(text);
    }
    let text = text.trim_end_matches('.');
    let mut letters = text.chars();
    match (letters.next(), letters.clone().next()) {
        (Some(first), Some(second)) if first.is_uppercase() && !second.is_uppercase() => {
            first.to_lowercase().chain(letters).collect()
        }
        _ => text.to_owned(),
    }
}

impl From<BackupError> for QueryError {
    fn from(error: BackupError) -> Self {
        let kind = match &error {
            BackupError::Io { source, .. } if source.kind() == std::io::ErrorKind::StorageFull => {
                ErrorKind::DiskFull
            }
            BackupError::Io { .. } => ErrorKind::Unreadable,
            BackupError::NotEmpty { .. } | BackupError::NoBackup { .. } => ErrorKind::InvalidParameter,
            BackupError::Damaged { .. } => ErrorKind::Corrupt,
        };
        Self::new(kind, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn errors_are_recovered_by_type_through_layers() {
        let ours = QueryError::new(ErrorKind::InUse, "busy");
        let wrapped =
            DataFusionError::Shared(std::sync::Arc::new(DataFusionError::from(ours).context("deep inside")));
        assert_eq!(QueryError::from(wrapped).kind, ErrorKind::InUse);
    }

    #[test]
    fn a_full_disk_is_told_from_other_faults() {
        let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
        let store = object_store::Error::Generic { store: "LocalFileSystem", source: Box::new(full) };
        let error = QueryError::from(DataFusionError::ObjectStore(Box::new(store)));
        assert_eq!(error.kind, ErrorKind::DiskFull);
    }

    #[test]
    fn a_limit_is_told_with_the_key_that_raises_it() {
        let spilled =
            "The used disk space during the spilling process has exceeded the allowable limit of 1.0 B.";
        let spilled = ArrowError::IoError("io error".to_owned(), std::io::Error::other(spilled));
        let group = "the query would hold more than the 7 bytes that resource group `a` allows one query";
        for (error, key) in [
            (DataFusionError::from(spilled), "`query.spill_limit_bytes`"),
            (DataFusionError::ResourcesExhausted(group.to_owned()), "`query_memory_bytes`"),
            (DataFusionError::ResourcesExhausted("no more".to_owned()), "`query.memory_limit_bytes`"),
        ] {
            let error = QueryError::from(error);
            assert_eq!(error.kind, ErrorKind::ResourcesExhausted, "{error}");
            assert!(error.hint.as_ref().is_some_and(|hint| hint.contains(key)), "{error:?}");
        }
    }

    #[test]
    fn faults_of_the_moment_are_told_from_others() {
        let check = |kind: std::io::ErrorKind, expected| {
            let source = Box::new(std::io::Error::from(kind));
            let store = object_store::Error::Generic { store: "S3", source };
            let wrapped = parquet_error(Box::new(store));
            assert_eq!(QueryError::from(wrapped).transient, expected, "{kind:?}");
        };
        check(std::io::ErrorKind::ConnectionReset, true);
        check(std::io::ErrorKind::TimedOut, true);
        check(std::io::ErrorKind::StorageFull, false);
        check(std::io::ErrorKind::PermissionDenied, false);
        let lost = object_store::Error::NotFound { path: "a".to_owned(), source: "gone".into() };
        assert!(!QueryError::from(DataFusionError::ObjectStore(Box::new(lost))).transient);
    }

    fn parquet_error(source: Box<object_store::Error>) -> DataFusionError {
        let error = ParquetError::External(source);
        DataFusionError::ParquetError(Box::new(error))
    }

    #[test]
    fn nested_calls_are_told_as_postgresql_does() {
        let text = "Window function calls cannot be nested: 'rank() …' is nested inside 'sum(rank() …) …'";
        let error = from_plan_text(text);
        assert_eq!(error.message, "window function calls cannot be nested");
        assert_eq!(error.sqlstate, Some("42P20"));
    }

    #[test]
    fn a_missing_table_is_named() {
        let error = from_plan_text("table 'nyala.public.lineordr' not found");
        assert_eq!(error.kind, ErrorKind::UndefinedTable);
        assert_eq!(error.message, "table `public.lineordr` does not exist");
    }
}
