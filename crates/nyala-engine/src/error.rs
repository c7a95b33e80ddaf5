//! What a statement can end with besides an answer.
//!
//! There are few kinds, each chosen by what the user can do next. Errors stay typed on their way
//! through DataFusion (as `External`) and are recovered by type.

use std::fmt;

use arrow::error::ArrowError;
use datafusion::common::{DataFusionError, SchemaError};
use nyala_catalog::CatalogError;
use nyala_model::suggest::nearest;
use nyala_storage::StorageError;
use nyala_storage::object::refusal;

/// Result of everything the engine does for a client.
pub type Result<T, E = QueryError> = std::result::Result<T, E>;

/// Why a statement failed, for doors to map to their protocol's codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The text is not SQL: correct it.
    Syntax,
    /// No such table or cube: correct the name, or create it.
    UndefinedTable,
    /// No such column: correct the name.
    UndefinedColumn,
    /// No such schema, function or setting: correct the name.
    UndefinedObject,
    /// The name is taken: choose another, or drop the old object.
    DuplicateObject,
    /// A definition that makes no sense: correct the statement.
    InvalidDefinition,
    /// A setting or parameter with an unusable value: correct the value.
    InvalidParameter,
    /// Well-formed SQL whose parts do not fit together: correct the statement.
    InvalidText,
    /// A value that cannot be computed, such as a failed cast: correct the data or the expression.
    Data,
    /// Something Nyala does not do: ask in another way.
    Unsupported,
    /// The statement is larger or deeper than allowed: make it smaller, or raise the limit.
    LimitExceeded,
    /// Not enough memory within the configured limit: try later, ask for less, or raise the limit.
    ResourcesExhausted,
    /// No space left on the disk: free some.
    DiskFull,
    /// Someone asked for the end.
    Cancelled,
    /// The statement took longer than `statement_timeout`.
    Timeout,
    /// A file is missing, corrupt or out of reach: repair the source.
    Unreadable,
    /// It was not granted: ask whoever may grant it.
    PermissionDenied,
    /// Something else needs the object or works on it: wait, or end that first.
    InUse,
    /// The server is stopping: connect again later.
    ShuttingDown,
    /// A fault of Nyala's own: report it.
    Internal,
}

/// A failed statement: what went wrong, and the next step where there is one worth naming.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct QueryError {
    /// What the client can do about it.
    pub kind: ErrorKind,
    /// What went wrong, naming the thing; lower case, no full stop.
    pub message: String,
    /// The next step.
    pub hint: Option<String>,
}

impl QueryError {
    /// An error without a hint.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None }
    }

    /// The same error with the next step.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// A fault of our own.
    pub fn internal(message: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Internal, format!("internal error: {message}"))
            .hint("this is a fault of the server; please report it with the statement")
    }

    /// The statement was cancelled.
    pub fn cancelled() -> Self {
        Self::new(ErrorKind::Cancelled, "statement was cancelled at the client's request")
    }
}

impl From<QueryError> for DataFusionError {
    fn from(error: QueryError) -> Self {
        DataFusionError::External(Box::new(error))
    }
}

impl From<StorageError> for QueryError {
    fn from(error: StorageError) -> Self {
        let kind = match &error {
            StorageError::InvalidLocation { .. } | StorageError::NotAllowed { .. } => {
                ErrorKind::InvalidDefinition
            }
            StorageError::Open { .. }
            | StorageError::NoBucket { .. }
            | StorageError::Refused { .. }
            | StorageError::DataDir { .. } => ErrorKind::Unreadable,
            StorageError::InUse { .. } => ErrorKind::InUse,
        };
        Self::new(kind, error.to_string())
    }
}

impl From<CatalogError> for QueryError {
    fn from(error: CatalogError) -> Self {
        if error.is_disk_full() {
            return Self::new(ErrorKind::DiskFull, error.to_string());
        }
        let kind = match &error {
            CatalogError::NotFound { what: "table" | "cube", .. } => ErrorKind::UndefinedTable,
            CatalogError::NotFound { .. } => ErrorKind::UndefinedObject,
            CatalogError::AlreadyExists { .. } => ErrorKind::DuplicateObject,
            CatalogError::InUse { .. } => ErrorKind::InUse,
            CatalogError::WrongKind { .. }
            | CatalogError::Protected { .. }
            | CatalogError::RoleCircle { .. } => ErrorKind::InvalidDefinition,
            _ => ErrorKind::Internal,
        };
        Self::new(kind, error.to_string())
    }
}

impl From<ArrowError> for QueryError {
    fn from(error: ArrowError) -> Self {
        from_arrow(&error)
    }
}

impl From<DataFusionError> for QueryError {
    fn from(error: DataFusionError) -> Self {
        from_datafusion(&error)
    }
}

