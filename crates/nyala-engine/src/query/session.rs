//! One client's way into the engine.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::Statement as DfStatement;
use nyala_model::{JobId, SnapshotVersion};
use tokio_util::sync::CancellationToken;

use super::activity::{Running, fail};
use super::admission::Group;
use super::answer::{Answer, Completion};
use super::engine::Engine;
use super::live::Returning;
use super::planning::{self, Planned, Unoptimized};
use super::run::Deadline;
use super::{
    alter, analyze, authorize, build, check, ddl, explain, history, live, recommend, roles, segments, show,
};
use crate::access::Identity;
use crate::error::{ErrorKind, QueryError, Result};
use crate::live::ROW_VERSION;
use crate::session::{Settings, SnapshotContext};
use crate::statement::{IfExists, Kind, LiveStatement, Nyala, Statement, Writing, parse};

/// Who a session belongs to, for logs and limits.
#[derive(Debug, Clone, Default)]
pub struct SessionOptions {
    /// Name of the user.
    pub user: String,
    /// What the client calls itself.
    pub application: String,
    /// Where it comes from.
    pub client: String,
    /// What it may do.
    pub identity: Identity,
}

/// A client's settings and running statement. One for each connection, or for each HTTP request.
#[derive(Debug)]
pub struct Session {
    pub(super) engine: Arc<Engine>,
    options: Arc<SessionOptions>,
    settings: Mutex<Settings>,
    running: Mutex<CancellationToken>,
}

/// A statement planned far enough to know what it takes and gives. It may be executed many times; when
/// the catalog has changed it is planned anew. Cheap to copy.
#[derive(Debug, Clone)]
pub struct Prepared {
    parts: Arc<Parts>,
    /// For a statement that is the shape of a text.
    taken: Option<Arc<Taken>>,
}

/// What planning found about a statement.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) statement: Statement,
    parameter_types: Vec<Option<DataType>>,
    schema: Option<SchemaRef>,
    pub(super) plan: Option<Arc<Unoptimized>>,
    planned_for: (SnapshotVersion, Arc<str>),
    /// For an INSERT.
    pub(super) if_exists: IfExists,
    /// For a statement that gives back what it writes.
    pub(super) returning: Option<Returning>,
}

/// A text, and the values that were taken out of it.
#[derive(Debug)]
struct Taken {
    sql: String,
    values: Vec<ScalarValue>,
}

impl Parts {
    pub(super) fn of(
        statement: Statement,
        planned: Planned,
        context: &SnapshotContext,
        settings: &Settings,
    ) -> Result<Self> {
        Ok(Self {
            statement,
            parameter_types: planning::parameter_types(planned.plan.logical())?,
            schema: planned.schema,
            plan: Some(Arc::new(planned.plan)),
            planned_for: (context.snapshot().version, Arc::clone(settings.schema())),
            if_exists: IfExists::default(),
            returning: None,
        })
    }

    /// The same for a statement that writes.
    fn writing(mut self, if_exists: IfExists, returning: Option<Returning>) -> Result<Self> {
        if let Some(returning) = &returning {
            self.schema = Some(Arc::clone(returning.schema()));
            let further = planning::parameter_types(returning.logical())?;
            self.parameter_types = planning::either_types(self.parameter_types, further);
        }
        Ok(Self { if_exists, returning, ..self })
    }

    /// Everything it reads and writes.
    fn plans(&self) -> impl Iterator<Item = &LogicalPlan> {
        let plan = self.plan.as_ref().map(|plan| plan.logical());
        plan.into_iter().chain(self.returning.as_ref().map(Returning::logical))
    }

    /// Length of its text.
    pub(super) fn text_bytes(&self) -> usize {
        self.statement.text().map_or(0, |text| text.len())
    }
}

impl Prepared {
    pub(super) fn from_parts(parts: Arc<Parts>) -> Self {
        Self { parts, taken: None }
    }

    /// The statement `sql`, as the shape it has and the values that were taken out.
    pub(super) fn taken_from(sql: &str, shape: Arc<Parts>, values: Vec<ScalarValue>) -> Self {
        Self { parts: shape, taken: Some(Arc::new(Taken { sql: sql.to_owned(), values })) }
    }

