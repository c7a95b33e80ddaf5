//! Settings that exist only because PostgreSQL clients set and read them. All others are the engine's.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use nyala_model::time_text::parse_time;
use pgwire::types::format::FormatOptions;

pub use super::setting_definitions::IDLE_SESSION;
use super::setting_definitions::{
    DEFINITIONS, Definition, IDLE_IN_TRANSACTION, READ_ONLY, Rule, SERVER_PARTS,
};
use crate::pgwire::errors::{Failure, sqlstate};

/// Longest time, in milliseconds: PostgreSQL's.
const MAX_TIME_MS: u128 = i32::MAX as u128;

/// The text format of values under the default settings.
static USUAL_FORMAT: LazyLock<Arc<FormatOptions>> =
    LazyLock::new(|| Arc::new(format_of(|name| find(name).map_or("", |setting| setting.default).to_owned())));

/// The values of one connection.
#[derive(Debug)]
pub struct Settings {
    changed: BTreeMap<&'static str, String>,
    /// The values from the client's start-up, which RESET restores.
    at_start: BTreeMap<&'static str, String>,
    user: String,
    is_superuser: bool,
    /// Values of names with a point, which mean nothing to the server.
    custom: BTreeMap<String, String>,
    /// The text format of values under these settings, kept because every answer needs it.
    format: Arc<FormatOptions>,
    /// How long a client may be silent between two messages, outside of transactions and within.
    idle: [Option<Duration>; 2],
}

/// A change of a setting that the client is to be told.
#[derive(Debug, PartialEq, Eq)]
pub struct Reported {
    pub name: &'static str,
    pub value: String,
}

impl Settings {
    /// Defaults for a user.
    pub fn new(user: &str) -> Self {
        let (changed, at_start, format) = (BTreeMap::new(), BTreeMap::new(), Arc::default());
        let mut settings = Self {
            changed,
            at_start,
            user: user.to_owned(),
            is_superuser: false,
            custom: BTreeMap::new(),
            format,
            idle: [None, None],
        };
        settings.note();
        settings
    }

    /// Sets whether the user is a superuser, which clients read as `is_superuser`.
    #[must_use]
    pub fn of_superuser(mut self, is_superuser: bool) -> Self {
        self.is_superuser = is_superuser;
        self
    }

    /// Whether `name` is a setting of this table, not of the engine.
    pub fn knows(name: &str) -> bool {
        find(name).is_some() || is_custom(name)
    }

    /// The name as PostgreSQL spells it.
    pub fn spelling(name: &str) -> &str {
        match find(name) {
            Some(definition) if definition.name.eq_ignore_ascii_case(name) => definition.name,
            _ if name == "timezone" => "TimeZone",
            _ => name,
        }
    }

    /// The present value; none for settings of the engine.
    pub fn get(&self, name: &str) -> Option<String> {
        match find(name) {
            Some(definition) => Some(self.value(definition)),
            None => self.custom.get(name).cloned(),
        }
    }

    /// Sets a value, or restores the one from the start-up.
    ///
    /// # Errors
    /// Names the setting, the value and the accepted values.
    pub fn set(&mut self, name: &str, value: Option<&str>) -> Result<Option<Reported>, Failure> {
        if is_custom(name) {
            let value = value.unwrap_or_default().to_owned();
            self.custom.insert(name.to_owned(), value);
            return Ok(None);
        }
        let definition = find(name).ok_or_else(|| {
            Failure::error(
                sqlstate::UNDEFINED_OBJECT,
                format!("unrecognized configuration parameter `{name}`"),
            )
        })?;
        match value {
            Some(value) => {
                let value = definition.accept(value)?;
                self.changed.insert(definition.name, value);
            }
            None => match self.at_start.get(definition.name) {
                Some(value) => {
                    self.changed.insert(definition.name, value.clone());
                }
                None => {
                    self.changed.remove(definition.name);
                }
            },
        }
        self.note();
        let value = self.value(definition);
        Ok(definition.reported.then_some(Reported { name: definition.name, value }))
    }

    /// Makes RESET restore the current values.
    pub fn settle(&mut self) {
        self.at_start.clone_from(&self.changed);
    }

    /// Restores all values from the start-up; gives the values to report.
    pub fn reset(&mut self) -> Vec<Reported> {
        self.changed.clone_from(&self.at_start);
        self.custom.clear();
        self.note();
        self.reported()
    }

    /// All values that clients are told at start-up.
    pub fn reported(&self) -> Vec<Reported> {
        let reported = DEFINITIONS.iter().filter(|definition| definition.reported);
        let reported =
            reported.map(|definition| Reported { name: definition.name, value: self.value(definition) });
        // The default for transactions to come has the value of the running transaction.
        let read_only = self.get("transaction_read_only").map(|value| Reported { name: READ_ONLY, value });
        reported.chain(read_only).collect()
    }

