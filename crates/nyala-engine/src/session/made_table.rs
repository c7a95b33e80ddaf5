//! Tables whose rows are made when they are read.

use std::fmt::Debug;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::catalog::memory::MemorySourceConfig;
use datafusion::datasource::{TableProvider, TableType};
use datafusion::error::Result;
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::ExecutionPlan;

/// Makes the rows of a table.
#[async_trait]
pub trait MadeRows: Debug + Send + Sync + 'static {
    /// The columns.
    fn schema(&self) -> SchemaRef;

    /// Temporary if two scans of one statement may give other rows: a query that is read in several places then scans the table once.
    fn table_type(&self) -> TableType {
        TableType::View
    }

    /// All rows at this moment, for a statement of a session.
    async fn rows(&self, session: &dyn Session) -> Result<RecordBatch>;
}

/// The table of the rows that a [`MadeRows`] makes.
#[derive(Debug)]
pub struct MadeTable<R>(pub R);

#[async_trait]
impl<R: MadeRows> TableProvider for MadeTable<R> {
    fn schema(&self) -> SchemaRef {
        self.0.schema()
    }

    fn table_type(&self) -> TableType {
        self.0.table_type()
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let rows = self.0.rows(session).await?;
        let scan = MemorySourceConfig::try_new_exec(&[vec![rows]], self.0.schema(), projection.cloned())?;
        Ok(scan)
    }
}
