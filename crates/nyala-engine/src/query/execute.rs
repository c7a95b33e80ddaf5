//! From a prepared statement to its answer.

use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::Statement as DfStatement;
use futures::FutureExt;
use futures::future::BoxFuture;
use nyala_sql::error::{ErrorKind, Owner, QueryError, Result};
use nyala_sql::statement::Kind;

use super::answer::{Answer, Completion};
use super::authorize::Caller;
use super::deadline::Deadline;
use super::execution::Execution;
use super::files;
use super::forward::may_do_better_here;
use super::plan::parts::{Described, Parts};
use super::prepared::{Form, Prepared};
use super::run_query::{Query, kept_elsewhere};
use super::session::Session;
use super::statements::commands::command;
use super::statements::{ddl, explain, show_setting};
use super::text::only;
use super::{live, run_query};
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
        self.engine.runtime.check_open()?;
        let deadline = self.own_deadline();
        let execution = self.begin_execution(prepared, &deadline, false);
        let listed = Arc::clone(execution.running.listed());
        // The parameters are copied only if the statement may be sent to another node.
        let again = self.engine.catalog().is_shared().then(|| parameters.clone());
        let again = again.filter(|_| self.options().sent_by.is_none());
        let kept = again.is_some().then(|| self.kept_by(prepared)).flatten();
        let mut answer = match kept {
            Some(node) => {
                drop(execution);
                Err(kept_elsewhere(node))
            }
            None => deadline.within(self.dispatch(prepared, parameters, execution)).await,
        };
        if let Err(QueryError { owner: Some(owner), .. }) = &answer
            && let Some(parameters) = again
        {
            let owner = owner.as_ref().clone();
            listed.hand_over();
            drop(listed);
            answer = Box::pin(self.run_elsewhere(&owner, prepared, parameters, &deadline)).await;
            let text = || prepared.text().to_owned();
            self.engine.observed.audit.statement(self.options(), text, prepared.changes(), &answer);
            return answer;
        }
        let text = || prepared.text().to_owned();
        self.engine.observed.audit.statement(self.options(), text, prepared.changes(), &answer);
        match &answer {
            Ok(Answer::Done(_)) => listed.finish(),
            // The statement ends with its last row.
            Ok(Answer::Rows(_)) => {}
            Err(error) => listed.fail(error),
        }
        answer
    }

    /// Lists the statement as running; with `only_here`, another node was tried already.
    fn begin_execution(&self, prepared: &Prepared, deadline: &Deadline, only_here: bool) -> Execution<'_> {
        let running = self.begin(prepared.text(), deadline);
        running.entry().was_prepared_within(prepared.described().take_preparing());
        Execution { session: self, settings: self.settings(), deadline: deadline.clone(), running, only_here }
    }

    /// Runs a statement on the node that has what it needs. If that node is not reached and this node can do it, too, runs it here.
    async fn run_elsewhere(
        &self,
        owner: &Owner,
        prepared: &Prepared,
        parameters: Vec<ScalarValue>,
        deadline: &Deadline,
    ) -> Result<Answer> {
        let again = owner.optional.then(|| parameters.clone());
        let forwarded = self.forward(owner, prepared, parameters, deadline);
        let answer = match prepared.changes() {
            // A change on another node is waited for: a client must not be told that rows were not written if they were.
            true => deadline.within(deadline.hand_over(forwarded)).await,
            false => deadline.within(forwarded).await,
        };
        match (answer, again) {
            (Err(error), Some(parameters)) if may_do_better_here(&error) => {
                self.engine.cuboid_homes.avoid(&owner.node);
                let execution = self.begin_execution(prepared, deadline, true);
                let listed = Arc::clone(execution.running.listed());
                let answer = deadline.within(Box::pin(self.dispatch(prepared, parameters, execution))).await;
                if let Err(error) = &answer {
                    listed.fail(error);
                }
                answer
            }
            (answer, _) => answer,
        }
    }

    /// Runs a statement by its form. Futures that a cached plan does not need are boxed, so that its own future stays small.
    async fn dispatch(
        &self,
        prepared: &Prepared,
        parameters: Vec<ScalarValue>,
        execution: Execution<'_>,
    ) -> Result<Answer> {
        if let Form::Command(described) = prepared.form() {
            return Box::pin(self.run_command(described, execution)).await;
        }
        let settings = execution.settings.clone();
        if settings.nyala().check_files {
            Box::pin(self.engine.check_files(None)).await?;
        }
        let key = self.result_key(prepared, &parameters, &settings);
        if let Some(key) = &key
            && let Some(known) = self.known_answer(key, &settings)?
        {
            return Ok(known.repeat(execution));
        }
        let mut answer = match self.bind_ready_plan(prepared, &parameters, &settings)? {
            Some(ready) => ready.start(execution)?,
            None => Box::pin(self.run_planned(prepared, parameters, execution)).await?,
        };
        if let (Some(key), Answer::Rows(rows)) = (key, &mut answer) {
            rows.keep(&self.engine.results, key);
        }
        Ok(answer)
    }

    /// Runs a statement that DataFusion does not plan.
    async fn run_command(&self, described: &Described, execution: Execution<'_>) -> Result<Answer> {
        match &described.statement.kind {
            Kind::Nyala(statement) => {
                let command = command(statement);
                if let Some(caller) = Caller::of(self, &execution.settings) {
                    command.authorize(&caller)?;
                }
                if let Some(query) = command.query() {
                    self.authorize_query(query, &execution.settings).await?;
                }
                command.run(execution).await
            }
            Kind::DataFusion(_) => {
                if let Some((explained, inner)) = described.statement.explained() {
                    if execution.settings.nyala().check_files {
                        self.engine.check_files(None).await?;
                    }
                    self.authorize_query(inner.clone(), &execution.settings).await?;
                    return explain::run(explained, inner, execution).await;
                }
                match show_setting::name(&described.statement) {
                    Some(name) => show_setting::run(&name, execution),
                    None => Err(QueryError::internal("a query was not planned")),
                }
            }
        }
    }

    /// Runs a statement that no cached plan answers.
    async fn run_planned(
        &self,
        prepared: &Prepared,
        parameters: Vec<ScalarValue>,
        execution: Execution<'_>,
    ) -> Result<Answer> {
        let parts = match prepared.form() {
            Form::Planned(parts) => self.current(parts, &execution.settings).await?,
            Form::OfShape(text) => {
                let statement = only(self.parse(&text.sql)?)?;
                self.plan_statement(statement, &execution.settings).await?
            }
            Form::Command(described) => return self.run_command(described, execution).await,
        };
        self.run_parts(&parts, parameters, execution).await
    }

    async fn run_parts(
        &self,
        parts: &Parts,
        parameters: Vec<ScalarValue>,
        execution: Execution<'_>,
    ) -> Result<Answer> {
        // Checked also for a statement that was prepared earlier: a grant may have been revoked since.
        self.authorize_plans(parts, &execution.settings)?;
        match parts.plan.logical() {
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
                if let Some(caller) = Caller::of(self, &execution.settings) {
                    caller.may_change(change)?;
                }
                ddl::run(&execution, change, &parts.described.statement).await
            }
            LogicalPlan::Dml(dml) => Box::pin(live::write(dml, parts, &parameters, execution)).await,
            LogicalPlan::Copy(_) => Err(unsupported("COPY TO")),
            _ => {
                let text = parts.described.statement.text();
                let reads = Some(&parts.reads);
                let query = Query { plan: &parts.plan, text, parameters: &parameters, reads };
                run_query::run(query, execution).await
            }
        }
    }

    /// Plans a query only to check the tables it reads; skipped for the owner and for superusers.
    async fn authorize_query(&self, query: DfStatement, settings: &Settings) -> Result<()> {
        let Some(caller) = Caller::of(self, settings) else { return Ok(()) };
        let context = self.engine.snapshots.current();
        let planned = Box::pin(files::planned(self, query, context.state(settings), settings)).await;
        let planned = planned.map_err(|error| context.explain_missing(error))?;
        caller.may_read(&planned.reads)
    }

    /// Checks the tables and views that a statement reads.
    pub(crate) fn authorize_plans(&self, parts: &Parts, settings: &Settings) -> Result<()> {
        match Caller::of(self, settings) {
            Some(caller) => caller.may_read(&parts.reads),
            None => Ok(()),
        }
    }
}

fn unsupported(what: &str) -> QueryError {
    QueryError::new(ErrorKind::Unsupported, format!("{what} is not supported"))
}
