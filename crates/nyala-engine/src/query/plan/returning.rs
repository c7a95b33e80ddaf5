//! RETURNING: the answer that a statement computes from the rows it writes or deletes.
//!
//! ```text
//! SELECT items FROM target, others ──plan──▶ Returning ──with parameters──▶ GivenBack ──rows──▶ answer
//! ```
//!
//! It is computed before the rows are written, so that a failed expression leaves the table as it was. The
//! version that the rows get is known only afterwards: it can be returned, but not computed with.

use std::sync::Arc;

use arrow::array::{ArrayRef, UInt64Array, new_null_array};
use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{Column, DFSchema, ScalarValue, TableReference};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::sql::sqlparser::ast::{ObjectName, Query};
use nyala_cube::live::ROW_VERSION;
use nyala_model::QualifiedName;
use nyala_sql::error::{ErrorKind, QueryError, Result};
use nyala_sql::semantics::{Phase, lower_expr};
use nyala_sql::statement::{LiveNames, Statement, show_versions};
use tokio::runtime::Handle;

use super::logical::{Unoptimized, logical_plan};
use super::parameters::bind;
use crate::query::resources::task::Task;
use crate::query::resources::threads::Threads;
use crate::session::{Settings, SnapshotContext};

/// The columns of RETURNING, planned.
#[derive(Debug)]
pub struct Returning {
    plan: Unoptimized,
    schema: SchemaRef,
    reads: Vec<QualifiedName>,
}

impl Returning {
    /// Plans RETURNING as a query over the tables of its statement.
    pub async fn plan(
        threads: &Threads,
        context: &SnapshotContext,
        mut query: Box<Query>,
        settings: &Settings,
    ) -> Result<Self> {
        let find = |name: &ObjectName| context.live_named(name, settings);
        let live = LiveNames { row_version: ROW_VERSION, find: &find };
        let state = match show_versions(&mut query, live) {
            true => context.versioned_state(settings),
            false => context.state(settings),
        };
        let planned = threads.plan(logical_plan(Statement::query(query), state)).await;
        let planned = planned.map_err(|error| context.explain_missing(error))?;
        check_form(projection(planned.plan.logical())?)?;
        let schema = planned.schema.ok_or_else(|| QueryError::internal("RETURNING has no columns"))?;
        Ok(Self { plan: planned.plan, schema: nullable(&schema), reads: planned.reads })
    }

    /// The query, which reads the tables of the statement.
    pub fn logical(&self) -> &LogicalPlan {
        self.plan.logical()
    }

    /// The tables and views that it names.
    pub fn reads(&self) -> &[QualifiedName] {
        &self.reads
    }

    /// Its columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Compiles it for rows with the columns of `layout`. If `writes`, the version of the target's rows is
    /// the one that the statement gives them.
    pub async fn compile(
        &self,
        threads: &Threads,
        state: SessionState,
        parameters: &[ScalarValue],
        layout: DFSchema,
        writes: bool,
    ) -> Result<GivenBack> {
        let bound = bind(self.plan.clone(), parameters)?;
        let schema = Arc::clone(&self.schema);
        let small = threads.execution().clone();
        let work = async move {
            let plan = bound.analyze(&state)?;
            GivenBack::new(projection(&plan)?, &layout, writes, schema, (&state, small))
        };
        threads.plan(work).await
    }
}

fn projection(plan: &LogicalPlan) -> Result<&Projection> {
    match plan {
        LogicalPlan::Projection(projection) => Ok(projection),
        _ => Err(not_of_rows()),
    }
}

/// Fails unless each row gives one row, computed from that row alone.
fn check_form(projection: &Projection) -> Result<()> {
    let over_tables = matches!(
        projection.input.as_ref(),
        LogicalPlan::TableScan(_) | LogicalPlan::SubqueryAlias(_) | LogicalPlan::Join(_)
    );
    let asks = |expression: &Expr| {
        expression.exists(|part| {
            Ok(matches!(
                part,
                Expr::ScalarSubquery(_) | Expr::InSubquery(_) | Expr::Exists(_) | Expr::SetComparison(_)
            ))
        })
    };
    for expression in &projection.expr {
        if asks(expression)? {
            return Err(not_of_rows());
        }
    }
    if over_tables { Ok(()) } else { Err(not_of_rows()) }
}

fn not_of_rows() -> QueryError {
    let message =
        "RETURNING takes expressions over the rows that are written, no aggregates and no subqueries";
    QueryError::new(ErrorKind::Unsupported, message).hint("ask for them with a SELECT of its own")
}

fn nullable(schema: &Schema) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
    Arc::new(Schema::new(fields.collect::<Vec<Field>>()))
}

/// RETURNING of one execution.
pub struct GivenBack {
    /// The columns that its expressions read, and their positions in the rows.
    input: SchemaRef,
    positions: Vec<Option<usize>>,
    columns: Vec<Value>,
    schema: SchemaRef,
    /// The threads that compute it: their stack suffices for deep expressions.
    threads: Handle,
}

