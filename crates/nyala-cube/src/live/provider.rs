//! A live table, as DataFusion looks it up.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{Constraint, Constraints, DFSchema};
use datafusion::datasource::{TableProvider, TableType};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::physical_plan::ExecutionPlan;
use nyala_model::LiveSource;
use nyala_sql::error::{QueryError, Result};
use nyala_storage::oplog::{LsnSet, Version};

use super::keys::keys_of;
use super::pins::Pins;
use super::prune::predicate;
use super::scan::{LiveScan, LiveScanExec};
use super::table::LiveRef;

/// Name of the column with the version of each row.
pub const ROW_VERSION: &str = Version::ROW_VERSION;

/// Name of the column with the number of each row, in a table without a key of its own. Only its store has the column.
pub const ROW_NUMBER: &str = "_row";

/// The column of [`ROW_NUMBER`].
pub fn row_number() -> Field {
    Field::new(ROW_NUMBER, DataType::Int64, false)
}

/// The columns that a table shows, of those that its store has.
pub fn shown(stored: &Schema, source: &LiveSource) -> Schema {
    let hidden = |field: &&Arc<Field>| source.numbered && field.name() == ROW_NUMBER;
    Schema::new(stored.fields().iter().filter(|field| !hidden(field)).cloned().collect::<Vec<_>>())
}

/// A live table that can be planned over, whether or not its store is open.
#[derive(Debug, Clone)]
pub struct LiveProvider {
    table: Arc<LiveRef>,
    /// Columns of the table, and the version of each row if a statement asks for it.
    schema: SchemaRef,
    key: Schema,
    constraints: Constraints,
    defaults: HashMap<String, Expr>,
    /// LSNs of the last write of the rows that are read; none for all rows.
    written: Option<Arc<LsnSet>>,
}

impl LiveProvider {
    /// A table with the columns of `schema`.
    pub fn new(table: Arc<LiveRef>, schema: Schema, state: &SessionState) -> Result<Self> {
        let source = table.source();
        let (key, constraints) = match source.numbered {
            true => (Schema::new(vec![row_number()]), Constraints::default()),
            false => {
                let positions = source.key.iter().map(|name| schema.index_of(name));
                let positions: Vec<usize> = positions.collect::<std::result::Result<_, _>>()?;
                let constraint = Constraint::PrimaryKey(positions.clone());
                (schema.project(&positions)?, Constraints::new_unverified(vec![constraint]))
            }
        };
        let mut defaults = HashMap::new();
        for (column, text) in &source.defaults {
            let expression = state.create_logical_expr(text, &DFSchema::empty()).map_err(|error| {
                let error = QueryError::from(error);
                QueryError::internal(format!("default of column `{column}`: {}", error.message))
            })?;
            defaults.insert(column.clone(), expression);
        }
        let schema = Arc::new(schema);
        Ok(Self { table, schema, key, constraints, defaults, written: None })
    }

    /// The table with further columns: the version of each row, and its number if there is one.
    pub fn with_versions(&self) -> Self {
        let version = Arc::new(Field::new(ROW_VERSION, DataType::UInt64, true));
        let fields = self.stored_columns().fields().iter().cloned().chain([version]).collect::<Vec<_>>();
        Self { schema: Arc::new(Schema::new(fields)), ..self.clone() }
    }

    /// The columns that the table shows, and those that only its store has.
    pub fn stored_columns(&self) -> Schema {
        let numbered = self.table.source().numbered;
        let number = numbered.then(|| Arc::new(row_number().with_nullable(true)));
        Schema::new(self.schema.fields().iter().cloned().chain(number).collect::<Vec<_>>())
    }

    /// The table with only the rows that were last written at `lsns`.
    pub fn only_written(&self, lsns: LsnSet) -> Self {
        Self { written: Some(Arc::new(lsns)), ..self.clone() }
    }

    /// Whether it has a key constraint, from which the planner derives functional dependencies.
    pub fn has_key(&self) -> bool {
        !self.constraints.is_empty()
    }

    /// The table without its key constraint.
    pub fn without_key(&self) -> Self {
        Self { constraints: Constraints::default(), ..self.clone() }
    }

    /// The table.
    pub fn table(&self) -> &Arc<LiveRef> {
        &self.table
    }

    /// The columns of its key, in order.
    pub fn key(&self) -> &Schema {
        &self.key
    }
}

#[async_trait]
impl TableProvider for LiveProvider {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn constraints(&self) -> Option<&Constraints> {
        Some(&self.constraints)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn get_table_definition(&self) -> Option<&str> {
        Some(&self.table.entry().definition)
    }

    fn get_column_default(&self, column: &str) -> Option<&Expr> {
        self.defaults.get(column)
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        _limit: Option<usize>,
    ) -> datafusion::error::Result<Arc<dyn ExecutionPlan>> {
        let schema = match projection {
            Some(columns) => Arc::new(self.schema.project(columns)?),
            None => Arc::clone(&self.schema),
        };
        // Only a scan checks when rows were written; a look-up by key does not.
        let keys = keys_of(filters, &self.key).filter(|_| self.written.is_none());
        let pins = state.config().get_extension::<Pins>().unwrap_or_default();
        let bounds = match keys {
            Some(_) => None,
            None => predicate(filters, &self.schema, state)?,
        };
        let (table, written) = (Arc::clone(&self.table), self.written.clone());
        let scan = LiveScan { table, schema, keys, bounds, written, pins };
        let exec = LiveScanExec::new(scan, state.config().target_partitions(), state.config().batch_size())?;
        Ok(Arc::new(exec))
    }

    /// Conditions narrow the read; the plan checks them on the rows again.
    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> datafusion::error::Result<Vec<TableProviderFilterPushDown>> {
        let support = |filter: &&Expr| match is_of_rows(filter) {
            Ok(true) => TableProviderFilterPushDown::Inexact,
            _ => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(support).collect())
    }
}

/// Whether a condition depends on one row alone: not on another query, and not on random values.
fn is_of_rows(condition: &Expr) -> datafusion::error::Result<bool> {
    let asks = condition.exists(|expression| {
        Ok(matches!(
            expression,
            Expr::ScalarSubquery(_)
                | Expr::InSubquery(_)
                | Expr::Exists(_)
                | Expr::SetComparison(_)
                | Expr::OuterReferenceColumn(..)
        ))
    })?;
    Ok(!asks && !condition.is_volatile())
}
