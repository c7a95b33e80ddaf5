//! What a session may set, and what it is set to.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use datafusion::common::extensions_options;
use datafusion::config::{ConfigExtension, ConfigOptions};
use nyala_model::config::QueryConfig;
use nyala_model::time_text::parse_time;

use super::DEFAULT_SCHEMA;
use crate::error::{ErrorKind, QueryError, Result};

extensions_options! {
    /// Nyala's own settings.
    pub(crate) struct NyalaOptions {
        /// Whether aggregations may be answered from cubes. Off gives the answer from the tables, for checking.
        pub use_cubes: bool, default = true
        /// Whether aggregations that no cube answers may run on the tables. Off makes them an error.
        pub pushdown: bool, default = true
        /// Whether the files of tables are listed before every query, so that no cube answers from files that
        /// changed a moment ago. Off, they are listed every `cubes.check_files_ms`.
        pub check_files: bool, default = false
        /// Whether what cuboids answer may be an answer given before to the same text, of the same snapshot.
        pub result_cache: bool, default = false
        /// The resource group of this session's queries. Empty: the group that names its user or schema.
        pub resource_group: String, default = String::new()
    }
}

impl ConfigExtension for NyalaOptions {
    const PREFIX: &'static str = "nyala";
}

/// Settings by the names that people use, but for those of DataFusion.
pub(crate) const NAMES: [&str; 8] = [
    "nyala.check_files",
    "nyala.pushdown",
    "nyala.resource_group",
    "nyala.result_cache",
    "nyala.use_cubes",
    "search_path",
    "statement_timeout",
    "timezone",
];

/// DataFusion's settings that one session may change for itself.
const SESSION_PREFIXES: [&str; 4] =
    ["datafusion.execution.", "datafusion.optimizer.", "datafusion.explain.", "datafusion.format."];

/// Most rows of a batch. Operators ask for the memory of a whole batch before they have a row, and if the system has not as much
/// the process ends.
const MOST_BATCH_ROWS: usize = 1 << 20;
/// Most partitions. An exchange has a channel from each to each.
const MOST_PARTITIONS: usize = 256;

/// The setting that clients of PostgreSQL know under shorter names.
const TIME_ZONE: &str = "datafusion.execution.time_zone";

/// Longest value of a setting, in bytes.
const VALUE_BYTES: usize = 4096;

/// The settings of one session: a value, cheap to copy for each statement.
#[derive(Debug, Clone)]
pub(crate) struct Settings(Arc<Values>);

#[derive(Debug, Clone)]
struct Values {
    options: Arc<ConfigOptions>,
    /// What they were at first.
    defaults: Arc<ConfigOptions>,
    schema: Arc<str>,
    statement_timeout: Option<Duration>,
    /// What was changed that may change a plan, by name.
    changed: BTreeMap<String, String>,
    /// The same as one text.
    key: Arc<str>,
}

impl Settings {
    /// What a new session starts with.
    pub(crate) fn new(options: Arc<ConfigOptions>, config: &QueryConfig) -> Self {
        Self(Arc::new(Values {
            defaults: Arc::clone(&options),
            options,
            schema: DEFAULT_SCHEMA.into(),
            statement_timeout: timeout(config.statement_timeout_ms),
            changed: BTreeMap::new(),
            key: "".into(),
        }))
    }

    /// Equal for settings with which every text is planned the same way.
    pub(crate) fn key(&self) -> &Arc<str> {
        &self.0.key
    }

    /// DataFusion's options, Nyala's included.
    pub(crate) fn options(&self) -> &ConfigOptions {
        &self.0.options
    }

    /// The schema of names without one.
    pub(crate) fn schema(&self) -> &Arc<str> {
        &self.0.schema
    }

    /// How long a statement may take.
    pub(crate) fn statement_timeout(&self) -> Option<Duration> {
        self.0.statement_timeout
    }

    /// Nyala's own settings.
    pub(crate) fn nyala(&self) -> NyalaOptions {
        self.0.options.extensions.get::<NyalaOptions>().cloned().unwrap_or_default()
    }