    pub(super) fn parts(&self) -> &Arc<Parts> {
        &self.parts
    }

    /// Values of the parameters that nobody has to give.
    pub(super) fn taken(&self) -> Option<&[ScalarValue]> {
        self.taken.as_ref().map(|taken| taken.values.as_slice())
    }

    /// The text as the client wrote it, or as the statement displays.
    fn text(&self) -> Cow<'_, str> {
        self.exact_text().map_or_else(|| Cow::Owned(self.parts.statement.to_string()), Cow::Borrowed)
    }

    /// The text as the client wrote it, if that is known and stands for nothing else.
    pub(super) fn exact_text(&self) -> Option<&str> {
        match (&self.taken, self.parts.statement.text()) {
            (Some(taken), _) => Some(&taken.sql),
            (None, text) => text.map(AsRef::as_ref),
        }
    }

    /// The statement. If values were taken out of its text, it has parameters for them.
    pub fn statement(&self) -> &Statement {
        &self.parts.statement
    }

    /// Type of each parameter, `$1` first; none where it could not be inferred.
    pub fn parameter_types(&self) -> &[Option<DataType>] {
        match self.taken {
            Some(_) => &[],
            None => &self.parts.parameter_types,
        }
    }

    /// Whether it changes what exists, rows of tables, or who may do what.
    fn changes(&self) -> bool {
        match &self.parts.statement.kind {
            Kind::Nyala(statement) => show::schema(statement).is_none(),
            Kind::DataFusion(_) => {
                let plan = self.parts.plan.as_ref().map(|plan| plan.logical());
                matches!(plan, Some(LogicalPlan::Ddl(_))) || self.writes_rows()
            }
        }
    }

    /// Whether it writes rows, also if it gives some back.
    pub fn writes_rows(&self) -> bool {
        let plan = self.parts.plan.as_ref().map(|plan| plan.logical());
        matches!(plan, Some(LogicalPlan::Dml(_)))
    }

    /// Columns of the result; none if it gives no rows.
    pub fn schema(&self) -> Option<SchemaRef> {
        self.parts.schema.clone()
    }
}

impl Session {
    pub(super) fn new(engine: Arc<Engine>, options: SessionOptions) -> Self {
        let settings = Settings::new(engine.context().default_options(), &engine.query_config);
        let token = engine.stopping.child_token();
        Self {
            engine,
            options: Arc::new(options),
            settings: Mutex::new(settings),
            running: Mutex::new(token),
        }
    }

    /// Who the session belongs to.
    pub fn options(&self) -> &Arc<SessionOptions> {
        &self.options
    }

    /// Splits a text into statements after checking its size and shape. An empty text has none.
    pub fn parse(&self, sql: &str) -> Result<Vec<Statement>> {
        let begun = Instant::now();
        let parsed = parse(sql, self.engine.limits());
        self.engine.registry.phases().parsed(begun.elapsed());
        parsed
    }

    /// Plans a statement far enough to know its parameters and columns.
    pub async fn prepare(&self, statement: Statement) -> Result<Prepared> {
        self.engine.check_open()?;
        let deadline = self.deadline();
        let settings = self.settings();
        deadline.within(self.prepare_with(statement, &settings)).await
    }

