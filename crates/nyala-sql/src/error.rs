//! The errors of failed statements.
//!
//! There are few kinds, one for each next step of the user. Errors stay typed on their way through DataFusion
//! (as `External`) and are recovered by type.

mod foreign;
mod live;
mod words;

use std::fmt;

use arrow::error::ArrowError;
use datafusion::common::DataFusionError;
use nyala_catalog::CatalogError;
use nyala_model::NodeId;
use nyala_runtime::{Ended, Reason};
use nyala_storage::StorageError;
use serde::{Deserialize, Serialize};

use self::foreign::{from_arrow, from_datafusion};

/// Result of everything the engine does for a client.
pub type Result<T, E = QueryError> = std::result::Result<T, E>;

/// Why a statement failed, for doors to map to their protocol's codes.
#[derive(Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The text is not SQL: correct it.
    Syntax,
    /// No such table or cube: correct the name, or create it.
    UndefinedTable,
    /// No such column: correct the name.
    UndefinedColumn,
    /// Several tables have such a column: put the name of one before it.
    AmbiguousColumn,
    /// No such schema, function or setting: correct the name.
    UndefinedObject,
    /// The name of a table or cube is taken: choose another, or drop the old one.
    DuplicateTable,
    /// There is such a column: choose another name.
    DuplicateColumn,
    /// There is such a schema: choose another name, or use it.
    DuplicateSchema,
    /// Another name is taken, or a part of a cube is there: choose another, or drop the old one.
    DuplicateObject,
    /// A definition that makes no sense: correct the statement.
    InvalidDefinition,
    /// A change that a table or view cannot take: make another one.
    InvalidTableDefinition,
    /// A setting or parameter with an unusable value: correct the value.
    InvalidParameter,
    /// Well-formed SQL with parts that do not fit together: correct the statement.
    InvalidText,
    /// A value that cannot be computed: correct the data or the expression.
    Data,
    /// A text is no value of the type it is read as: correct it.
    InvalidValue,
    /// A text is no date, time or interval: correct it.
    InvalidTime,
    /// A number that does not fit its type: compute with a wider one.
    OutOfRange,
    /// A division by zero: leave such rows out, or use `nullif`.
    DivisionByZero,
    /// A subquery that is a value has several rows: make it one row.
    Cardinality,
    /// NULL for a column that allows none: give a value, or leave the column to its default.
    NullValue,
    /// A text is longer than its column allows: shorten it, or make the column wider.
    TooLong,
    /// Nyala does not support the statement: ask in another way.
    Unsupported,
    /// The statement is larger or deeper than allowed: make it smaller, or raise the limit.
    LimitExceeded,
    /// Not enough memory within the configured limit: try later, ask for less, or raise the limit.
    ResourcesExhausted,
    /// Too many queries run and wait already: try again later.
    TooManyQueries,
    /// No space left on the disk: free some.
    DiskFull,
    /// A user or an operator cancelled the statement.
    Cancelled,
    /// The statement took longer than `statement_timeout`.
    Timeout,
    /// A file is missing, corrupt or out of reach: repair the source.
    Unreadable,
    /// Files of a table changed while the statement read them: run it again.
    Changed,
    /// A file of Nyala's own is not as it was written: run the statement again, and see to the disk.
    Corrupt,
    /// The role may not do this: ask for the grant.
    PermissionDenied,
    /// Another statement works with the object: wait, or end that first.
    InUse,
    /// Other objects depend on the object: drop them first.
    Needed,
    /// The object is of another kind than the statement is for: use the statement for its kind.
    WrongObject,
    /// Another statement changed the rows first: read them again and retry.
    Conflict,
    /// The store takes no writes because of a fault of its disk: check the disk.
    ReadOnly,
    /// The write may or may not be found after a restart: look before you write it again.
    Unconfirmed,
    /// The data asked for is no longer kept: begin anew.
    Gone,
    /// The server is stopping: connect again later.
    ShuttingDown,
    /// A fault of Nyala's own: report it.
    Internal,
}

/// A failed statement: the fault, and the next step where there is one worth naming.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct QueryError {
    /// The client's next step, as a class of errors.
    pub kind: ErrorKind,
    /// The fault, with the name of the object; lower case, no full stop.
    pub message: String,
    /// The next step.
    pub hint: Option<String>,
    /// Whether the same statement may succeed a moment later, because a store or a network failed.
    pub transient: bool,
    /// PostgreSQL's code, where it has a finer one than the kind.
    pub sqlstate: Option<&'static str>,
    /// Another node to run the statement on, if this one has done nothing because it lacks what the statement needs.
    pub owner: Option<Box<Owner>>,
}

/// Another node that has what a statement needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// The node.
    pub node: NodeId,
    /// Whether this node can run the statement, too, with more work.
    pub optional: bool,
}