    /// Changes one setting.
    pub(crate) fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let name = own_name(name.to_ascii_lowercase());
        if value.len() > VALUE_BYTES {
            // Every plan that is kept has the settings it was made with.
            let beginning = value.get(..value.floor_char_boundary(20)).unwrap_or_default();
            let rule = format!("at most {VALUE_BYTES} bytes long");
            return Err(invalid(&name, &format!("{beginning}…"), &rule));
        }
        match name.as_str() {
            "search_path" => self.values().schema = first_schema(value)?.into(),
            "statement_timeout" => {
                self.values().statement_timeout = parse_timeout(value)?;
                return Ok(());
            }
            "nyala.resource_group" => self.set_option(&name, value.trim_matches(['\'', '"']))?,
            _ if name.starts_with("nyala.") => self.set_option(&name, switch(value))?,
            _ if SESSION_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) => {
                self.set_option(&name, value)?;
            }
            _ => return Err(unknown(&name)),
        }
        self.note(name);
        Ok(())
    }

    /// Brings the key up to date after a change of `name`.
    fn note(&mut self, name: String) {
        let mut fresh = self.clone();
        let values = fresh.values();
        (values.options, values.schema) = (Arc::clone(&values.defaults), DEFAULT_SCHEMA.into());
        let value = self.get(&name).filter(|value| fresh.get(&name).as_ref() != Some(value));
        let Values { changed, key, .. } = self.values();
        match value {
            Some(value) => changed.insert(name, value),
            None => changed.remove(&name),
        };
        *key = if changed.is_empty() { "".into() } else { format!("{changed:?}").into() };
    }

    fn values(&mut self) -> &mut Values {
        Arc::make_mut(&mut self.0)
    }

    fn set_option(&mut self, name: &str, value: &str) -> Result<()> {
        if value == "0" && (name.ends_with("batch_size") || name.ends_with("target_partitions")) {
            return Err(invalid(name, value, "at least 1"));
        }
        let mut options = self.0.options.as_ref().clone();
        options.set(name, value).map_err(|error| {
            let text = error.strip_backtrace();
            if text.contains("not found") || text.contains("Could not find") {
                unknown(name)
            } else {
                invalid(name, value, "a value of its type")
            }
        })?;
        let sizes = |options: &ConfigOptions| match name {
            "datafusion.execution.batch_size" => (options.execution.batch_size.get(), MOST_BATCH_ROWS),
            "datafusion.execution.target_partitions" => {
                (options.execution.target_partitions, MOST_PARTITIONS)
            }
            _ => (0, 0),
        };
        // What the server is configured to may be set again.
        let most = sizes(&self.0.defaults).0.max(sizes(&options).1);
        if sizes(&options).0 > most {
            return Err(invalid(name, value, &format!("at most {most}")));
        }
        self.values().options = Arc::new(options);
        Ok(())
    }

    /// The value of one setting, as text.
    pub(crate) fn get(&self, name: &str) -> Option<String> {
        let name = name.to_ascii_lowercase();
        match name.as_str() {
            "search_path" => Some(self.0.schema.to_string()),
            "statement_timeout" => Some(self.0.statement_timeout.map_or(0, |t| t.as_millis()).to_string()),
            "timezone" | "time.zone" => {
                Some(self.0.options.execution.time_zone.clone().unwrap_or_else(|| "UTC".to_owned()))
            }
            "nyala.use_cubes" => Some(on_or_off(self.nyala().use_cubes)),
            "nyala.pushdown" => Some(on_or_off(self.nyala().pushdown)),
            "nyala.check_files" => Some(on_or_off(self.nyala().check_files)),
            "nyala.result_cache" => Some(on_or_off(self.nyala().result_cache)),
            "nyala.resource_group" => Some(self.nyala().resource_group),
            _ => self.0.options.entries().into_iter().find(|entry| entry.key == name)?.value,
        }
    }
}

/// One name for a setting that has several, so that the key follows it whichever is used.
fn own_name(name: String) -> String {
    match name.as_str() {
        "timezone" | "time.zone" => TIME_ZONE.to_owned(),
        _ => name,
    }
}

fn timeout(ms: u64) -> Option<Duration> {
    (ms > 0).then(|| Duration::from_millis(ms))
}

/// `on` and `off` are what people write for switches.
fn switch(value: &str) -> &str {
    match value.to_ascii_lowercase().as_str() {
        "on" | "yes" | "1" => "true",
        "off" | "no" | "0" => "false",
        _ => value,
    }
}

fn on_or_off(switch: bool) -> String {
    if switch { "on" } else { "off" }.to_owned()
}

fn first_schema(value: &str) -> Result<String> {
    let mut names = value.split(',').map(|name| name.trim().trim_matches(['"', '\'']).to_owned());
    names
        .find(|name| !name.is_empty() && name != "$user" && name != "pg_catalog")
        .ok_or_else(|| invalid("search_path", value, "the name of a schema"))
}

/// 0 is none.
fn parse_timeout(value: &str) -> Result<Option<Duration>> {
    parse_time(value)
        .map(|time| Some(time).filter(|time| !time.is_zero()))
        .ok_or_else(|| invalid("statement_timeout", value, "a time such as `500`, `30s` or `5min`"))
}

fn unknown(name: &str) -> QueryError {
    let error = QueryError::new(ErrorKind::UndefinedObject, format!("setting `{name}` does not exist"));
    match nyala_model::suggest::nearest(name, NAMES.iter().copied()) {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None => error.hint("`SHOW ALL` lists the settings"),
    }
}

