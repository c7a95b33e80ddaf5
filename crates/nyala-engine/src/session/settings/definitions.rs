//! The list of settings that sessions may change. No session can set any other: DataFusion has some hundred and fifty
//! options, many of which break every later query with a value that it accepts (`optimizer.max_passes = 0`), or change
//! the meaning of queries.

use arrow_array::timezone::Tz;
use datafusion::config::ConfigOptions;
use nyala_model::suggest::{closest, nearest};
use nyala_model::time_text::parse_time;
use nyala_sql::error::{ErrorKind, QueryError, Result};

use super::NyalaOptions;
use super::search_path::schemas_in_path;

/// One setting.
#[derive(Debug)]
pub struct Definition {
    /// The name, as it is shown.
    pub name: &'static str,
    /// Other names by which the setting is set.
    also: &'static [&'static str],
    rule: Rule,
    pub place: Place,
    /// Its purpose, for `SHOW ALL` and `system.settings`.
    pub description: &'static str,
}

/// Which values a setting takes.
#[derive(Debug)]
enum Rule {
    Switch,
    /// A whole number from 1 to a bound that the options of a new session decide.
    Count(fn(&ConfigOptions) -> usize),
    Time,
    Zone,
    Schemas,
    Name,
}

/// Where the value is kept.
#[derive(Debug, Clone, Copy)]
pub enum Place {
    Schema,
    StatementTimeout,
    /// An option of DataFusion, or of ours beside those.
    Option {
        key: &'static str,
        read: fn(&ConfigOptions) -> String,
    },
}

/// Most rows of a batch. Operators allocate a whole batch before they have a row, and if the system lacks the memory
/// the process ends.
const MAX_BATCH_ROWS: usize = 65_536;
/// Most partitions. An exchange has a channel from each to each.
const MAX_PARTITIONS: usize = 256;
/// Longest time, in milliseconds: PostgreSQL's.
const MAX_TIME_MS: u128 = i32::MAX as u128;

/// Every setting, by name.
pub const DEFINITIONS: &[Definition] = &[
    Definition {
        name: "datafusion.execution.batch_size",
        also: &[],
        rule: Rule::Count(|options| MAX_BATCH_ROWS.max(options.execution.batch_size.get())),
        place: Place::Option {
            key: "datafusion.execution.batch_size",
            read: |options| options.execution.batch_size.to_string(),
        },
        description: "Rows computed at a time, 1 to 65536. At first `query.batch_rows`.",
    },
    Definition {
        name: "datafusion.execution.target_partitions",
        also: &[],
        rule: Rule::Count(most_partitions),
        place: Place::Option {
            key: "datafusion.execution.target_partitions",
            read: |options| options.execution.target_partitions.to_string(),
        },
        description: "Parts of a query that are computed side by side, 1 to four for each of `query.threads`, at most 256.",
    },
    Definition {
        name: "nyala.check_files",
        also: &[],
        rule: Rule::Switch,
        place: Place::Option {
            key: "nyala.check_files",
            read: |options| on_or_off(nyala(options).check_files),
        },
        description: "Whether the files of cubes' tables are listed before every statement.",
    },
    Definition {
        name: "nyala.distributed",
        also: &[],
        rule: Rule::Switch,
        place: Place::Option {
            key: "nyala.distributed",
            read: |options| on_or_off(nyala(options).distributed),
        },
        description: "Whether other nodes may do parts of queries.",
    },
    Definition {
        name: "nyala.pushdown",
        also: &[],
        rule: Rule::Switch,
        place: Place::Option { key: "nyala.pushdown", read: |options| on_or_off(nyala(options).pushdown) },
        description: "Whether aggregations that no cube answers may run on the tables.",
    },
    Definition {
        name: "nyala.resource_group",
        also: &[],
        rule: Rule::Name,
        place: Place::Option { key: "nyala.resource_group", read: |options| nyala(options).resource_group },
        description: "The resource group of the session's queries. Empty: the group of its user or schema.",
    },
    Definition {
        name: "nyala.result_cache",
        also: &[],
        rule: Rule::Switch,
        place: Place::Option {
            key: "nyala.result_cache",
            read: |options| on_or_off(nyala(options).result_cache),
        },
        description: "Whether an answer given before to the same text, of the same snapshot, may be given again.",
    },
    Definition {
        name: "nyala.show_route",
        also: &[],
        rule: Rule::Switch,
        place: Place::Option {
            key: "nyala.show_route",
            read: |options| on_or_off(nyala(options).show_route),
        },
        description: "Whether a notice after each query tells what answered it, and why no other cube did.",
    },
    Definition {
        name: "nyala.single_node_rows",
        also: &[],
        rule: Rule::Count(|_| usize::MAX),
        place: Place::Option {
            key: "nyala.single_node_rows",
            read: |options| nyala(options).single_node_rows.to_string(),
        },
        description: "A query that reads at most so many rows is done by one node alone. At first `query.single_node_rows`.",
    },
    Definition {
        name: "nyala.use_cubes",
        also: &[],
        rule: Rule::Switch,
        place: Place::Option { key: "nyala.use_cubes", read: |options| on_or_off(nyala(options).use_cubes) },
        description: "Whether aggregations may be answered from cubes.",
    },
    Definition {
        name: "search_path",
        also: &[],
        rule: Rule::Schemas,
        place: Place::Schema,
        description: "The schema of names without one: the first of the list.",
    },
    Definition {
        name: "statement_timeout",
        also: &[],
        rule: Rule::Time,
        place: Place::StatementTimeout,
        description: "How long a statement may take, in milliseconds, at most 2147483647. 0 means for ever.",
    },
    Definition {
        name: "timezone",
        also: &["time.zone", "datafusion.execution.time_zone"],
        rule: Rule::Zone,
        place: Place::Option {
            key: "datafusion.execution.time_zone",
            read: |options| options.execution.time_zone.clone().unwrap_or_else(|| "UTC".to_owned()),
        },
        description: "The time zone of the session: a name such as `Europe/Oslo`, or an offset such as `+02:00`.",
    },
];

