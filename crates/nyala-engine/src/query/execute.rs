//! From a prepared statement to its answer.

use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::logical_expr::LogicalPlan;
use futures::FutureExt;
use futures::future::BoxFuture;
use nyala_sql::error::{ErrorKind, QueryError, Result};
use nyala_sql::statement::{Kind, Nyala};

use super::activity::Running;
use super::answer::{Answer, Completion};
use super::prepared::{Parts, Prepared};
use super::run::Deadline;
use super::session::Session;
use super::{authorize, ddl, explain, live, planning, show};
use crate::session::Settings;

impl Session {
    /// Runs a prepared statement. `parameters` are cast to the types that were inferred.
    pub fn execute<'a>(
        &'a self,
        prepared: &'a Prepared,
        parameters: Vec<ScalarValue>,
    ) -> BoxFuture<'a, Result<Answer>> {
        self.run(prepared, parameters).boxed()
    }

    async fn run(&self, prepared: &Prepared, parameters: Vec<ScalarValue>) -> Result<Answer> {
        self.engine.check_open()?;
        let deadline = self.own_deadline();
        let engine = &self.engine;
        let cancel = deadline.cancel.clone();
        let running =
            Running::begin(&engine.counters, &engine.registry, prepared.text(), self.options(), cancel);
        let listed = Arc::clone(running.listed());
        let answer = deadline.within(self.dispatch(prepared, parameters, &deadline, running)).await;
        let text = || prepared.text().to_owned();
        self.engine.audit_statement(self.options(), text, prepared.changes(), &answer);
        match &answer {
            Ok(Answer::Done(_)) => listed.finish(),
            // The statement ends with its last row.
            Ok(Answer::Rows(_)) => {}
            Err(error) => listed.fail(error),
        }
        answer
    }

    /// Futures that a cached plan does not need are boxed, so that its own future stays small.
    async fn dispatch(
        &self,
        prepared: &Prepared,
        parameters: Vec<ScalarValue>,
        deadline: &Deadline,
        running: Running,
    ) -> Result<Answer> {
        let settings = self.settings();
        let statement = prepared.statement();
        match &statement.kind {
            Kind::Nyala(statement) => {
                Box::pin(self.authorize_own(statement, &settings)).await?;
                if matches!(statement, Nyala::BuildCube(_)) {
                    running.entry().waits_for_build();
                }
                Box::pin(self.run_own(statement, &settings, deadline, running)).await
            }
            Kind::DataFusion(_) => {
                if settings.nyala().check_files {
                    Box::pin(self.engine.check_files(None)).await?;
                }
                let key = self.result_key(prepared, &parameters, &settings);
                let mut running = Some(running);
                if let Some(key) = &key
                    && let Some(answer) = self.answer_again(key, &settings, deadline, &mut running)?
                {
                    return Ok(answer);
                }
                let ready = self.run_ready(prepared, &parameters, &settings, deadline, &mut running)?;
                let mut answer = match (ready, running) {
                    (Some(answer), _) => answer,
                    (None, Some(running)) => {
                        Box::pin(self.run_planned(prepared, parameters, &settings, deadline, running)).await?
                    }
                    (None, None) => return Err(QueryError::internal("a statement was lost")),
                };
                if let (Some(key), Answer::Rows(rows)) = (key, &mut answer) {
                    rows.keep(&self.engine.results, key);
                }
                Ok(answer)
            }
        }
    }

    /// Runs a statement that no cached plan answers.
    async fn run_planned(
        &self,
        prepared: &Prepared,
        parameters: Vec<ScalarValue>,
        settings: &Settings,
        deadline: &Deadline,
        running: Running,
    ) -> Result<Answer> {
        let whole = match prepared.taken_from_text() {
            Some(text) => self.prepare_with(self.parse_one(text)?, settings).await?,
            None => prepared.clone(),
        };
        let statement = whole.statement();
        if let Some((explain, inner)) = statement.explained() {
            self.authorize_query(inner.clone(), settings).await?;
            return explain::run(self, explain, inner, settings, running).await;
        }
        if let Some(name) = show::setting_name(statement) {
            return show::setting(&name, settings, running);
        }
        let parts = self.current(whole.parts(), settings).await?;
        self.run_plan(&parts, parameters, settings, deadline, running).await
    }

    async fn run_plan(
        &self,
        parts: &Parts,
        parameters: Vec<ScalarValue>,
        settings: &Settings,
        deadline: &Deadline,
        running: Running,
    ) -> Result<Answer> {
        // Also for a statement prepared earlier: a grant may have been revoked since.
        self.authorize_plans(parts, settings)?;
        let plan = parts.plan.as_ref().ok_or_else(|| QueryError::internal("a query has no plan"))?;
        match plan.logical() {
            LogicalPlan::Statement(change) => {
                use datafusion::logical_expr::Statement as Change;
                match change {
                    Change::SetVariable(set) => self.set(&set.variable, &set.value)?,
                    Change::ResetVariable(reset) => self.reset_one(&reset.variable)?,
                    other => return Err(unsupported(other.name())),
                }
                Ok(Completion::of("SET"))
            }
            LogicalPlan::Ddl(change) => {
                authorize::ddl(&self.engine, &self.options().identity, change, settings)?;
                ddl::run(&self.engine, change, &parts.statement, settings).await
            }
            LogicalPlan::Dml(dml) => {
                let work = live::write(self, dml, parts, &parameters, settings, deadline, running);
                Box::pin(work).await
            }
            LogicalPlan::Copy(_) => Err(unsupported("COPY TO")),
            _ => {
                let text = parts.statement.text();
                planning::run(self, plan, text, &parameters, settings, deadline, running).await
            }
        }
    }
}

fn unsupported(what: &str) -> QueryError {
    QueryError::new(ErrorKind::Unsupported, format!("{what} is not supported"))
}