    async fn prepare_with(&self, statement: Statement, settings: &Settings) -> Result<Prepared> {
        let context = self.engine.context();
        if let Some(schema) = self.known_schema(&statement) {
            let planned_for = (context.snapshot().version, Arc::clone(settings.schema()));
            let (parameter_types, if_exists) = (Vec::new(), IfExists::default());
            let (plan, returning) = (None, None);
            let parts = Parts { statement, parameter_types, schema, plan, planned_for, if_exists, returning };
            return Ok(Prepared::from_parts(Arc::new(parts)));
        }
        let Kind::DataFusion(mut ast) = statement.kind.clone() else {
            return Err(QueryError::internal("a statement of our own was to be planned as SQL"));
        };
        let Writing { versions, if_exists, returning } = Writing::take(&mut ast, ROW_VERSION)?;
        let state = match versions {
            true => context.versioned_state(settings),
            false => context.state(settings),
        };
        let planned = self.engine.threads.plan(planning::logical_plan(*ast, state)).await;
        let planned = planned.map_err(|error| context.explain_missing(error))?;
        let returning = match returning {
            Some(query) => Some(Box::pin(Returning::plan(&self.engine, query, settings)).await?),
            None => None,
        };
        let parts = Parts::of(statement, planned, &context, settings)?.writing(if_exists, returning)?;
        // Here too, because the columns of a table are nobody's business who may not read it.
        let allowed = self.authorize_plans(&parts, settings);
        self.engine.audit_statement(&self.options, || parts.statement.to_string(), false, &allowed);
        allowed?;
        Ok(Prepared::from_parts(Arc::new(parts)))
    }

    fn authorize_plans(&self, parts: &Parts, settings: &Settings) -> Result<()> {
        let identity = &self.options.identity;
        parts.plans().try_for_each(|plan| authorize::plan(&self.engine, identity, plan, settings))
    }

    /// Columns of statements that are not planned as SQL: `Some(None)` for none.
    fn known_schema(&self, statement: &Statement) -> Option<Option<SchemaRef>> {
        match &statement.kind {
            Kind::Nyala(statement) => Some(show::schema(statement)),
            Kind::DataFusion(_) if statement.explained().is_some() => Some(Some(explain::schema())),
            Kind::DataFusion(_) => show::setting_name(statement)
                .filter(|n| self.setting(n).is_some())
                .map(|name| Some(show::setting_schema(&name))),
        }
    }

    /// Runs a prepared statement. `parameters` are cast to the types that were inferred.
    pub async fn execute(&self, prepared: &Prepared, parameters: Vec<ScalarValue>) -> Result<Answer> {
        self.engine.check_open()?;
        let deadline = self.own_deadline();
        let engine = &self.engine;
        let cancel = deadline.cancel.clone();
        let running =
            Running::begin(&engine.counters, &engine.registry, &prepared.text(), &self.options, cancel);
        let entry = Arc::clone(running.entry());
        let answer = deadline.within(self.dispatch(prepared, parameters, &deadline, running)).await;
        self.engine.audit_statement(
            &self.options,
            || prepared.text().into_owned(),
            prepared.changes(),
            &answer,
        );
        if let Err(error) = &answer {
            fail(&engine.counters, &entry, error);
        }
        answer
    }

