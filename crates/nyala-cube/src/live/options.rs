//! Options of disk stores, as users write them.

use std::collections::BTreeMap;
use std::str::FromStr;

use nyala_model::suggest::nearest;
use nyala_sql::error::{ErrorKind, QueryError, Result};
use nyala_storage::oplog::{Durability, StoreOptions};

/// The options by the names users know them by.
const NAMES: [&str; 16] = [
    "checkpoint_bytes",
    "checkpoint_interval_ms",
    "compact_below",
    "compact_bytes",
    "compact_small",
    "load_values",
    "preallocate_bytes",
    "queue_bytes",
    "recovery_threads",
    "reserve_bytes",
    "retain_labels",
    "retain_log_bytes",
    "seal_bytes",
    "statement_bytes",
    "sync_interval_ms",
    "value_bytes",
];

/// Checks that a store can be opened with these options.
pub fn check_options(given: &BTreeMap<String, String>) -> Result<()> {
    store_options(given).map(|_| ())
}

/// The options for opening a store.
pub fn store_options(given: &BTreeMap<String, String>) -> Result<StoreOptions> {
    let mut options = StoreOptions::default();
    for (name, value) in given {
        set(&mut options, name, value)?;
    }
    options.validate()?;
    Ok(options)
}

fn set(options: &mut StoreOptions, name: &str, value: &str) -> Result<()> {
    match name {
        "checkpoint_bytes" => options.checkpoint_bytes = parse(name, value)?,
        "checkpoint_interval_ms" => options.checkpoint_interval_ms = parse(name, value)?,
        "compact_below" => options.compact_below = parse(name, value)?,
        "compact_bytes" => options.compact_bytes = parse(name, value)?,
        "compact_small" => options.compact_small = parse(name, value)?,
        "load_values" => options.load_values = parse(name, value)?,
        "preallocate_bytes" => options.preallocate_bytes = parse(name, value)?,
        "queue_bytes" => options.queue_bytes = parse(name, value)?,
        "recovery_threads" => options.recovery_threads = parse(name, value)?,
        "reserve_bytes" => options.reserve_bytes = parse(name, value)?,
        "retain_labels" => options.retain_labels = parse(name, value)?,
        "retain_log_bytes" => options.retain_log_bytes = parse(name, value)?,
        "seal_bytes" => options.seal_bytes = parse(name, value)?,
        "statement_bytes" => options.statement_bytes = parse(name, value)?,
        "sync_interval_ms" => options.sync_interval_ms = parse(name, value)?,
        "value_bytes" => options.value_bytes = parse(name, value)?,
        _ => return Err(unknown(name)),
    }
    Ok(())
}

fn parse<T: FromStr>(name: &str, value: &str) -> Result<T> {
    value.parse().map_err(|_| {
        QueryError::new(
            ErrorKind::InvalidDefinition,
            format!("`{value}` is not a value for option `{name}` of a disk store"),
        )
        .hint("sizes are whole numbers of bytes, times of milliseconds")
    })
}

fn unknown(name: &str) -> QueryError {
    let error = QueryError::new(ErrorKind::InvalidDefinition, format!("a disk store has no option `{name}`"));
    match nearest(name, NAMES) {
        Some(near) => error.hint(format!("did you mean `{near}`?")),
        None => error.hint(format!("there are: {}", NAMES.join(", "))),
    }
}

/// When writes of a table are acknowledged, from the word for it.
pub fn durability(word: &str) -> Result<Durability> {
    match word.to_ascii_lowercase().as_str() {
        "group" => Ok(Durability::Group),
        "interval" => Ok(Durability::Interval),
        "os" => Ok(Durability::Os),
        _ => {
            Err(QueryError::new(ErrorKind::InvalidDefinition, format!("`{word}` is not a value for `sync`"))
                .hint("use 'group' (on disk before the acknowledgement), 'interval' or 'os'"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(name: &str, value: &str) -> BTreeMap<String, String> {
        BTreeMap::from([(name.to_owned(), value.to_owned())])
    }

    #[test]
    fn options_are_taken_or_refused_by_name() {
        assert_eq!(store_options(&given("seal_bytes", "8192")).unwrap().seal_bytes, 8192);
        for name in NAMES {
            let refusal = store_options(&given(name, "much")).unwrap_err().to_string();
            assert_eq!(refusal, format!("`much` is not a value for option `{name}` of a disk store"));
        }
        let refusal = store_options(&given("seal_byte", "1")).unwrap_err();
        assert_eq!(refusal.hint.as_deref(), Some("did you mean `seal_bytes`?"));
        let refusal = store_options(&given("seal_bytes", "1")).unwrap_err().to_string();
        assert_eq!(refusal, "option `seal_bytes` must be 4 KiB to 512 MiB");
    }
}