    /// All names and values.
    pub fn all(&self) -> impl Iterator<Item = (String, String)> {
        DEFINITIONS.iter().map(|definition| (definition.name.to_owned(), self.value(definition)))
    }

    /// The text format of values for most clients.
    pub fn usual_format() -> &'static Arc<FormatOptions> {
        &USUAL_FORMAT
    }

    /// The text format of values.
    pub fn format_options(&self) -> &Arc<FormatOptions> {
        &self.format
    }

    /// How long a client may be silent, and the setting that bounds it; none without a bound.
    pub fn idle_timeout(&self, in_transaction: bool) -> Option<(Duration, &'static str)> {
        let [session, transaction] = self.idle;
        match in_transaction {
            true => transaction.map(|time| (time, IDLE_IN_TRANSACTION)),
            false => session.map(|time| (time, IDLE_SESSION)),
        }
    }

    /// Works out the values that are read again and again.
    fn note(&mut self) {
        self.idle = [IDLE_SESSION, IDLE_IN_TRANSACTION].map(|name| {
            let time = self.get(name).and_then(|value| parse_time(&value));
            time.filter(|time| !time.is_zero())
        });
        let options = format_of(|name| self.get(name).unwrap_or_default());
        // Most connections share the usual format: its address shows that layouts of rows can be shared, too.
        self.format = if options == **USUAL_FORMAT { Arc::clone(&USUAL_FORMAT) } else { Arc::new(options) };
    }

    fn value(&self, definition: &Definition) -> String {
        match (definition.name, self.changed.get(definition.name)) {
            (_, Some(value)) => value.clone(),
            ("session_authorization", None) => self.user.clone(),
            ("is_superuser", None) if self.is_superuser => "on".to_owned(),
            _ => definition.default.to_owned(),
        }
    }
}

/// The text format of values under these settings.
fn format_of(read: impl Fn(&str) -> String) -> FormatOptions {
    let mut options = FormatOptions::default();
    options.bytea_output = read("bytea_output");
    options.interval_style = read("intervalstyle");
    options.extra_float_digits = read("extra_float_digits").parse().unwrap_or(1);
    options
}

/// Whether a name is one of a client's own settings, such as `my.setting`: it has a point, and is of no part of the server.
fn is_custom(name: &str) -> bool {
    name.split_once('.').is_some_and(|(of, name)| {
        !of.is_empty() && !name.is_empty() && !SERVER_PARTS.iter().any(|part| of.eq_ignore_ascii_case(part))
    })
}

/// Finds a setting by its name in any case; defaults for transactions are the transactions' values.
fn find(name: &str) -> Option<&'static Definition> {
    let name = match name.to_ascii_lowercase().as_str() {
        "default_transaction_isolation" => "transaction_isolation".to_owned(),
        "default_transaction_read_only" => "transaction_read_only".to_owned(),
        other => other.to_owned(),
    };
    DEFINITIONS.iter().find(|definition| definition.name.eq_ignore_ascii_case(&name))
}

impl Definition {
    /// The value in its canonical spelling.
    fn accept(&self, value: &str) -> Result<String, Failure> {
        let lower = value.trim().to_ascii_lowercase();
        let accepted = match self.rule {
            Rule::Fixed => return Err(self.fixed()),
            Rule::Any => Some(value.to_owned()),
            Rule::Time => {
                let ms = parse_time(&lower).map(|time| time.as_millis());
                ms.filter(|ms| *ms <= MAX_TIME_MS).map(|ms| ms.to_string())
            }
            Rule::Memory => is_memory(value.trim()).then(|| value.trim().to_owned()),
            Rule::Boolean => boolean(&lower).map(str::to_owned),
            Rule::Integer(low, high) => {
                lower.parse::<i64>().ok().filter(|n| (low..=high).contains(n)).map(|n| n.to_string())
            }
            Rule::OneOf(["on"]) => boolean(&lower).filter(|value| *value == "on").map(str::to_owned),
            Rule::OneOf(values) => values.contains(&lower.as_str()).then_some(lower),
            Rule::Utf8 => utf8(&lower).map(str::to_owned),
            Rule::IsoDate => iso_date(&lower),
        };
        accepted.ok_or_else(|| self.refuse(value))
    }

    fn fixed(&self) -> Failure {
        Failure::error(sqlstate::READ_ONLY_SETTING, format!("parameter `{}` cannot be changed", self.name))
    }

