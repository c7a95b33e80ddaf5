//! Commands that ask what the server is and has: the columns of each answer, and its rows.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow_flight::error::FlightError;
use arrow_flight::sql::Command;
use arrow_flight::sql::metadata::{SqlInfoData, XdbcTypeInfoData};
use tonic::Status;

use super::command::not_for;
use super::metadata::{self, foreign_key_columns, foreign_keys, primary_key_columns};
use super::sessions::InUse;
use super::sql_info::sql_info;
use super::type_info::type_info;

/// Greater than every number of `SqlInfo` that this server answers.
const MAX_INFOS: usize = 1000;

/// Answers commands about the server and its tables.
pub struct Metadata {
    infos: SqlInfoData,
    types: XdbcTypeInfoData,
}

impl Metadata {
    /// Makes `SqlInfo` and the list of types, which stay the same as long as the server runs.
    ///
    /// # Errors
    /// Arrow cannot write them.
    pub fn new() -> Result<Self, FlightError> {
        Ok(Self { infos: sql_info()?, types: type_info()? })
    }

    /// The columns of the answer; none if the command asks for something else.
    pub fn columns(&self, command: &Command) -> Option<SchemaRef> {
        Some(match command {
            Command::CommandGetCatalogs(command) => command.into_builder().schema(),
            Command::CommandGetDbSchemas(command) => command.clone().into_builder().schema(),
            Command::CommandGetTables(command) => command.clone().into_builder().schema(),
            Command::CommandGetTableTypes(command) => command.into_builder().schema(),
            Command::CommandGetSqlInfo(_) => self.infos.schema(),
            Command::CommandGetXdbcTypeInfo(_) => self.types.schema(),
            Command::CommandGetPrimaryKeys(_) => primary_key_columns(),
            Command::CommandGetExportedKeys(_)
            | Command::CommandGetImportedKeys(_)
            | Command::CommandGetCrossReference(_) => foreign_key_columns(),
            _ => return None,
        })
    }

    /// The rows of the answer. A session is begun only if they differ between sessions.
    ///
    /// # Errors
    /// The command asks for something else, or the session cannot answer.
    pub async fn rows(
        &self,
        command: Command,
        session: impl FnOnce() -> Result<InUse, Status> + Send,
    ) -> Result<RecordBatch, Status> {
        match command {
            Command::CommandGetCatalogs(command) => metadata::catalogs(command),
            Command::CommandGetDbSchemas(command) => {
                let session = session()?;
                metadata::schemas(&session.session, command).await
            }
            Command::CommandGetTables(command) => {
                let session = session()?;
                metadata::tables(&session.session, command, session.types()).await
            }
            Command::CommandGetTableTypes(command) => metadata::table_types(command),
            Command::CommandGetSqlInfo(command) => {
                self.infos.record_batch(known(command.info)).map_err(Status::from)
            }
            Command::CommandGetXdbcTypeInfo(command) => {
                self.types.record_batch(command.data_type).map_err(Status::from)
            }
            Command::CommandGetPrimaryKeys(command) => {
                let session = session()?;
                metadata::primary_keys(&session.session, &command).await
            }
            Command::CommandGetExportedKeys(_)
            | Command::CommandGetImportedKeys(_)
            | Command::CommandGetCrossReference(_) => Ok(foreign_keys()),
            other => Err(not_for("DoGet", &other)),
        }
    }
}

/// The numbers that a client asks for, at most [`MAX_INFOS`] of them: each number of a list of millions would be looked for.
fn known(mut numbers: Vec<u32>) -> Vec<u32> {
    numbers.sort_unstable();
    numbers.dedup();
    // In order, the first `MAX_INFOS` hold every known number. A filter could leave none, and no number means all of them.
    numbers.truncate(MAX_INFOS);
    numbers
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn each_number_is_told_once_however_often_it_is_asked_for() {
        let told = |numbers: Vec<u32>| sql_info().unwrap().record_batch(known(numbers)).unwrap().num_rows();
        assert_eq!(told(vec![0, 1, 8]), 3);
        assert_eq!(told((0..5_000_000).rev().map(|number| number % 1_000_000).collect()), told(Vec::new()));
        assert_eq!(told(vec![5_000]), 0);
    }
}