impl QueryError {
    /// An error without a hint.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None, transient: false, sqlstate: None, owner: None }
    }

    /// The same error with the next step.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same error with PostgreSQL's code `code`.
    #[must_use]
    pub fn sqlstate(mut self, code: &'static str) -> Self {
        self.sqlstate = Some(code);
        self
    }

    /// A fault of our own.
    pub fn internal(message: impl fmt::Display) -> Self {
        Self::new(ErrorKind::Internal, format!("internal error: {message}"))
            .hint("this is a fault of the server; please report it with the statement")
    }

    /// A subquery that stands for one value has several rows.
    pub fn several_rows() -> Self {
        Self::new(ErrorKind::Cardinality, "more than one row returned by a subquery used as an expression")
            .hint("make it one row: an aggregate, LIMIT 1, or a condition that finds one")
    }

    /// Whether a store, the catalog's database or another node did not answer. Then doors tell the client to
    /// try again; other errors of the kind [`ErrorKind::Unreadable`] need a repair first.
    pub fn is_unavailable(&self) -> bool {
        self.transient && self.kind == ErrorKind::Unreadable
    }

    /// The statement was cancelled.
    pub fn cancelled() -> Self {
        Self::new(ErrorKind::Cancelled, "statement was cancelled on request")
    }
}

impl From<QueryError> for DataFusionError {
    fn from(error: QueryError) -> Self {
        DataFusionError::External(Box::new(error))
    }
}

impl From<Ended> for QueryError {
    fn from(ended: Ended) -> Self {
        match ended.0 {
            Reason::Cancelled => Self::cancelled(),
            Reason::Memory { .. } => Self::new(ErrorKind::ResourcesExhausted, ended.to_string())
                .hint("ask for less at a time, or run it when others do not"),
        }
    }
}

impl From<StorageError> for QueryError {
    fn from(error: StorageError) -> Self {
        Self::from(&error)
    }
}

impl From<&StorageError> for QueryError {
    fn from(error: &StorageError) -> Self {
        let kind = match error {
            StorageError::InvalidLocation { .. } | StorageError::NotAllowed { .. } => {
                ErrorKind::InvalidDefinition
            }
            StorageError::OwnFiles { .. } => ErrorKind::PermissionDenied,
            StorageError::Open { .. }
            | StorageError::NoBucket { .. }
            | StorageError::Refused { .. }
            | StorageError::Unavailable { .. }
            | StorageError::Unreachable { .. }
            | StorageError::PlaceNotReached { .. }
            | StorageError::CacheFolder { .. }
            | StorageError::DataDir { .. } => ErrorKind::Unreadable,
            StorageError::CatalogLost { .. } => ErrorKind::Corrupt,
            StorageError::InUse { .. } | StorageError::CacheInUse { .. } => ErrorKind::InUse,
            StorageError::CuboidsElsewhere { .. } | StorageError::PlaceTaken { .. } => {
                ErrorKind::InvalidParameter
            }
        };
        let transient = matches!(error, StorageError::Unavailable { .. } | StorageError::Unreachable { .. });
        Self { transient, ..Self::new(kind, error.to_string()) }
    }
}

impl From<CatalogError> for QueryError {
    fn from(error: CatalogError) -> Self {
        if error.is_disk_full() {
            return Self::new(ErrorKind::DiskFull, error.to_string());
        }
        let kind = match &error {
            CatalogError::NotFound { what: "table" | "view" | "cube", .. } => ErrorKind::UndefinedTable,
            CatalogError::NotFound { .. } => ErrorKind::UndefinedObject,
            CatalogError::AlreadyExists { what: "table" | "view" | "cube", .. } => ErrorKind::DuplicateTable,
            CatalogError::AlreadyExists { what: "schema", .. } => ErrorKind::DuplicateSchema,
            CatalogError::AlreadyExists { .. } => ErrorKind::DuplicateObject,
            CatalogError::InUse { .. } => ErrorKind::Needed,
            CatalogError::Altered { .. }
            | CatalogError::LeaseLost { .. }
            | CatalogError::NodeTaken { .. } => ErrorKind::InUse,
            CatalogError::Unreachable { .. } => ErrorKind::Unreadable,
            CatalogError::UnknownOutcome => ErrorKind::Unconfirmed,
            CatalogError::Newer { .. } => ErrorKind::Unsupported,
            CatalogError::WrongKind { .. } => ErrorKind::WrongObject,
            CatalogError::ReadsItself { .. }
            | CatalogError::Protected { .. }
            | CatalogError::RoleCircle { .. } => ErrorKind::InvalidDefinition,
            CatalogError::Corrupt { .. } => ErrorKind::Corrupt,
            CatalogError::Url | CatalogError::NotEmpty => ErrorKind::InvalidParameter,
            _ => ErrorKind::Internal,
        };
        let transient = matches!(error, CatalogError::Unreachable { .. });
        Self { transient, ..Self::new(kind, error.to_string()) }
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
