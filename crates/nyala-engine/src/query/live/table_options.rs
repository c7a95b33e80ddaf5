//! The options of a live table that is about to be made.

use nyala_cube::live::durability;
use nyala_model::Step;
use nyala_sql::error::{ErrorKind, QueryError, Result};
use nyala_sql::statement::{StatementOption, Width, parse_width};
use nyala_storage::oplog::Durability;

/// Default number of buckets of a table.
const BUCKETS: u32 = 16;

/// The options in `WITH (…)`.
pub struct Options {
    pub store: Option<String>,
    pub buckets: u32,
    pub durability: Durability,
    pub ttl_ms: Option<u64>,
}

impl Options {
    /// The options of a statement; those that it does not name have their defaults.
    pub fn parse(given: &[StatementOption]) -> Result<Self> {
        let mut options =
            Self { store: None, buckets: BUCKETS, durability: Default::default(), ttl_ms: None };
        for StatementOption { name, value } in given {
            match name.as_str() {
                "disk_store" => options.store = Some(value.clone()),
                "buckets" => options.buckets = value.parse().map_err(|_| bad(name, value, "1 to 4096"))?,
                "sync" => options.durability = durability(value)?,
                "ttl" => options.ttl_ms = ttl(name, value)?,
                _ => {
                    let message = format!("a live table has no option `{name}`");
                    let error = QueryError::new(ErrorKind::InvalidDefinition, message);
                    return Err(error.hint("there are disk_store, buckets, sync and ttl"));
                }
            }
        }
        Ok(options)
    }
}

fn bad(name: &str, value: &str, range: &str) -> QueryError {
    let message = format!("`{value}` is not a value for option `{name}` of a live table");
    QueryError::new(ErrorKind::InvalidDefinition, message).hint(format!("use {range}"))
}

/// How long rows live: a number of milliseconds, or an interval such as `'30 days'`.
fn ttl(name: &str, value: &str) -> Result<Option<u64>> {
    let refused = || bad(name, value, "a whole number of milliseconds, or an interval such as '30 days'");
    if let Ok(ms) = value.parse::<u64>() {
        return Ok(Some(ms).filter(|ms| *ms > 0));
    }
    let seconds = match parse_width(value) {
        Some(Width::Seconds(seconds)) => seconds,
        Some(Width::Step(Step::Days(days))) => days.checked_mul(86_400).ok_or_else(refused)?,
        _ => return Err(refused()),
    };
    u64::try_from(seconds)
        .ok()
        .and_then(|s| s.checked_mul(1000))
        .filter(|ms| *ms > 0)
        .map(Some)
        .ok_or_else(refused)
}
