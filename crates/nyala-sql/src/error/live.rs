//! Errors of disk stores, as ours.

use nyala_storage::oplog::OplogError;

use super::{ErrorKind, QueryError};

impl From<OplogError> for QueryError {
    fn from(error: OplogError) -> Self {
        let full = error.is_full();
        let kind = match &error {
            _ if full => ErrorKind::DiskFull,
            OplogError::Io { .. } | OplogError::Damaged(_) => ErrorKind::Unreadable,
            OplogError::DiskFull { .. } => ErrorKind::DiskFull,
            OplogError::ReadOnly { .. } => ErrorKind::ReadOnly,
            OplogError::Unconfirmed { .. } => ErrorKind::Unconfirmed,
            OplogError::InUse { .. } | OplogError::SchemaChanged { .. } => ErrorKind::InUse,
            OplogError::Conflict { .. } => ErrorKind::Conflict,
            OplogError::TableExists { .. } => ErrorKind::DuplicateTable,
            OplogError::NoTable { .. } => ErrorKind::UndefinedTable,
            OplogError::NullValue { .. } => ErrorKind::NullValue,
            OplogError::Invalid { .. } => ErrorKind::InvalidDefinition,
            OplogError::ChangesGone { .. } => ErrorKind::Gone,
            OplogError::Closed { .. } => ErrorKind::ShuttingDown,
        };
        Self::new(kind, error.to_string())
    }
}
