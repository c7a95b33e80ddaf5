//! The values of a session's settings.

mod definitions;
mod search_path;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use datafusion::common::extensions_options;
use datafusion::config::{ConfigExtension, ConfigOptions};
use nyala_model::QualifiedName;
use nyala_model::config::QueryConfig;
use nyala_sql::error::Result;

pub use self::definitions::unknown;
use self::definitions::{DEFINITIONS, Definition, Place, find};
pub use self::search_path::{schema_in_path, schemas_in_path};
use super::DEFAULT_SCHEMA;
use super::temporary::Temporary;

extensions_options! {
    /// Nyala's own settings.
    pub(crate) struct NyalaOptions {
        /// Whether aggregations may be answered from cubes. Off gives the answer from the tables, for checking.
        pub use_cubes: bool, default = true
        /// Whether aggregations that no cube answers may run on the tables. Off makes them an error.
        pub pushdown: bool, default = true
        /// Whether other nodes may do parts of queries. Off runs each where it is sent, for checking.
        pub distributed: bool, default = true
        /// A query that reads at most so many rows is done by one node alone.
        pub single_node_rows: usize, default = 1 << 24
        /// Whether the files of tables are listed before every query, so that no cube answers from files that
        /// changed a moment ago. Off, they are listed every `cubes.check_files_ms`.
        pub check_files: bool, default = false
        /// Whether an answer from cuboids may come from the result cache: one to the same text, of the same snapshot.
        pub result_cache: bool, default = false
        /// Whether the reason of each cube that does not answer a query is found, and doors tell its route.
        pub show_route: bool, default = false
        /// The resource group of this session's queries. Empty: the group that names its user or schema.
        pub resource_group: String, default = String::new()
    }
}

impl ConfigExtension for NyalaOptions {
    const PREFIX: &'static str = "nyala";
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

/// The setting that changes what is told of a plan, and not the plan.
const SHOW_ROUTE: &str = "nyala.show_route";

/// The place of temporary tables among the changed settings.
const TEMPORARY: &str = "temporary tables";

/// Longest value of a setting, in bytes.
const VALUE_BYTES: usize = 4096;

/// The settings of one session: a value, cheap to copy for each statement.
#[derive(Debug, Clone)]
pub struct Settings(Arc<Values>);

#[derive(Debug, Clone)]
struct Values {
    options: Arc<ConfigOptions>,
    /// The options of a new session.
    defaults: Arc<ConfigOptions>,
    schema: Arc<str>,
    statement_timeout: Option<Duration>,
    /// Changed settings that may change a plan, by name.
    changed: BTreeMap<&'static str, String>,
    /// The changed settings that decide how a text is planned, as one text.
    key: Arc<str>,
    /// Names that mean temporary tables.
    temporary: Option<Arc<Temporary>>,
}

impl Settings {
    /// The settings of a new session.
    pub fn new(options: Arc<ConfigOptions>, config: &QueryConfig) -> Self {
        Self(Arc::new(Values {
            defaults: Arc::clone(&options),
            options,
            schema: DEFAULT_SCHEMA.into(),
            statement_timeout: timeout(config.statement_timeout_ms),
            changed: BTreeMap::new(),
            key: "".into(),
            temporary: None,
        }))
    }

    /// A text that is equal for settings with which every statement is planned the same way.
    pub fn key(&self) -> &Arc<str> {
        &self.0.key
    }

    /// DataFusion's options, Nyala's included.
    pub fn options(&self) -> &ConfigOptions {
        &self.0.options
    }

    /// The schema of names without one.
    pub fn schema(&self) -> &Arc<str> {
        &self.0.schema
    }

    /// How long a statement may take.
    pub fn statement_timeout(&self) -> Option<Duration> {
        self.0.statement_timeout
    }

    /// Nyala's own settings.
    pub fn nyala(&self) -> NyalaOptions {
        self.0.options.extensions.get::<NyalaOptions>().cloned().unwrap_or_default()
    }

    /// Whether the client is told how each query was answered.
    pub fn shows_route(&self) -> bool {
        self.0.options.extensions.get::<NyalaOptions>().is_some_and(|options| options.show_route)
    }

