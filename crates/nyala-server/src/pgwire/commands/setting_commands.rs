//! SET, SHOW and RESET: the door's own settings and the engine's, as one list.

use std::sync::Arc;

use arrow::array::timezone::Tz;
use arrow::array::{ArrayRef, RecordBatch, StringArray};
use nyala_engine::Identity;
use nyala_pg::OWNER;
use nyala_pg::translation::session_facts::{CursorFact, PreparedFact, SessionFacts};

use super::command::Assignment;
use super::settings::{Reported, Settings};
use crate::pgwire::errors::{Failure, Stop, sqlstate};
use crate::pgwire::protocol::connection::{Connection, Reply};
use crate::pgwire::protocol::extended::text_columns;
use crate::pgwire::protocol::portal::{Plan, Portal, Rows, RowsTag, Stored, attended};

/// A change of a setting within a transaction.
#[derive(Debug)]
pub struct SettingChange {
    pub name: String,
    /// The value before.
    pub old: Option<String>,
    /// Whether it ends with the transaction, even with a COMMIT.
    pub local: bool,
}

/// Value of a setting, the door's or the engine's.
pub fn setting_of(connection: &Connection, name: &str) -> Option<String> {
    connection.settings.get(name).or_else(|| connection.session.setting(name))
}

/// The time zone of the session.
pub fn zone_of(connection: &Connection) -> Option<Tz> {
    connection.session.setting("timezone")?.parse().ok()
}

/// Longest text of a prepared statement that is shown.
const SHOWN_BYTES: usize = 4096;

/// Settings for transactions to come. Here they have the values of the running transaction.
const DEFAULTS: [&str; 2] = ["default_transaction_isolation", "default_transaction_read_only"];

impl SessionFacts for Connection {
    fn setting(&self, name: &str) -> Option<String> {
        setting_of(self, &name.to_ascii_lowercase())
    }

    fn settings(&self) -> Vec<(String, String)> {
        let engine = self.session.setting_values();
        let engine = engine.into_iter().map(|setting| (setting.name.to_owned(), setting.value));
        let mut all: Vec<(String, String)> = self.settings.all().chain(engine).collect();
        // Names under which the settings of the running transaction are listed a second time.
        all.extend(DEFAULTS.iter().filter_map(|name| Some(((*name).to_owned(), setting_of(self, name)?))));
        all.sort();
        all
    }

    fn user(&self) -> String {
        self.session.options().user.clone()
    }

    fn role(&self) -> String {
        match &self.session.options().identity {
            Identity::Owner => OWNER.to_owned(),
            Identity::Role(role) => role.clone(),
        }
    }

    fn process_id(&self) -> i32 {
        self.key.process_id
    }

    fn token(&self) -> String {
        self.backend.token.clone()
    }

    fn client(&self) -> String {
        self.session.options().client.clone()
    }

    fn prepared(&self) -> Vec<PreparedFact> {
        let statements = self.statements.iter().filter(|(name, _)| !name.is_empty());
        let fact = |(name, stored): (&String, &Arc<Stored>)| PreparedFact {
            name: name.clone(),
            text: text_of(&stored.plan),
            begun_us: stored.begun_us,
            types: stored.parameter_types.iter().map(|kind| kind.name().to_owned()).collect(),
        };
        statements.map(fact).collect()
    }

    fn cursors(&self) -> Vec<CursorFact> {
        let fact = |(name, portal): (&String, &Portal)| CursorFact {
            name: name.clone(),
            text: text_of(&portal.bound.stored.plan),
            begun_us: portal.bound.stored.begun_us,
            hold: portal.hold,
            scroll: portal.scroll,
        };
        self.portals.iter().filter(|(name, _)| !name.is_empty()).map(fact).collect()
    }
}

impl Connection {
    /// Applies a setting of the client's start-up message.
    ///
    /// # Errors
    /// An unknown setting or value, as in PostgreSQL. Drivers send the time zone of their machine and its
    /// encoding unasked, so those are only warned about.
    pub async fn apply_at_start(&mut self, name: &str, value: &str) -> Result<(), Stop> {
        let name = name.to_ascii_lowercase();
        match self.set(&name, Some(value)).await {
            Err(Stop::Failure(failure)) if matches!(name.as_str(), "timezone" | "client_encoding") => {
                self.notice(Some(Failure::warning(failure.sqlstate, failure.message)))
            }
            done => done,
        }
    }