fn most_partitions(options: &ConfigOptions) -> usize {
    let configured = options.execution.target_partitions;
    configured.saturating_mul(4).min(MAX_PARTITIONS).max(configured)
}

fn nyala(options: &ConfigOptions) -> NyalaOptions {
    options.extensions.get::<NyalaOptions>().cloned().unwrap_or_default()
}

fn on_or_off(switch: bool) -> String {
    if switch { "on" } else { "off" }.to_owned()
}

/// Finds a setting by name; case does not matter.
pub fn find(name: &str) -> Option<&'static Definition> {
    let is = |known: &&str| known.eq_ignore_ascii_case(name);
    DEFINITIONS.iter().find(|definition| is(&definition.name) || definition.also.iter().any(&is))
}

/// The error of a name that is no setting.
pub fn unknown(name: &str) -> QueryError {
    let names = || DEFINITIONS.iter().map(|definition| definition.name);
    if name.to_ascii_lowercase().starts_with("datafusion.") {
        let message = format!("setting `{name}` is none that a session may change");
        let near = closest(name, names()).unwrap_or_default();
        return QueryError::new(ErrorKind::UndefinedObject, message)
            .hint(format!("the nearest that it may change is `{near}`; `SHOW ALL` lists them"));
    }
    let error = QueryError::new(ErrorKind::UndefinedObject, format!("setting `{name}` does not exist"));
    match nearest(name, names()) {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None => error.hint("`SHOW ALL` lists the settings"),
    }
}

impl Definition {
    /// The value as it is kept. `fresh` are the options of a new session.
    ///
    /// # Errors
    /// Names the setting, the rule and the value.
    pub fn accept(&self, value: &str, fresh: &ConfigOptions) -> Result<String> {
        let text = value.trim().trim_matches(['\'', '"']).trim();
        match self.rule {
            Rule::Switch => {
                switch(text).map(str::to_owned).ok_or_else(|| self.refuse(value, "`on` or `off`"))
            }
            Rule::Count(most) => {
                let most = most(fresh);
                let count = text.parse::<usize>().ok().filter(|count| (1..=most).contains(count));
                let rule = || format!("a whole number from 1 to {most}");
                count.map(|count| count.to_string()).ok_or_else(|| self.refuse(value, &rule()))
            }
            Rule::Time => {
                let ms = parse_time(text).map(|time| time.as_millis()).filter(|ms| *ms <= MAX_TIME_MS);
                let rule = || format!("a time such as `500`, `30s` or `5min`, from 0 to {MAX_TIME_MS} ms");
                ms.map(|ms| ms.to_string()).ok_or_else(|| self.refuse(value, &rule()))
            }
            Rule::Zone => zone(text)
                .ok_or_else(|| self.refuse(value, "a time zone such as `UTC`, `Europe/Oslo` or `+02:00`")),
            Rule::Schemas => Ok(first_schema(value)),
            Rule::Name => Ok(text.to_owned()),
        }
    }

    pub fn refuse(&self, value: &str, rule: &str) -> QueryError {
        let message = format!("setting `{}` must be {rule}, but is `{value}`", self.name);
        QueryError::new(ErrorKind::InvalidParameter, message)
    }
}

/// The usual words for on and off, as DataFusion writes them.
fn switch(text: &str) -> Option<&'static str> {
    match text.to_ascii_lowercase().as_str() {
        "on" | "true" | "yes" | "1" | "t" | "y" => Some("true"),
        "off" | "false" | "no" | "0" | "f" | "n" => Some("false"),
        _ => None,
    }
}

/// A zone as Arrow spells it. PostgreSQL ignores the case of names.
fn zone(text: &str) -> Option<String> {
    let mut capital = true;
    let capitals = text.chars().map(|letter| {
        let written = if capital { letter.to_ascii_uppercase() } else { letter.to_ascii_lowercase() };
        capital = !letter.is_alphanumeric();
        written
    });
    let spellings = [text.to_owned(), text.to_ascii_uppercase(), capitals.collect()];
    spellings.into_iter().find(|spelling| spelling.parse::<Tz>().is_ok())
}

/// The first schema of a `search_path` that is neither `$user` nor `pg_catalog`. If there is none, names without a schema mean tables of
/// `pg_catalog`.
fn first_schema(value: &str) -> String {
    let named =
        schemas_in_path(value).find(|name| !name.is_empty() && name != "$user" && name != "pg_catalog");
    named.unwrap_or_else(|| "pg_catalog".to_owned())
}