fn invalid(name: &str, value: &str, rule: &str) -> QueryError {
    QueryError::new(ErrorKind::InvalidParameter, format!("setting `{name}` must be {rule}, but is `{value}`"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use datafusion::config::ExtensionOptions;

    use super::*;

    fn settings() -> Settings {
        let mut options = ConfigOptions::new();
        options.execution.time_zone = Some("UTC".to_owned());
        options.extensions.insert(NyalaOptions::default());
        Settings::new(Arc::new(options), &QueryConfig::default())
    }

    #[test]
    fn settings_are_set_by_what_people_write() {
        let mut settings = settings();
        let mut check = |name: &str, value: &str, shown: &str| {
            settings.set(name, value).unwrap();
            assert_eq!(settings.get(name).as_deref(), Some(shown));
        };
        check("nyala.use_cubes", "off", "off");
        check("NYALA.USE_CUBES", "true", "on");
        check("statement_timeout", "30s", "30000");
        check("statement_timeout", "0", "0");
        check("search_path", "\"$user\", sales", "sales");
        check("datafusion.execution.batch_size", "1024", "1024");
    }

    #[test]
    fn every_setting_of_our_own_is_listed_and_has_a_value() {
        let settings = settings();
        for name in NAMES {
            assert!(settings.get(name).is_some(), "{name}");
        }
        for entry in NyalaOptions::default().entries() {
            assert!(NAMES.contains(&format!("nyala.{}", entry.key).as_str()), "{}", entry.key);
        }
    }

    #[test]
    fn keys_tell_settings_apart_that_plan_differently() {
        let mut changed = settings();
        changed.set("statement_timeout", "30s").unwrap();
        assert_eq!(changed.key(), settings().key());
        for (name, other, default) in [
            ("nyala.use_cubes", "off", "on"),
            ("search_path", "sales", "public"),
            ("timezone", "CET", "UTC"),
            ("datafusion.execution.batch_size", "100", "8192"),
        ] {
            changed.set(name, other).unwrap();
            assert_ne!(changed.key(), settings().key(), "{name}");
            changed.set(name, default).unwrap();
            assert_eq!(changed.key(), settings().key(), "{name}");
        }
    }

    #[test]
    fn keys_follow_a_setting_under_all_its_names() {
        let names = ["timezone", "time.zone", "TimeZone", TIME_ZONE];
        for (first, second) in names.into_iter().flat_map(|first| names.map(|second| (first, second))) {
            let mut changed = settings();
            changed.set(first, "CET").unwrap();
            let cet = changed.clone();
            changed.set(second, "UTC").unwrap();
            assert_eq!(changed.key(), settings().key(), "{first}, {second}");
            changed.set(second, "CET").unwrap();
            assert_eq!(changed.key(), cet.key(), "{first}, {second}");
            assert_eq!(changed.get(first).as_deref(), Some("CET"));
        }
    }

    #[test]
    fn unknown_settings_and_values_are_named() {
        let mut settings = settings();
        let mut check = |name: &str, value: &str, kind, words: &str| {
            let error = settings.set(name, value).unwrap_err();
            assert_eq!(error.kind, kind, "{error}");
            assert!(format!("{error} {:?}", error.hint).contains(words), "{error:?}");
        };
        check("nyala.use_cube", "off", ErrorKind::UndefinedObject, "did you mean `nyala.use_cubes`");
        check("nyala.use_cubes", "maybe", ErrorKind::InvalidParameter, "`maybe`");
        check("statement_timeout", "soon", ErrorKind::InvalidParameter, "`soon`");
        check("datafusion.runtime.memory_limit", "1", ErrorKind::UndefinedObject, "does not exist");
        check("datafusion.execution.batch_size", "0", ErrorKind::InvalidParameter, "at least 1");
    }

    #[test]
    fn sizes_that_no_machine_has_memory_for_are_refused() {
        let mut settings = settings();
        for name in ["datafusion.execution.batch_size", "datafusion.execution.target_partitions"] {
            let before = settings.get(name).unwrap();
            for value in ["1000000000000", "18446744073709551615"] {
                let error = settings.set(name, value).unwrap_err();
                assert_eq!(error.kind, ErrorKind::InvalidParameter, "{error}");
                assert!(error.message.contains("at most") && error.message.contains(name), "{error}");
            }
            assert_eq!(settings.get(name).as_deref(), Some(before.as_str()), "it stays as it was");
            settings.set(name, "64").unwrap();
            settings.set(name, &before).unwrap();
        }
        let many = Arc::make_mut(&mut settings.values().defaults);
        many.execution.target_partitions = 2 * MOST_PARTITIONS;
        settings.set("datafusion.execution.target_partitions", "512").unwrap();
    }
}