    pub async fn assign(&mut self, assignments: &[Assignment]) -> Result<(), Stop> {
        for Assignment { name, value, local } in assignments {
            if *local && !self.transaction.is_open() {
                let message = "SET LOCAL can only be used in transaction blocks";
                self.notice(Some(Failure::warning(sqlstate::NO_ACTIVE_TRANSACTION, message)))?;
                continue;
            }
            let old = setting_of(self, name);
            self.set(name, value.as_deref()).await?;
            if self.transaction.is_open() {
                self.changes.push(SettingChange { name: name.clone(), old, local: *local });
            }
        }
        Ok(())
    }

    /// Sets a value or the default, and tells the client where PostgreSQL would.
    pub async fn set(&mut self, name: &str, value: Option<&str>) -> Result<(), Stop> {
        let reported = if Settings::knows(name) {
            self.settings.set(name, value)?
        } else {
            match value {
                Some(value) => self.session.set(name, value)?,
                None => self.reset_engine_setting(name).await?,
            }
            (name == "timezone").then(|| Reported {
                name: "TimeZone",
                value: setting_of(self, name).unwrap_or_else(|| "UTC".to_owned()),
            })
        };
        if let Some(Reported { name: "application_name", value }) = &reported {
            self.backend.set_application(value);
        }
        reported.map_or(Ok(()), |reported| self.report(reported))
    }

    async fn reset_engine_setting(&mut self, name: &str) -> Result<(), Stop> {
        let sql = format!("RESET {name}");
        attended(&mut self.input, self.session.query(&sql)).await.map(drop)
    }

    pub async fn reset(&mut self, name: Option<&str>) -> Result<(), Stop> {
        if let Some(name) = name {
            return self.set(name, None).await;
        }
        self.session.reset();
        for reported in self.settings.reset() {
            self.report(reported)?;
        }
        let value = setting_of(self, "timezone").unwrap_or_else(|| "UTC".to_owned());
        self.report(Reported { name: "TimeZone", value })
    }

    pub fn show(&self, name: &str) -> Result<Reply, Stop> {
        let value = setting_of(self, name).ok_or_else(|| {
            Failure::error(
                sqlstate::UNDEFINED_OBJECT,
                format!("unrecognized configuration parameter `{name}`"),
            )
        })?;
        ready_rows(&[Settings::spelling(name)], vec![vec![value]], RowsTag::Plain("SHOW"))
    }

    pub fn show_all(&self) -> Result<Reply, Stop> {
        let engine = self.session.setting_values();
        let described = |name: &String| engine.iter().find(|setting| setting.name == name);
        let (names, values): (Vec<String>, Vec<String>) = self.settings().into_iter().unzip();
        let descriptions = names.iter().map(|name| described(name).map_or("", |setting| setting.description));
        let descriptions = descriptions.map(str::to_owned).collect();
        let names_and_values = vec![names, values, descriptions];
        ready_rows(&["name", "setting", "description"], names_and_values, RowsTag::Plain("SHOW"))
    }
}

/// The beginning of a plan's text; empty if the plan has no statement of the engine.
fn text_of(plan: &Plan) -> String {
    plan.prepared().map(|prepared| prepared.statement().beginning(SHOWN_BYTES)).unwrap_or_default()
}

/// Rows of text made here, one vector a column.
fn ready_rows(names: &[&str], columns: Vec<Vec<String>>, tag: RowsTag) -> Result<Reply, Stop> {
    let columns = columns.into_iter().map(|column| Arc::new(StringArray::from(column)) as ArrayRef).collect();
    let batch = RecordBatch::try_new(text_columns(names), columns)
        .map_err(|error| Failure::error(sqlstate::INTERNAL, error.to_string()))?;
    Ok(Reply::Rows(Box::new(Rows::ready(batch, tag))))
}