fn from_datafusion(error: &DataFusionError) -> QueryError {
    match error {
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => from_datafusion(inner),
        DataFusionError::Shared(inner) => from_datafusion(inner),
        DataFusionError::Collection(errors) => errors
            .first()
            .map_or_else(|| QueryError::internal("an empty collection of errors"), from_datafusion),
        DataFusionError::SQL(inner, _) => QueryError::new(ErrorKind::Syntax, tidy(&inner.to_string())),
        DataFusionError::ArrowError(inner, _) => from_arrow(inner),
        DataFusionError::SchemaError(inner, _) => from_schema(inner),
        DataFusionError::ParquetError(inner) => unreadable(&inner.to_string()),
        DataFusionError::ObjectStore(inner) => from_object_store(inner),
        DataFusionError::IoError(inner) => from_io(inner),
        DataFusionError::NotImplemented(text) => QueryError::new(ErrorKind::Unsupported, tidy(text)),
        DataFusionError::Plan(text) => from_plan_text(text),
        DataFusionError::Configuration(text) => QueryError::new(ErrorKind::InvalidParameter, tidy(text)),
        DataFusionError::Execution(text) => QueryError::new(ErrorKind::Data, tidy(text)),
        DataFusionError::ResourcesExhausted(text) => {
            QueryError::new(ErrorKind::ResourcesExhausted, format!("not enough memory: {}", tidy(text)))
                .hint("ask for less at a time, or raise `query.memory_limit_bytes`")
        }
        DataFusionError::External(inner) => from_external(inner.as_ref()),
        other => QueryError::internal(other),
    }
}

/// Looks through a chain of sources for errors we know by type.
fn from_external(error: &(dyn std::error::Error + Send + Sync + 'static)) -> QueryError {
    let mut source: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(current) = source {
        if let Some(ours) = current.downcast_ref::<QueryError>() {
            return ours.clone();
        }
        if let Some(inner) = current.downcast_ref::<DataFusionError>() {
            return from_datafusion(inner);
        }
        if let Some(inner) = current.downcast_ref::<ArrowError>() {
            return from_arrow(inner);
        }
        if let Some(inner) = current.downcast_ref::<object_store::Error>() {
            return from_object_store(inner);
        }
        if let Some(inner) = current.downcast_ref::<std::io::Error>() {
            return from_io(inner);
        }
        source = current.source();
    }
    QueryError::internal(error)
}

fn from_arrow(error: &ArrowError) -> QueryError {
    match error {
        ArrowError::ExternalError(inner) => from_external(inner.as_ref()),
        ArrowError::IoError(_, inner) => from_io(inner),
        ArrowError::ParquetError(text) => unreadable(text),
        ArrowError::DivideByZero => QueryError::new(ErrorKind::Data, "division by zero"),
        ArrowError::CsvError(text) | ArrowError::JsonError(text) => unreadable(text),
        ArrowError::NotYetImplemented(text) => QueryError::new(ErrorKind::Unsupported, tidy(text)),
        other => QueryError::new(ErrorKind::Data, tidy(&other.to_string())),
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
            QueryError::new(ErrorKind::InvalidText, format!("column `{name}` is ambiguous"))
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
    match error {
        object_store::Error::NotFound { path, .. } => {
            QueryError::new(ErrorKind::Unreadable, format!("file `{path}` does not exist"))
                .hint("the table's files changed while they were read, or were deleted; check its location")
        }
        object_store::Error::Generic { source, .. } => match find_io(source.as_ref()) {
            Some(io) => from_io(io),
            None => unreadable(&error.to_string()),
        },
        other => unreadable(&other.to_string()),
    }
}

fn find_io<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a std::io::Error> {
    let mut source = Some(error);
    while let Some(current) = source {
        if let Some(io) = current.downcast_ref::<std::io::Error>() {
            return Some(io);
        }
        source = current.source();
    }
    None
}

fn from_io(error: &std::io::Error) -> QueryError {
    match error.kind() {
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
            QueryError::new(ErrorKind::DiskFull, format!("no space left on the disk: {error}"))
                .hint("free some space, then run the statement again")
        }
        _ => unreadable(&error.to_string()),
    }
}

fn unreadable(text: &str) -> QueryError {
    if text.contains("No space left on device") {
        return QueryError::new(ErrorKind::DiskFull, "no space left on the disk")
            .hint("free some space, then run the statement again");
    }
    QueryError::new(ErrorKind::Unreadable, format!("cannot read a source file: {}", tidy(text)))
        .hint("check that the table's files are whole and reachable")
}

/// DataFusion reports missing tables and functions as plain planning texts; these are the only errors
/// whose kind has to be told from words.
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
    fn a_missing_table_is_named() {
        let error = from_plan_text("table 'nyala.public.lineordr' not found");
        assert_eq!(error.kind, ErrorKind::UndefinedTable);
        assert_eq!(error.message, "table `public.lineordr` does not exist");
    }
}