    /// Changes one setting.
    ///
    /// # Errors
    /// A name that is none of [`DEFINITIONS`], or a value that the setting does not take; nothing is changed then.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let definition = find(name).ok_or_else(|| unknown(name))?;
        if value.len() > VALUE_BYTES {
            // Values are short, because each cached plan keeps the settings that it was made with.
            let beginning = value.get(..value.floor_char_boundary(20)).unwrap_or_default();
            let rule = format!("at most {VALUE_BYTES} bytes long");
            return Err(definition.refuse(&format!("{beginning}…"), &rule));
        }
        let value = definition.accept(value, &self.0.defaults)?;
        match definition.place {
            // Some programs set the schema again before each query: that must not cost a copy of the settings.
            Place::Schema if *self.0.schema == *value => return Ok(()),
            Place::Schema => self.values().schema = value.into(),
            Place::StatementTimeout => {
                self.values().statement_timeout = timeout(value.parse().unwrap_or_default());
                // The timeout changes no plan, so that the key stays.
                return Ok(());
            }
            Place::Option { key, .. } => {
                let mut options = self.0.options.as_ref().clone();
                options.set(key, &value).map_err(|_| definition.refuse(&value, "a value of its type"))?;
                self.values().options = Arc::new(options);
            }
        }
        self.note(definition);
        Ok(())
    }

    /// Brings the key up to date after a change of a setting.
    fn note(&mut self, changed: &Definition) {
        let mut fresh = self.clone();
        let values = fresh.values();
        (values.options, values.schema) = (Arc::clone(&values.defaults), DEFAULT_SCHEMA.into());
        let (name, value) = (changed.name, self.value(changed));
        let value = Some(value).filter(|value| fresh.value(changed) != *value);
        let Values { changed, key, .. } = self.values();
        match value {
            Some(value) => changed.insert(name, value),
            None => changed.remove(name),
        };
        *key = key_of(changed);
    }

    /// The names that mean temporary tables, if the session has made any.
    pub fn temporary(&self) -> Option<&Temporary> {
        self.0.temporary.as_deref()
    }

    /// Whether a table is a temporary one of the session, which may do everything with it.
    pub fn is_temporary(&self, table: &QualifiedName) -> bool {
        self.temporary().is_some_and(|temporary| **temporary.schema() == *table.schema)
    }

    /// Lets names mean these temporary tables.
    pub fn set_temporary(&mut self, temporary: Option<Temporary>) {
        if self.temporary() == temporary.as_ref() {
            return;
        }
        let values = self.values();
        match &temporary {
            Some(temporary) => values.changed.insert(TEMPORARY, temporary.key()),
            None => values.changed.remove(TEMPORARY),
        };
        values.key = key_of(&values.changed);
        values.temporary = temporary.map(Arc::new);
    }

    /// Every setting with its value, by name.
    pub fn all(&self) -> Vec<SettingValue> {
        let shown = DEFINITIONS.iter().map(|definition| SettingValue {
            name: definition.name,
            value: self.value(definition),
            description: definition.description,
        });
        shown.collect()
    }

    fn values(&mut self) -> &mut Values {
        Arc::make_mut(&mut self.0)
    }

    /// The settings that may change a plan, and have other values than at the start of a session.
    pub fn changed(&self) -> Vec<(String, String)> {
        let changed = self.0.changed.iter().filter(|(name, _)| **name != TEMPORARY);
        changed.map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
    }

    /// The value of one setting, as text; none if there is no such setting.
    pub fn get(&self, name: &str) -> Option<String> {
        find(name).map(|definition| self.value(definition))
    }

    /// The value of a setting, as text.
    pub fn value(&self, definition: &Definition) -> String {
        match definition.place {
            Place::Schema => schema_in_path(&self.0.schema),
            Place::StatementTimeout => self.0.statement_timeout.map_or(0, |t| t.as_millis()).to_string(),
            Place::Option { read, .. } => read(&self.0.options),
        }
    }
}

/// The key of changed settings. `nyala.show_route` is left out, because it changes no plan.
fn key_of(changed: &BTreeMap<&'static str, String>) -> Arc<str> {
    let planning: BTreeMap<_, _> = changed.iter().filter(|(name, _)| **name != SHOW_ROUTE).collect();
    if planning.is_empty() { "".into() } else { format!("{planning:?}").into() }
}

fn timeout(ms: u64) -> Option<Duration> {
    (ms > 0).then(|| Duration::from_millis(ms))
}
