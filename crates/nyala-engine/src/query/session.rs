//! A client's session of the engine.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use arrow::datatypes::SchemaRef;
use datafusion::execution::SessionStateBuilder;
use futures::FutureExt;
use futures::future::BoxFuture;
use nyala_model::QualifiedName;
use nyala_sql::error::{ErrorKind, QueryError, Result};
use tokio_util::sync::CancellationToken;

use super::activity::{Preparing, Profile, Running};
use super::deadline::Deadline;
use super::engine::{Engine, Observed};
use super::options::SessionOptions;
use super::resources::admission::Group;
use crate::session::{SettingValue, Settings, Temporary, unknown_setting};

/// A client's settings and running statement. One for each connection, or for each HTTP request.
#[derive(Debug)]
pub struct Session {
    pub(crate) engine: Arc<Engine>,
    options: Arc<SessionOptions>,
    settings: Mutex<Settings>,
    /// Values that a reset restores, if they are not the server's configuration.
    at_start: OnceLock<Settings>,
    running: Mutex<CancellationToken>,
    /// The engine's token, with a reference count of this session only.
    stopping: Arc<CancellationToken>,
}

impl Engine {
    /// A session for one client.
    pub fn session(self: &Arc<Self>, options: SessionOptions) -> Arc<Session> {
        Arc::new(Session::new(Arc::clone(self), options))
    }

    /// The state that a session begins with: the functions, rules and options of one that has changed no setting, over
    /// the newest snapshot. For plans that are made or run outside of a session, as by another node.
    pub fn session_state(&self) -> SessionStateBuilder {
        let state = self.snapshots.current().state(&self.default_settings());
        SessionStateBuilder::new_from_existing(state)
    }

    /// The settings of a session that has changed none.
    pub(crate) fn default_settings(&self) -> Settings {
        Settings::new(self.snapshots.current().default_options(), &self.query_config)
    }
}

impl Session {
    fn new(engine: Arc<Engine>, options: SessionOptions) -> Self {
        let settings = engine.default_settings();
        let stopping = &engine.runtime.stopping;
        let (token, stopping) = (stopping.child_token(), Arc::new(stopping.clone()));
        Self {
            engine,
            options: Arc::new(options.cut()),
            settings: Mutex::new(settings),
            at_start: OnceLock::new(),
            running: Mutex::new(token),
            stopping,
        }
    }

    /// The user and the client of the session.
    pub fn options(&self) -> &Arc<SessionOptions> {
        &self.options
    }

    /// Whether its user may do everything at present: the owner of the data, or a superuser.
    pub fn is_superuser(&self) -> bool {
        self.options.identity.may_everything(&self.engine.snapshots.catalog().snapshot())
    }

