//! Statements that DataFusion does not know: one file each implements [`Command`].

use arrow::datatypes::SchemaRef;
use datafusion::sql::parser::Statement as DfStatement;
use futures::future::BoxFuture;
use nyala_sql::error::Result;

use super::answer::Answer;
use super::authorize::Caller;
use super::execution::Execution;

/// A statement of Nyala.
pub trait Command: Send + Sync {
    /// Columns of the answer. A statement without rows changes something, and so does a build that answers with its job.
    fn schema(&self) -> Option<SchemaRef> {
        None
    }

    /// Fails if the caller may not run the statement. Not asked for superusers.
    fn authorize(&self, caller: &Caller<'_>) -> Result<()>;

    /// A query within the statement. The caller must be allowed to read its tables.
    fn query(&self) -> Option<DfStatement> {
        None
    }

    /// Runs the statement.
    fn run<'a>(&'a self, execution: Execution<'a>) -> BoxFuture<'a, Result<Answer>>;
}
