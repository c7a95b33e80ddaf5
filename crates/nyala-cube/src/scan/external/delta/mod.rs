//! Delta Lake tables: a log tells which Parquet files a version has, and which of their rows are deleted.

mod columns;
mod deleted;
mod log;

use std::collections::BTreeMap;

use nyala_sql::error::{ErrorKind, QueryError, Result};
use nyala_sql::functions::timestamp_of;
use nyala_storage::object::Location;
use object_store::ObjectMeta;
use url::Url;

pub use columns::{DeltaColumns, check_columns};
pub use deleted::DeletedRows;
pub use log::DeltaLogs;

use super::layout::Folder;

/// A table, and the version of it that is read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DeltaTable {
    root: Url,
    at: At,
}

/// The version that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum At {
    Newest,
    Version(u64),
    /// The last version that was committed up to this time, in milliseconds since 1970.
    Time(i64),
}

/// A data file of a version.
#[derive(Debug, Clone)]
pub struct DeltaFile {
    pub meta: ObjectMeta,
    /// Values of the partition columns.
    pub values: Vec<Folder>,
    pub deleted: Option<DeletedRows>,
}

impl DeltaTable {
    /// The table in a folder, with the options of CREATE EXTERNAL TABLE.
    pub fn new<'a>(
        location: &Location,
        options: impl IntoIterator<Item = (&'a String, &'a String)>,
    ) -> Result<Self> {
        let mut at = At::Newest;
        let options: BTreeMap<&str, &str> = options
            .into_iter()
            .map(|(name, value)| (name.strip_prefix("format.").unwrap_or(name), value.as_str()))
            .collect();
        if options.len() > 1 {
            return Err(invalid("either `version` or `timestamp` is given, and no other option".to_owned()));
        }
        for (name, value) in options {
            at = match name {
                "version" => At::Version(
                    value.trim().parse().map_err(|_| invalid(format!("`{value}` is no version")))?,
                ),
                "timestamp" => {
                    let zone = Some("UTC".parse().map_err(QueryError::internal)?);
                    let micros = timestamp_of(value, zone.as_ref());
                    At::Time(
                        micros.ok_or_else(|| invalid(format!("`{value}` is no timestamp")))?.div_euclid(1000),
                    )
                }
                _ => return Err(invalid(format!("option `{name}` is not known"))),
            };
        }
        Ok(Self { root: location.clone().into_folder().url().clone(), at })
    }
}

fn invalid(message: String) -> QueryError {
    QueryError::new(ErrorKind::InvalidDefinition, message)
        .hint("a Delta table has the options ('version' '5') and ('timestamp' '2026-01-31 12:00:00')")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn options_choose_a_version() {
        let table = |name: &str, value: &str| {
            DeltaTable::new(&Location::parse("/t").unwrap(), [(&name.to_owned(), &value.to_owned())])
        };
        assert_eq!(table("format.version", "7").unwrap().at, At::Version(7));
        assert_eq!(table("timestamp", "1970-01-01 00:00:01.5").unwrap().at, At::Time(1500));
        assert_eq!(table("timestamp", "1970-01-01T01:00:00+01:00").unwrap().at, At::Time(0));
        assert_eq!(table("version", "1").unwrap().root.as_str(), "file:///t/");
        for (name, value) in
            [("version", "-1"), ("version", "new"), ("timestamp", "noon"), ("has_header", "x")]
        {
            assert!(table(name, value).is_err(), "{name} {value}");
        }
    }
}