    fn refuse(&self, value: &str) -> Failure {
        let message = format!("invalid value for parameter `{}`: `{value}`", self.name);
        let hint = match self.rule {
            Rule::Integer(low, high) => format!("a number from {low} to {high} is accepted"),
            Rule::OneOf(values) => format!("accepted are: {}", values.join(", ")),
            Rule::Time => {
                format!("a time such as `500`, `30s` or `5min`, from 0 to {MAX_TIME_MS} ms, is accepted")
            }
            Rule::Memory => {
                "kilobytes, or a number with one of the units B, kB, MB, GB and TB, are accepted".to_owned()
            }
            Rule::Utf8 => "only UTF8 is accepted".to_owned(),
            Rule::IsoDate => "only ISO is accepted".to_owned(),
            Rule::Boolean | Rule::Any | Rule::Fixed => "accepted are: on, off".to_owned(),
        };
        Failure::error(sqlstate::INVALID_PARAMETER_VALUE, message).hint(hint)
    }
}

/// PostgreSQL looks at letters and digits only: asyncpg sends the name in quotes. `SQL_ASCII` asks for bytes as they are, as
/// psql does where no locale is set.
fn utf8(lower: &str) -> Option<&'static str> {
    let name: String = lower.chars().filter(char::is_ascii_alphanumeric).collect();
    match name.as_str() {
        "utf8" | "unicode" => Some("UTF8"),
        "sqlascii" => Some("SQL_ASCII"),
        _ => None,
    }
}

fn is_memory(value: &str) -> bool {
    let digits = value.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = value.get(digits.len()..).unwrap_or_default();
    digits.trim().parse::<u32>().is_ok() && matches!(unit, "" | "B" | "kB" | "MB" | "GB" | "TB")
}

fn boolean(value: &str) -> Option<&'static str> {
    match value {
        "on" | "true" | "yes" | "1" | "t" | "y" => Some("on"),
        "off" | "false" | "no" | "0" | "f" | "n" => Some("off"),
        _ => None,
    }
}

fn iso_date(value: &str) -> Option<String> {
    let mut order = "MDY";
    for word in value.split([',', ' ']).filter(|word| !word.is_empty()) {
        order = match word {
            "iso" | "default" => order,
            "mdy" | "us" | "noneuropean" => "MDY",
            "dmy" | "euro" | "european" => "DMY",
            "ymd" => "YMD",
            _ => return None,
        };
    }
    Some(format!("ISO, {order}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn values_are_checked_and_spelled_canonically() {
        let mut settings = Settings::new("ann");
        let mut check = |name, value, expected: &str| {
            settings.set(name, Some(value)).unwrap();
            assert_eq!(settings.get(name).unwrap(), expected);
        };
        check("datestyle", "iso, dmy", "ISO, DMY");
        check("CLIENT_ENCODING", "utf-8", "UTF8");
        check("client_encoding", "'utf-8'", "UTF8");
        check("client_encoding", "SQL_ASCII", "SQL_ASCII");
        check("extra_float_digits", "3", "3");
        check("row_security", "FALSE", "off");
        check("idle_session_timeout", "5min", "300000");
        check("standard_conforming_strings", "true", "on");
        check("default_transaction_isolation", "Serializable", "serializable");
    }

    #[test]
    fn what_would_change_results_silently_is_refused() {
        let mut settings = Settings::new("ann");
        let mut check = |name, value| settings.set(name, Some(value)).unwrap_err().sqlstate;
        assert_eq!(check("client_encoding", "LATIN1"), "22023");
        assert_eq!(check("datestyle", "German"), "22023");
        assert_eq!(check("standard_conforming_strings", "off"), "22023");
        assert_eq!(check("idle_session_timeout", "soon"), "22023");
        assert_eq!(check("idle_session_timeout", "25d"), "22023");
        assert_eq!(check("lock_timeout", "-1"), "22023");
        assert_eq!(check("server_version", "16"), "55P02");
        assert_eq!(check("no_such_setting", "1"), "42704");
    }

    #[test]
    fn settings_are_reset_to_what_the_client_began_with() {
        let mut settings = Settings::new("ann");
        settings.set("application_name", Some("app")).unwrap();
        settings.settle();
        settings.set("application_name", Some("other")).unwrap();
        settings.set("jit", Some("on")).unwrap();
        settings.set("application_name", None).unwrap();
        assert_eq!(settings.get("application_name").unwrap(), "app");
        settings.set("application_name", Some("other")).unwrap();
        settings.reset();
        assert_eq!(settings.get("application_name").unwrap(), "app");
        assert_eq!(settings.get("jit").unwrap(), "off");
    }

    #[test]
    fn changes_are_reported_where_postgresql_does() {
        let mut settings = Settings::new("ann");
        let reported = settings.set("Application_Name", Some("psql")).unwrap();
        assert_eq!(reported, Some(Reported { name: "application_name", value: "psql".to_owned() }));
        assert_eq!(settings.set("jit", Some("off")).unwrap(), None);
        assert_eq!(settings.get("session_authorization").unwrap(), "ann");
        assert_eq!(settings.set("application_name", None).unwrap().unwrap().value, "");
    }
}
