//! From a parsed statement to a prepared one: names and types resolved, access checked.

use std::sync::Arc;
use std::time::Instant;

use arrow::datatypes::SchemaRef;
use datafusion::datasource::TableProvider;
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{ObjectName, Statement as SqlStatement, TableFactor, TableObject};
use futures::FutureExt;
use futures::future::BoxFuture;
use nyala_cube::live::ROW_VERSION;
use nyala_model::QualifiedName;
use nyala_sql::error::{ErrorKind, QueryError, Result};
use nyala_sql::functions::type_name;
use nyala_sql::statement::{
    IfExists, Kind, LiveNames, Statement, TargetColumn, Writing, fit_values, merge, name_tables, name_user,
};

use super::activity::TEXT_BYTES;
use super::files;
use super::live::check_conflict;
use super::plan::parts::Parts;
use super::plan::returning::Returning;
use super::prepared::Prepared;
use super::session::Session;
use super::statements::commands::command;
use super::statements::{explain, show_setting, show_tables};
use crate::session::{Settings, SnapshotContext};

impl Session {
    /// Plans a statement far enough to know its parameters and columns.
    pub fn prepare(&self, statement: Statement) -> BoxFuture<'_, Result<Prepared>> {
        self.prepare_and_log(statement).boxed()
    }

    async fn prepare_and_log(&self, statement: Statement) -> Result<Prepared> {
        self.engine.runtime.check_open()?;
        let begun = Instant::now();
        let deadline = self.own_deadline();
        let settings = self.settings();
        let preparing = self.begin_to_prepare(&statement.beginning(TEXT_BYTES), &deadline);
        let prepared = deadline.within(self.prepare_with(statement, &settings)).await;
        // A cancel or a timeout that came during planning wins.
        let prepared = prepared.and_then(|prepared| deadline.check().map(|()| prepared));
        match &prepared {
            Ok(prepared) => {
                prepared.described().prepared_within(begun.elapsed());
                preparing.finish();
            }
            Err(error) => preparing.fail(error),
        }
        prepared
    }

    async fn prepare_with(&self, mut statement: Statement, settings: &Settings) -> Result<Prepared> {
        if let Some(temporary) = settings.temporary() {
            name_tables(&mut statement, &|name| temporary.find(name));
        }
        name_user(&mut statement, &self.options().user)?;
        match known_schema(&statement) {
            Some(schema) => Ok(Prepared::command(statement, schema)),
            None => Ok(Prepared::planned(self.plan_statement(statement, settings).await?)),
        }
    }

    /// Plans a statement that is none of Nyala's own.
    pub(crate) async fn plan_statement(
        &self,
        statement: Statement,
        settings: &Settings,
    ) -> Result<Arc<Parts>> {
        let context = self.engine.snapshots.current();
        let Kind::DataFusion(mut ast) = statement.kind.clone() else {
            return Err(QueryError::internal("a statement of our own was to be planned as SQL"));
        };
        if let Some(SqlStatement::Copy { to: true, .. }) = statement.ast() {
            let message = "`COPY … TO STDOUT` is for clients of PostgreSQL's protocol";
            return Err(QueryError::new(ErrorKind::Unsupported, message)
                .hint("over HTTP, ask for the rows of a query with `Accept: text/csv`"));
        }
        show_tables::as_query(&mut ast);
        let find = |name: &ObjectName| context.live_named(name, settings);
        first_truncated(&mut ast, &find)?;
        let live = LiveNames { row_version: ROW_VERSION, find: &find };
        let merges = self.fit_values(&mut ast, &context, settings)?;
        let Writing { versions, mut if_exists, conflict, returning, deletes } =
            Writing::take(&mut ast, live)?;
        if merges {
            if_exists = IfExists::Merge;
        }
        let state = match versions {
            true => context.versioned_state(settings),
            false => context.state(settings),
        };
        let planned = Box::pin(files::planned(self, *ast, state, settings)).await;
        let mut planned = planned.map_err(|error| context.explain_missing(error))?;
        if deletes {
            planned.plan = planned.plan.deleting();
        }
        let returning = match returning {
            Some(query) => {
                let threads = &self.engine.runtime.threads;
                Some(Box::pin(Returning::plan(threads, &context, query, settings)).await?)
            }
            None => None,
        };
        let parts = Parts::of(statement, planned, &context, settings)?.writing(if_exists, returning)?;
        // Checked here too, because the columns of a table are hidden from roles that may not read it.
        let allowed = self.authorize_plans(&parts, settings);
        let text = || parts.described.statement.to_string();
        self.engine.observed.audit.statement(self.options(), text, false, &allowed);
        allowed?;
        if let Some(conflict) = &conflict {
            check_conflict(self, parts.plan.logical(), conflict)?;
        }
        Ok(Arc::new(parts))
    }

    /// Gives values of an INSERT or UPDATE the meaning that they have for the columns of its table. Returns whether it is an INSERT
    /// that merges its rows with those that are there.
    fn fit_values(
        &self,
        ast: &mut DfStatement,
        context: &SnapshotContext,
        settings: &Settings,
    ) -> Result<bool> {
        let DfStatement::Statement(statement) = ast else { return Ok(false) };
        let target = match statement.as_ref() {
            SqlStatement::Insert(insert) => match &insert.table {
                TableObject::TableName(name) => name,
                _ => return Ok(false),
            },
            SqlStatement::Update(update) => match &update.table.relation {
                TableFactor::Table { name, .. } => name,
                _ => return Ok(false),
            },
            _ => return Ok(false),
        };
        let Some(table) = context.live_table_named(target, settings) else { return Ok(false) };
        let (schema, source) = (table.schema(), table.table().source());
        let columns = schema.fields().iter().map(|field| TargetColumn {
            name: field.name().clone(),
            sql_type: type_name(field.data_type()),
            default: source.defaults.get(field.name()).cloned(),
        });
        let columns = columns.collect::<Vec<_>>();
        fit_values(statement, &columns)?;
        match statement.as_mut() {
            SqlStatement::Insert(insert) if !source.numbered => {
                merge(insert, &columns, &source.key, ROW_VERSION)
            }
            _ => Ok(false),
        }
    }

    /// The parts of the prepared statement, planned anew if names or types may have other meanings now.
    pub(crate) async fn current(&self, parts: &Arc<Parts>, settings: &Settings) -> Result<Arc<Parts>> {
        if parts.is_planned_for(self.engine.snapshots.current().snapshot(), settings) {
            return Ok(Arc::clone(parts));
        }
        self.plan_statement(parts.described.statement.clone(), settings).await
    }
}

/// Leaves the first table to a TRUNCATE of several: the others are truncated after it.
fn first_truncated(ast: &mut DfStatement, find: &dyn Fn(&ObjectName) -> Option<QualifiedName>) -> Result<()> {
    let DfStatement::Statement(statement) = ast else { return Ok(()) };
    let SqlStatement::Truncate(truncate) = statement.as_mut() else { return Ok(()) };
    if let Some(missing) = truncate.table_names.iter().skip(1).find(|table| find(&table.name).is_none()) {
        let message = format!("live table `{}` does not exist", missing.name);
        return Err(QueryError::new(ErrorKind::UndefinedTable, message));
    }
    truncate.table_names.truncate(1);
    Ok(())
}

/// Columns of statements that are not planned as SQL: `Some(None)` for none.
fn known_schema(statement: &Statement) -> Option<Option<SchemaRef>> {
    match &statement.kind {
        Kind::Nyala(statement) => Some(command(statement).schema()),
        Kind::DataFusion(_) if statement.explained().is_some() => Some(Some(explain::schema())),
        Kind::DataFusion(_) => show_setting::name(statement).map(|name| Some(show_setting::schema(&name))),
    }
}
