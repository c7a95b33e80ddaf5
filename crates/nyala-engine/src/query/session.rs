//! A client's session of the engine.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use nyala_sql::error::{ErrorKind, QueryError, Result};
use nyala_sql::statement::{Statement, parse, unparsed_without_secrets};
use tokio_util::sync::CancellationToken;

use super::activity::{Preparing, Running};
use super::answer::Answer;
use super::engine::Engine;
use super::resources::admission::Group;
use super::run::Deadline;
use crate::access::Identity;
use crate::session::{SETTINGS, Settings, unknown_setting};

/// The user and the client of a session, for logs and limits.
#[derive(Debug, Clone, Default)]
pub struct SessionOptions {
    /// Name of the user.
    pub user: String,
    /// Application name that the client gives.
    pub application: String,
    /// Address of the client.
    pub client: String,
    /// Identity that decides the session's privileges.
    pub identity: Identity,
}

/// A setting, as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingValue {
    /// Its name.
    pub name: &'static str,
    /// Its value, as text.
    pub value: String,
    /// Its purpose.
    pub description: &'static str,
}

/// Every setting with its value, by name.
pub(super) fn setting_values(settings: &Settings) -> Vec<SettingValue> {
    let all = SETTINGS.iter();
    let shown = all.map(|definition| SettingValue {
        name: definition.name,
        value: settings.value(definition),
        description: definition.description,
    });
    shown.collect()
}

/// Longest text about a client that is kept, in bytes: the log of statements keeps thousands.
const NAME_BYTES: usize = 256;

impl SessionOptions {
    /// Truncates the texts about the client.
    pub(super) fn cut(mut self) -> Self {
        for text in [&mut self.user, &mut self.application, &mut self.client] {
            text.truncate(text.floor_char_boundary(NAME_BYTES));
        }
        self
    }
}

/// A client's settings and running statement. One for each connection, or for each HTTP request.
#[derive(Debug)]
pub struct Session {
    pub(super) engine: Arc<Engine>,
    options: Arc<SessionOptions>,
    settings: Mutex<Settings>,
    /// Values that a reset restores, if they are not the server's configuration.
    at_start: OnceLock<Settings>,
    running: Mutex<CancellationToken>,
    /// The engine's token, with a reference count of this session only.
    stopping: Arc<CancellationToken>,
}

impl Session {
    pub(super) fn new(engine: Arc<Engine>, options: SessionOptions) -> Self {
        let settings = Settings::new(engine.context().default_options(), &engine.query_config);
        let (token, stopping) = (engine.stopping.child_token(), Arc::new(engine.stopping.clone()));
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

    /// Splits a text into statements after checking its size and shape. An empty text has none.
    pub fn parse(&self, sql: &str) -> Result<Vec<Statement>> {
        let begun = Instant::now();
        let parsed = parse(sql, self.engine.limits());
        self.engine.registry.phases().parsed(begun.elapsed());
        if let Err(error) = &parsed {
            self.log_failed(&unparsed_without_secrets(sql), error);
        }
        parsed
    }

    /// Logs a statement that failed before it ran.
    pub(super) fn log_failed(&self, text: &str, error: &QueryError) {
        self.begin(text, &self.own_deadline()).fail(error);
    }

    /// Parses exactly one statement and runs it without parameters.
    pub async fn query(&self, sql: &str) -> Result<Answer> {
        let prepared = match self.recall(sql) {
            Some(prepared) => prepared,
            None => self.prepare(self.parse_one(sql)?).await?,
        };
        self.execute(&prepared, Vec::new()).await
    }

    pub(super) fn parse_one(&self, sql: &str) -> Result<Statement> {
        let mut statements = self.parse(sql)?;
        match (statements.pop(), statements.is_empty()) {
            (Some(statement), true) => Ok(statement),
            (None, _) => Err(QueryError::new(ErrorKind::Syntax, "statement is empty")),
            (Some(_), false) => Err(QueryError::new(ErrorKind::Syntax, "text has more than one statement")
                .hint("send one statement at a time")),
        }
    }

    /// Ends all running statements of this session, if there are any.
    pub fn cancel(&self) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.cancel();
        *running = self.stopping.child_token();
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
        setting_values(&self.settings())
    }

    /// The value of a setting, as text; none if there is no such setting.
    pub fn setting(&self, name: &str) -> Option<String> {
        self.settings().get(name)
    }

    /// Lets a reset restore the current values. Works once: a client asks for some settings when it connects.
    pub fn settle(&self) {
        let _ = self.at_start.set(self.settings());
    }

    /// Resets every setting to its first value.
    pub fn reset(&self) {
        *self.settings.lock().unwrap_or_else(PoisonError::into_inner) = self.at_first();
    }

    fn at_first(&self) -> Settings {
        let fresh = || Settings::new(self.engine.context().default_options(), &self.engine.query_config);
        self.at_start.get().cloned().unwrap_or_else(fresh)
    }

    pub(super) fn reset_one(&self, name: &str) -> Result<()> {
        match self.at_first().get(name) {
            Some(value) => self.set(name, &value),
            None => Err(unknown_setting(name)),
        }
    }

    /// The resource group of the session's queries.
    pub(super) fn group(&self, settings: &Settings) -> Result<Arc<Group>> {
        let chosen = settings.nyala().resource_group;
        let catalog = self.engine.catalog().snapshot();
        self.engine.admission.group(&chosen, &self.options, settings.schema(), &catalog).cloned()
    }

    pub(super) fn settings(&self) -> Settings {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Begins a further part of a running statement: cancelling the part ends the statement.
    pub(super) fn begin(&self, text: &str, deadline: &Deadline) -> Running {
        let cancel = deadline.cancel.clone();
        Running::begin(&self.engine.counters, &self.engine.registry, text, &self.options, cancel)
    }

    /// The same for a statement that is only prepared.
    pub(super) fn begin_to_prepare(&self, text: &str, deadline: &Deadline) -> Preparing {
        let cancel = deadline.cancel.clone();
        Preparing::begin(&self.engine.counters, &self.engine.registry, text, &self.options, cancel)
    }

    /// The deadline of a statement that begins now. It can be cancelled without the session's other statements.
    pub(super) fn own_deadline(&self) -> Deadline {
        let cancel = self.running.lock().unwrap_or_else(PoisonError::into_inner).child_token();
        let settings = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        let at = settings.statement_timeout().map(|timeout| Instant::now() + timeout);
        Deadline { cancel, stopping: Arc::clone(&self.stopping), at }
    }
}