    /// Ends all running statements of this session, if there are any.
    pub fn cancel(&self) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.cancel();
        *running = self.stopping.child_token();
    }

    /// What is known of a statement of this node that runs or ended lately. Superusers may ask for any statement, others for their own.
    ///
    /// # Errors
    /// There is no statement of this number, or it is another user's.
    pub fn profile(&self, query_id: u64) -> Result<Profile> {
        let entry = self.engine.observed.registry.find_ended_too(query_id);
        let (identity, catalog) = (&self.options.identity, self.engine.snapshots.catalog().snapshot());
        // Only a user who may see a statement is told that there is one.
        let own =
            entry.filter(|entry| entry.owner.identity == *identity || identity.may_everything(&catalog));
        own.map(|entry| Profile::of(&entry)).ok_or_else(|| {
            let message = format!("there is no statement {query_id} of yours");
            QueryError::new(ErrorKind::UndefinedObject, message)
                .hint("`system.queries` has the running ones, `system.query_log` the last that ended")
        })
    }

    /// Changes a setting of this session.
    pub fn set(&self, name: &str, value: &str) -> Result<()> {
        let mut settings = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        let mut changed = settings.clone();
        changed.set(name, value)?;
        if name.eq_ignore_ascii_case("nyala.resource_group") {
            // An unknown or forbidden group fails now and not at the next query.
            self.group(&changed)?;
        }
        *settings = changed;
        Ok(())
    }

    /// Every setting of a session with its value, by name.
    pub fn setting_values(&self) -> Vec<SettingValue> {
        self.settings().all()
    }

    /// The value of a setting, as text; none if there is no such setting.
    pub fn setting(&self, name: &str) -> Option<String> {
        self.settings().get(name)
    }

    /// The schema of names without one.
    pub fn schema(&self) -> String {
        self.settings().schema().to_string()
    }

    /// Whether it has a temporary table of this name.
    pub fn has_temporary(&self, table: &str) -> bool {
        self.settings().temporary().is_some_and(|temporary| temporary.find_parts(&[table]).is_some())
    }

    /// The columns of a table or view, also of the system, for lists of tables: like `information_schema`, they show every role what there is.
    /// The name has its schema. None if there is no such table, or it cannot be opened.
    pub fn columns_of<'a>(&'a self, table: &'a QualifiedName) -> BoxFuture<'a, Option<SchemaRef>> {
        async move { self.engine.snapshots.current().columns_of(table).await }.boxed()
    }

    /// Whether its client is told how each query was answered.
    pub fn shows_route(&self) -> bool {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner).shows_route()
    }

    /// Lets a reset restore the current values. Works once: a client asks for some settings when it connects.
    pub fn settle(&self) {
        let _ = self.at_start.set(self.settings());
    }

    /// Resets every setting to its first value.
    pub fn reset(&self) {
        let first = self.at_first();
        *self.settings.lock().unwrap_or_else(PoisonError::into_inner) = first;
    }

    /// Lets names of this session mean these temporary tables.
    pub(crate) fn set_temporary(&self, temporary: Temporary) {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner).set_temporary(Some(temporary));
    }

    pub(crate) fn clear_temporary(&self) {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner).set_temporary(None);
    }

    fn at_first(&self) -> Settings {
        let mut settings = self.at_start.get().cloned().unwrap_or_else(|| self.engine.default_settings());
        settings.set_temporary(self.settings().temporary().cloned());
        settings
    }

    /// Gives a setting the value that it had first.
    ///
    /// # Errors
    /// There is no such setting.
    pub fn reset_one(&self, name: &str) -> Result<()> {
        match self.at_first().get(name) {
            Some(value) => self.set(name, &value),
            None => Err(unknown_setting(name)),
        }
    }

    /// The resource group of the session's queries.
    pub(crate) fn group(&self, settings: &Settings) -> Result<Arc<Group>> {
        let chosen = settings.nyala().resource_group;
        let catalog = self.engine.snapshots.catalog().snapshot();
        self.engine.runtime.admission.group(&chosen, &self.options, settings.schema(), &catalog).cloned()
    }

    pub(crate) fn settings(&self) -> Settings {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Begins a further part of a running statement: cancelling the part ends the statement.
    pub(crate) fn begin(&self, text: &str, deadline: &Deadline) -> Running {
        let Observed { counters, registry, .. } = &self.engine.observed;
        let running = Running::begin(counters, registry, text, &self.options, deadline.token().clone());
        running.entry().is_in(self.schema_of_names());
        running
    }

    /// Begins to prepare a statement: cancelling the preparation ends the statement.
    pub(crate) fn begin_to_prepare(&self, text: &str, deadline: &Deadline) -> Preparing {
        let Observed { counters, registry, .. } = &self.engine.observed;
        let preparing = Preparing::begin(counters, registry, text, &self.options, deadline.token().clone());
        preparing.entry().is_in(self.schema_of_names());
        preparing
    }

    fn schema_of_names(&self) -> Arc<str> {
        Arc::clone(self.settings.lock().unwrap_or_else(PoisonError::into_inner).schema())
    }

    /// Logs a statement that failed before it ran.
    pub(crate) fn log_failed(&self, text: &str, error: &QueryError) {
        self.begin(text, &self.own_deadline()).fail(error);
    }

    /// The deadline of a statement that begins now. It can be cancelled without the session's other statements.
    pub(crate) fn own_deadline(&self) -> Deadline {
        let cancel = self.running.lock().unwrap_or_else(PoisonError::into_inner).child_token();
        let settings = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        let at = settings.statement_timeout().map(|timeout| Instant::now() + timeout);
        Deadline::new(cancel, Arc::clone(&self.stopping), at)
    }
}