    /// What ready plans do not need is in boxes, so that the state of a connection stays small.
    async fn dispatch(
        &self,
        prepared: &Prepared,
        parameters: Vec<ScalarValue>,
        deadline: &Deadline,
        running: Running,
    ) -> Result<Answer> {
        let settings = self.settings();
        let statement = &prepared.parts.statement;
        match &statement.kind {
            Kind::Nyala(statement) => {
                Box::pin(self.authorize_own(statement, &settings)).await?;
                Box::pin(self.run_own(statement, &settings, deadline, running)).await
            }
            Kind::DataFusion(_) => {
                if settings.nyala().check_files {
                    Box::pin(self.engine.check_files(None)).await?;
                }
                let key = self.result_key(prepared, &parameters, &settings);
                let mut running = Some(running);
                if let Some(key) = &key
                    && let Some(answer) = self.answer_again(key, &settings, &mut running)?
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

    /// Runs a statement that no ready plan answers.
    async fn run_planned(
        &self,
        prepared: &Prepared,
        parameters: Vec<ScalarValue>,
        settings: &Settings,
        deadline: &Deadline,
        running: Running,
    ) -> Result<Answer> {
        let whole = match &prepared.taken {
            Some(taken) => self.prepare_with(self.parse_one(&taken.sql)?, settings).await?,
            None => prepared.clone(),
        };
        let statement = &whole.parts.statement;
        if let Some((explain, inner)) = statement.explained() {
            self.authorize_query(inner.clone(), settings).await?;
            return explain::run(&self.engine, explain, inner, settings, running).await;
        }
        if let Some(name) = show::setting_name(statement)
            && let Some(value) = self.setting(&name)
        {
            return show::setting(&name, &value, running);
        }
        let parts = self.current(&whole.parts, settings).await?;
        self.run_plan(&parts, parameters, settings, deadline, running).await
    }

    /// What was planned when the statement was prepared, or anew if names may mean other things now.
    async fn current(&self, parts: &Arc<Parts>, settings: &Settings) -> Result<Arc<Parts>> {
        let now = (self.engine.context().snapshot().version, settings.schema());
        match parts.plan {
            Some(_) if (parts.planned_for.0, &parts.planned_for.1) == now => Ok(Arc::clone(parts)),
            _ => Ok(self.prepare_with(parts.statement.clone(), settings).await?.parts),
        }
    }

    async fn authorize_own(&self, statement: &Nyala, settings: &Settings) -> Result<()> {
        authorize::own(&self.engine, &self.options.identity, statement, settings)?;
        match statement {
            Nyala::CreateCube(create) => {
                self.authorize_query(Statement::query(create.query.clone()), settings).await
            }
            Nyala::Live(live) => match live.as_ref() {
                LiveStatement::CreateTable { create, .. } => match &create.query {
                    Some(query) => self.authorize_query(Statement::query(query.clone()), settings).await,
                    None => Ok(()),
                },
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// Plans a query only to see what it reads; who may do everything is spared that.
    async fn authorize_query(&self, query: DfStatement, settings: &Settings) -> Result<()> {
        if self.options.identity.may_everything(&self.engine.catalog().snapshot()) {
            return Ok(());
        }
        let context = self.engine.context();
        let planned = self.engine.threads.plan(planning::logical_plan(query, context.state(settings))).await;
        let planned = planned.map_err(|error| context.explain_missing(error))?;
        authorize::plan(&self.engine, &self.options.identity, planned.plan.logical(), settings)
    }

    async fn run_own(
        &self,
        statement: &Nyala,
        settings: &Settings,
        deadline: &Deadline,
        running: Running,
    ) -> Result<Answer> {
        let engine = &self.engine;
        match statement {
            Nyala::CreateCube(create) => ddl::create_cube(engine, create, settings).await,
            Nyala::AlterCube(statement) => Box::pin(alter::run(engine, statement, settings)).await,
            Nyala::DropCube { name, if_exists } => {
                ddl::drop_cube(engine, ddl::name_of(name, settings.schema())?, *if_exists).await
            }
            Nyala::BuildCube(statement) => {
                let name = ddl::name_of(&statement.name, settings.schema())?;
                build::run(engine, statement, name, settings).await
            }
            Nyala::ShowCubes => Ok(show::rows(show::cubes(engine)?, running)),
            Nyala::ShowSegments { cube } => {
                let cube = cube.as_ref().map(|name| ddl::name_of(name, settings.schema())).transpose()?;
                Ok(show::rows(segments::segments(engine, cube.as_ref())?, running))
            }
            Nyala::ShowCuboids { cube } => {
                let cube = cube.as_ref().map(|name| ddl::name_of(name, settings.schema())).transpose()?;
                Ok(show::rows(segments::cuboids(engine, cube.as_ref())?, running))
            }
            Nyala::ShowJobs => Ok(show::rows(show::jobs(engine).await?, running)),
            Nyala::CancelJob(job) => {
                engine.cancel_job(JobId(*job)).await?;
                Ok(Completion::of("CANCEL JOB"))
            }
            Nyala::KillQuery { id } => engine.kill(*id),
            Nyala::Live(statement) => Box::pin(live::run(self, statement, settings, deadline, running)).await,
            Nyala::Role(statement) => roles::run(engine, statement, settings, running).await,
            Nyala::ShowQueryHistory => Ok(show::rows(history::show(engine).await?, running)),
            Nyala::AnalyzeCube { name } => {
                analyze::run(engine, &ddl::name_of(name, settings.schema())?, running).await
            }
            Nyala::RecommendCube(wish) => Box::pin(recommend::run(engine, wish, settings, running)).await,
            Nyala::CheckCube { name, sample } => {
                let name = ddl::name_of(name, settings.schema())?;
                Box::pin(check::run(engine, &name, *sample, settings, running)).await
            }
        }
    }

    async fn run_plan(
        &self,
        parts: &Parts,
        parameters: Vec<ScalarValue>,
        settings: &Settings,
        deadline: &Deadline,
        running: Running,
    ) -> Result<Answer> {
        // Also what was prepared before: since then it may have been forbidden.
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
                authorize::ddl(&self.engine, &self.options.identity, change, settings)?;
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

    /// Parses exactly one statement and runs it without parameters.
    pub async fn query(&self, sql: &str) -> Result<Answer> {
        let prepared = match self.recall(sql) {
            Some(prepared) => prepared,
            None => self.prepare(self.parse_one(sql)?).await?,
        };
        self.execute(&prepared, Vec::new()).await
    }

    fn parse_one(&self, sql: &str) -> Result<Statement> {
        let mut statements = self.parse(sql)?;
        match (statements.pop(), statements.is_empty()) {
            (Some(statement), true) => Ok(statement),
            (None, _) => Err(QueryError::new(ErrorKind::Syntax, "statement is empty")),
            (Some(_), false) => Err(QueryError::new(ErrorKind::Syntax, "text has more than one statement")
                .hint("send one statement at a time")),
        }
    }

    /// Ends whatever this session runs now. Harmless when it runs nothing.
    pub fn cancel(&self) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.cancel();
        *running = self.engine.stopping.child_token();
    }

    /// Changes a setting of this session.
    pub fn set(&self, name: &str, value: &str) -> Result<()> {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner).set(name, value)
    }

    /// The value of a setting, as text; none if there is no such setting.
    pub fn setting(&self, name: &str) -> Option<String> {
        self.settings().get(name)
    }

    /// Brings every setting back to what a new session has.
    pub fn reset(&self) {
        let fresh = Settings::new(self.engine.context().default_options(), &self.engine.query_config);
        *self.settings.lock().unwrap_or_else(PoisonError::into_inner) = fresh;
    }

    fn reset_one(&self, name: &str) -> Result<()> {
        let fresh = Settings::new(self.engine.context().default_options(), &self.engine.query_config);
        match fresh.get(name) {
            Some(value) => self.set(name, &value),
            None => {
                Err(QueryError::new(ErrorKind::UndefinedObject, format!("setting `{name}` does not exist")))
            }
        }
    }

    /// The resource group of its queries.
    pub(super) fn group(&self, settings: &Settings) -> Result<Arc<Group>> {
        let chosen = settings.nyala().resource_group;
        self.engine.admission.group(&chosen, &self.options, settings.schema()).cloned()
    }

    pub(super) fn settings(&self) -> Settings {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A further part of a statement that runs.
    pub(super) fn begin(&self, text: &str, deadline: &Deadline) -> Running {
        let cancel = deadline.cancel.child_token();
        Running::begin(&self.engine.counters, &self.engine.registry, text, &self.options, cancel)
    }

    /// The same, of a statement that can be ended without the others of the session.
    pub(super) fn own_deadline(&self) -> Deadline {
        let deadline = self.deadline();
        Deadline { cancel: deadline.cancel.child_token(), ..deadline }
    }

    /// When a statement that begins now must end.
    fn deadline(&self) -> Deadline {
        let cancel = self.running.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let timeout = self.settings().statement_timeout();
        Deadline {
            cancel,
            stopping: self.engine.stopping.clone(),
            at: timeout.map(|timeout| Instant::now() + timeout),
        }
    }
}

fn unsupported(what: &str) -> QueryError {
    QueryError::new(ErrorKind::Unsupported, format!("{what} is not supported"))
}

/// The types of `$1`, `$2`, … in order. A number that is not used has no type.
pub(super) fn in_order(types: BTreeMap<usize, Option<DataType>>) -> Vec<Option<DataType>> {
    let count = types.keys().max().copied().unwrap_or(0);
    (1..=count).map(|number| types.get(&number).cloned().flatten()).collect()
}
