//! `COPY … TO 'location'`: the rows of a query as a file.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use datafusion::execution::object_store::ObjectStoreRegistry;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::Statement as SqlStatement;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use nyala_sql::error::{ErrorKind, QueryError, Result};
use nyala_sql::statement::{CopyTo, Statement, unmarked};

use super::encode::{FileStyle, Format};
use super::upload::Upload;
use crate::query::answer::{Answer, Completion, RowStream};
use crate::query::authorize::Caller;
use crate::query::command::Command;
use crate::query::execution::Execution;
use crate::query::plan::logical::Unoptimized;
use crate::query::resources::task::Task;
use crate::query::run_query::{self, Query};

/// `COPY … TO 'location'`.
pub struct CopyRowsTo<'s>(pub &'s CopyTo);

impl Command for CopyRowsTo<'_> {
    fn authorize(&self, caller: &Caller<'_>) -> Result<()> {
        caller.require_superuser(&format!("writing a file to `{}`", self.0.target))
    }

    fn query(&self) -> Option<DfStatement> {
        Some(DfStatement::Statement(Box::new(SqlStatement::Query(self.0.query.clone()))))
    }

    fn run<'a>(&'a self, execution: Execution<'a>) -> BoxFuture<'a, Result<Answer>> {
        run(self.0, execution).boxed()
    }
}

async fn run(copy: &CopyTo, execution: Execution<'_>) -> Result<Answer> {
    let engine = Arc::clone(execution.engine());
    let style = FileStyle::new(&copy.target, &copy.options)?;
    let stores = engine.snapshots.stores();
    let target = stores.check_target(&copy.target)?;
    stores.open(&target)?;
    let store = stores.get_store(target.url())?;
    let upload = Upload::new(store, target.path().clone(), engine.runtime.background.clone());
    let query = Statement::from_ast(SqlStatement::Query(copy.query.clone()));
    let parts = execution.session.plan_statement(query, &execution.settings).await?;
    let plan = match style.format {
        Format::Csv => as_texts(parts.plan.logical())?,
        _ => parts.plan.as_ref().clone(),
    };
    let scope = execution.running.scope();
    execution.running.entry().set_goes_on(true);
    let answer =
        run_query::run(Query { plan: &plan, text: None, parameters: &[], reads: None }, execution).await?;
    let Answer::Rows(rows) = answer else { return Err(QueryError::internal("a query gives no rows")) };
    let rows = Task::spawn(&engine.runtime.threads, scope, write(rows, style, upload)).join().await?;
    engine.snapshots.stores().forget_lists();
    Ok(Answer::Done(Completion { tag: "COPY".to_owned(), rows: Some(rows), notice: None }))
}

/// CSV has the texts that `::text` gives, which can be read again.
fn as_texts(plan: &LogicalPlan) -> Result<Unoptimized> {
    let text = |(qualifier, field): (Option<&datafusion::common::TableReference>, &FieldRef)| {
        let column = Expr::from((qualifier, field));
        match field.data_type() {
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Boolean => Ok(column),
            kind if kind.is_integer() => Ok(column),
            _ => Ok(column.cast_to(&DataType::Utf8, plan.schema())?.alias(field.name())),
        }
    };
    let columns = plan.schema().iter().map(text).collect::<Result<Vec<_>>>()?;
    Ok(Unoptimized::Resolved(LogicalPlanBuilder::from(plan.clone()).project(columns)?.build()?))
}

/// Writes all rows; returns how many there are.
async fn write(mut rows: RowStream, style: FileStyle, mut upload: Upload) -> Result<u64> {
    let schema = plain(&rows.schema());
    let twice = schema.fields().iter().enumerate().find(|(place, field)| {
        schema.fields().iter().take(*place).any(|earlier| earlier.name() == field.name())
    });
    if let Some((_, field)) = twice.filter(|_| style.format != Format::Csv) {
        let message = format!("column `{}` appears twice", field.name());
        return Err(
            QueryError::new(ErrorKind::DuplicateColumn, message).hint("give each column a name with AS")
        );
    }
    let mut encoder = style.begin(&schema)?;
    let mut count = 0;
    while let Some(batch) = rows.next().await {
        let batch = batch?;
        count += batch.num_rows() as u64;
        let batch = RecordBatch::try_new(Arc::clone(&schema), batch.columns().to_vec())?;
        upload.write(&encoder.push(&batch)?).await?;
    }
    upload.write(&encoder.finish()?).await?;
    upload.finish().await?;
    Ok(count)
}

/// The columns under the names that a client sees.
fn plain(schema: &SchemaRef) -> SchemaRef {
    let field = |field: &FieldRef| {
        Arc::new(Field::new(unmarked(field.name()), field.data_type().clone(), field.is_nullable()))
    };
    Arc::new(Schema::new(schema.fields().iter().map(field).collect::<Vec<_>>()))
}