enum Value {
    Computed(Arc<dyn PhysicalExpr>),
    /// The version that the statement gives its rows.
    NewVersion,
}

impl GivenBack {
    fn new(
        projection: &Projection,
        layout: &DFSchema,
        writes: bool,
        schema: SchemaRef,
        (state, threads): (&SessionState, Handle),
    ) -> Result<Self> {
        let input = projection.input.schema();
        let target = input.iter().next().and_then(|(table, _)| table);
        let value = |expression: &Expr| value(expression, target.filter(|_| writes), input, state);
        Ok(Self {
            input: nullable(input.as_arrow()),
            positions: input.iter().map(|(table, field)| position(layout, table, field.name())).collect(),
            columns: projection.expr.iter().map(value).collect::<Result<_>>()?,
            schema,
            threads,
        })
    }

    /// One row for each of `rows`, if there is a RETURNING; versions that are not known yet are null.
    pub async fn of(back: Option<&Arc<Self>>, rows: &RecordBatch) -> Result<Option<RecordBatch>> {
        let Some(back) = back.cloned() else { return Ok(None) };
        let (threads, rows) = (back.threads.clone(), rows.clone());
        Task::spawn_on(&threads, async move { back.compute(&rows) }).join().await.map(Some)
    }

    /// The answer if nothing was written.
    pub fn nothing(&self) -> RecordBatch {
        RecordBatch::new_empty(Arc::clone(&self.schema))
    }

    fn compute(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        let count = rows.num_rows();
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        let positions = self.input.fields().iter().zip(&self.positions);
        let columns = positions.map(|(field, at)| match at.and_then(|at| rows.columns().get(at)) {
            Some(column) => Ok(Arc::clone(column)),
            None if field.name() == ROW_VERSION => Ok(new_null_array(field.data_type(), count)),
            None => Err(QueryError::internal(format!("RETURNING finds no column `{}`", field.name()))),
        });
        let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
        let input = RecordBatch::try_new_with_options(Arc::clone(&self.input), columns, &options)?;
        let given = self.columns.iter().zip(self.schema.fields());
        let given = given.map(|(value, field)| match value {
            Value::Computed(value) => {
                let column = value.evaluate(&input)?.into_array(count)?;
                // Types of parameters may have been unknown when the columns were described.
                Ok(arrow::compute::cast(&column, field.data_type())?)
            }
            Value::NewVersion => Ok(new_null_array(field.data_type(), count)),
        });
        let given = given.collect::<Result<Vec<ArrayRef>>>()?;
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), given, &options)?)
    }

    /// The answer, with the version that the rows got.
    pub fn with_version(&self, given: &RecordBatch, lsn: u64) -> Result<RecordBatch> {
        let version: ArrayRef = Arc::new(UInt64Array::from_value(lsn, given.num_rows()));
        let columns = self.columns.iter().zip(given.columns()).map(|(value, column)| match value {
            Value::Computed(_) => Arc::clone(column),
            Value::NewVersion => Arc::clone(&version),
        });
        Ok(RecordBatch::try_new(given.schema(), columns.collect())?)
    }
}

/// `versioned` is the table of the written rows: their version is not known yet.
fn value(
    expression: &Expr,
    versioned: Option<&TableReference>,
    input: &DFSchema,
    state: &SessionState,
) -> Result<Value> {
    let is_version = |column: &Column| {
        column.name == ROW_VERSION && versioned == column.relation.as_ref() && versioned.is_some()
    };
    if !expression.column_refs().into_iter().any(is_version) {
        let lowered = lower_expr(expression.clone(), Phase::Operators, input, state.config_options())?;
        return Ok(Value::Computed(state.create_physical_expr(lowered, input)?));
    }
    match expression.clone().unalias() {
        Expr::Column(_) => Ok(Value::NewVersion),
        _ => Err(QueryError::new(
            ErrorKind::Unsupported,
            format!(
                "RETURNING cannot compute with `{ROW_VERSION}`, which is known when the rows are written"
            ),
        )
        .hint(format!("return `{ROW_VERSION}` as it is"))),
    }
}

/// Finds a column by its qualified name, or by its name alone: qualifiers matter only with more than one
/// table. The catalog part is dropped: it says whether a table has versions, which may differ between the two
/// plans.
fn position(layout: &DFSchema, table: Option<&TableReference>, name: &str) -> Option<usize> {
    let table = table.map(|table| match table {
        TableReference::Full { schema, table, .. } => {
            TableReference::Partial { schema: Arc::clone(schema), table: Arc::clone(table) }
        }
        short => short.clone(),
    });
    let exact = layout.index_of_column_by_name(table.as_ref(), name);
    exact.or_else(|| layout.index_of_column_by_name(None, name))
}
