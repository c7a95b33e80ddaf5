//! From a parsed statement to a prepared one: names and types resolved, access checked.

use std::sync::{Arc, OnceLock};

use arrow::datatypes::SchemaRef;
use datafusion::sql::sqlparser::ast::{ObjectName, Statement as SqlStatement};
use futures::FutureExt;
use futures::future::BoxFuture;
use nyala_cube::live::ROW_VERSION;
use nyala_sql::error::{ErrorKind, QueryError, Result};
use nyala_sql::statement::{IfExists, Kind, LiveNames, Statement, Writing};

use super::activity::TEXT_BYTES;
use super::live::{Returning, check_conflict};
use super::prepared::{Parts, Prepared};
use super::session::Session;
use super::{authorize, explain, planning, show};
use crate::session::Settings;

impl Session {
    /// Plans a statement far enough to know its parameters and columns.
    pub fn prepare(&self, statement: Statement) -> BoxFuture<'_, Result<Prepared>> {
        self.prepare_and_log(statement).boxed()
    }

    async fn prepare_and_log(&self, statement: Statement) -> Result<Prepared> {
        self.engine.check_open()?;
        let deadline = self.own_deadline();
        let settings = self.settings();
        let preparing = self.begin_to_prepare(&statement.beginning(TEXT_BYTES), &deadline);
        let prepared = deadline.within(self.prepare_with(statement, &settings)).await;
        // A cancel or a timeout that came during planning wins.
        let prepared = prepared.and_then(|prepared| deadline.check().map(|()| prepared));
        match &prepared {
            Ok(_) => preparing.finish(),
            Err(error) => preparing.fail(error),
        }
        prepared
    }

    pub(super) async fn prepare_with(&self, statement: Statement, settings: &Settings) -> Result<Prepared> {
        let context = self.engine.context();
        if let Some(schema) = self.known_schema(&statement) {
            let planned_for = (context.snapshot().version, Arc::clone(settings.key()));
            let (parameter_types, if_exists) = (Vec::new(), IfExists::default());
            let parts = Parts {
                statement,
                parameter_types,
                schema,
                plan: None,
                planned_for,
                if_exists,
                returning: None,
                shown: OnceLock::new(),
                kept: OnceLock::new(),
            };
            return Ok(Prepared::from_parts(Arc::new(parts)));
        }
        let Kind::DataFusion(mut ast) = statement.kind.clone() else {
            return Err(QueryError::internal("a statement of our own was to be planned as SQL"));
        };
        if let Some(SqlStatement::Copy { to: true, .. }) = statement.ast() {
            let message = "`COPY … TO STDOUT` is for clients of PostgreSQL's protocol";
            return Err(QueryError::new(ErrorKind::Unsupported, message)
                .hint("over HTTP, ask for the rows of a query with `Accept: text/csv`"));
        }
        let find = |name: &ObjectName| context.live_named(name, settings);
        let live = LiveNames { row_version: ROW_VERSION, find: &find };
        let Writing { versions, if_exists, conflict, returning, deletes } = Writing::take(&mut ast, live)?;
        let state = match versions {
            true => context.versioned_state(settings),
            false => context.state(settings),
        };
        let planned = self.engine.threads.plan(planning::logical_plan(*ast, state)).await;
        let mut planned = planned.map_err(|error| context.explain_missing(error))?;
        if deletes {
            planned.plan = planned.plan.deleting();
        }
        let returning = match returning {
            Some(query) => Some(Box::pin(Returning::plan(&self.engine, query, settings)).await?),
            None => None,
        };
        let parts = Parts::of(statement, planned, &context, settings)?.writing(if_exists, returning)?;
        // Checked here too, because the columns of a table are hidden from roles that may not read it.
        let allowed = self.authorize_plans(&parts, settings);
        self.engine.audit_statement(self.options(), || parts.statement.to_string(), false, &allowed);
        allowed?;
        if let (Some(conflict), Some(plan)) = (&conflict, &parts.plan) {
            check_conflict(self, plan.logical(), conflict)?;
        }
        Ok(Prepared::from_parts(Arc::new(parts)))
    }

    pub(super) fn authorize_plans(&self, parts: &Parts, settings: &Settings) -> Result<()> {
        let identity = &self.options().identity;
        parts.plans().try_for_each(|plan| authorize::plan(&self.engine, identity, plan, settings))
    }

    /// Columns of statements that are not planned as SQL: `Some(None)` for none.
    fn known_schema(&self, statement: &Statement) -> Option<Option<SchemaRef>> {
        match &statement.kind {
            Kind::Nyala(statement) => Some(show::schema(statement)),
            Kind::DataFusion(_) if statement.explained().is_some() => Some(Some(explain::schema())),
            Kind::DataFusion(_) => {
                show::setting_name(statement).map(|name| Some(show::setting_schema(&name)))
            }
        }
    }

    /// The parts of the prepared statement, planned anew if names or types may have other meanings now.
    pub(super) async fn current(&self, parts: &Arc<Parts>, settings: &Settings) -> Result<Arc<Parts>> {
        let now = (self.engine.context().snapshot().version, settings.key());
        match parts.plan {
            Some(_) if (parts.planned_for.0, &parts.planned_for.1) == now => Ok(Arc::clone(parts)),
            _ => Ok(self.prepare_with(parts.statement.clone(), settings).await?.parts().clone()),
        }
    }
}
