//! Formats and options of files that a statement names.

use std::collections::HashMap;

use nyala_sql::error::{ErrorKind, QueryError, Result};
use nyala_sql::statement::FileTable;

/// The format in the name of a file, without the ending of compression; none if it tells nothing.
pub fn format_in_name(location: &str) -> Option<&'static str> {
    let name = location.to_ascii_lowercase();
    let name = compression_in_name(&name).and_then(|(ending, _)| name.strip_suffix(ending)).unwrap_or(&name);
    let formats = [
        (".parquet", "PARQUET"),
        (".csv", "CSV"),
        (".tsv", "CSV"),
        (".json", "JSON"),
        (".jsonl", "JSON"),
        (".ndjson", "JSON"),
    ];
    formats.iter().find(|(ending, _)| name.ends_with(ending)).map(|(_, format)| *format)
}

/// Whether the name tells that the values of a file stand between tabs. The names of its folders tell nothing.
pub fn is_tab_separated(location: &str) -> bool {
    let name = location.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    name.contains(".tsv") && !name.ends_with(".csv")
}

/// The ending of a compressed file, and the name of its compression.
pub fn compression_in_name(location: &str) -> Option<(&'static str, &'static str)> {
    let endings = [(".gz", "gzip"), (".zst", "zstd"), (".bz2", "bzip2"), (".xz", "xz")];
    endings.into_iter().find(|(ending, _)| location.to_ascii_lowercase().ends_with(ending))
}

/// The format of files that are read.
pub fn format_of(file: &FileTable) -> Result<&str> {
    let format = file.format.as_deref().or_else(|| format_in_name(&file.location));
    format.ok_or_else(|| {
        let message = format!("the name of `{}` does not tell the format of the files", file.location);
        QueryError::new(ErrorKind::InvalidDefinition, message)
            .hint("read them with read_parquet('…'), read_csv('…') or read_json('…')")
    })
}

/// The options of the format, and whether folders `column=value` become columns.
pub fn reader_options(file: &FileTable, format: &str) -> Result<(HashMap<String, String>, bool)> {
    let mut options = HashMap::new();
    let mut set = |name: &str, value: &str| drop(options.insert(format!("format.{name}"), value.to_owned()));
    if let Some((_, compression)) = compression_in_name(&file.location).filter(|_| format != "PARQUET") {
        set("compression", compression);
    }
    if is_tab_separated(&file.location) {
        set("delimiter", "\t");
    }
    let mut find_partitions = true;
    for (name, value) in &file.options {
        match (name.as_str(), format) {
            ("hive_partitioning", _) => find_partitions = is_true(name, value)?,
            ("union_by_name", _) if is_true(name, value)? => {}
            ("delim" | "delimiter" | "sep", "CSV") => set("delimiter", value),
            ("header", "CSV") => set("has_header", &is_true(name, value)?.to_string()),
            ("quote" | "escape" | "comment", "CSV") => set(name, value),
            ("compression", "CSV" | "JSON") => set(name, value),
            ("sample_size", "CSV" | "JSON") => set("schema_infer_max_rec", value),
            _ => return Err(unknown_option(name, format)),
        }
    }
    Ok((options, find_partitions))
}

fn unknown_option(name: &str, format: &str) -> QueryError {
    let known = match format {
        "CSV" => "delim, header, quote, escape, comment, compression, sample_size, hive_partitioning",
        "JSON" => "compression, sample_size, hive_partitioning",
        _ => "hive_partitioning",
    };
    QueryError::new(ErrorKind::Unsupported, format!("option `{name}` of {format} files is not supported"))
        .hint(format!("there are {known}"))
}

/// The value of an option that is on or off.
pub fn is_true(name: &str, value: &str) -> Result<bool> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "on" | "1" => Ok(true),
        "false" | "off" | "0" => Ok(false),
        _ => {
            let message = format!("option `{name}` is true or false, not `{value}`");
            Err(QueryError::new(ErrorKind::InvalidParameter, message))
        }
    }
}
