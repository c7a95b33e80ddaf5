//! Spellings of foreign engines that PostgreSQL does not know, in the words that it does, so that more records can be asked.
//!
//! Both servers are asked the same text. Names of types, and two functions of DataFusion that PostgreSQL has as syntax.

use regex::Regex;

pub struct Spelling(Vec<(Regex, &'static str)>);

impl Spelling {
    pub fn new() -> Spelling {
        let words = [
            (r"(?i)\b(INT|INTEGER|BIGINT|SMALLINT|TINYINT) UNSIGNED\b", "BIGINT"),
            (r"(?i)\bTINYINT\b", "SMALLINT"),
            (r"(?i)\bDOUBLE\b( PRECISION)?", "DOUBLE PRECISION"),
            (r"(?i)\bSTRING\b([,)\s])", "TEXT$1"),
            (r"(?i)\bdatafusion\.public\.", ""),
            (r"(?i)\bCREATE OR REPLACE TABLE (\w+)", "DROP TABLE IF EXISTS $1; CREATE TABLE $1"),
        ];
        Spelling(
            words.into_iter().filter_map(|(pattern, word)| Some((Regex::new(pattern).ok()?, word))).collect(),
        )
    }

    pub fn for_postgres(&self, sql: &str) -> String {
        let sql = self
            .0
            .iter()
            .fold(sql.to_owned(), |sql, (pattern, word)| pattern.replace_all(&sql, *word).into_owned());
        let sql = calls(&sql, "make_array(", &|inside| Some(format!("ARRAY[{inside}]")));
        calls(&sql, "arrow_cast(", &|inside| {
            let (value, kind) = inside.rsplit_once(", '").or_else(|| inside.rsplit_once(",'"))?;
            Some(format!("CAST({value} AS {})", sql_type(kind.trim_end().strip_suffix('\'')?)?))
        })
    }
}

/// Writes each call of a function anew, from the innermost; a call that `write` does not know stays.
fn calls(sql: &str, name: &str, write: &dyn Fn(&str) -> Option<String>) -> String {
    let mut written = sql.to_owned();
    let mut before = written.len();
    while let Some(start) = written.get(..before).and_then(|text| text.to_ascii_lowercase().rfind(name)) {
        before = start;
        let inside = start + name.len();
        let Some(length) = closing(&written[inside..]) else { continue };
        if let Some(call) = write(&written[inside..inside + length]) {
            written.replace_range(start..=inside + length, &call);
        }
    }
    written
}

/// Where the bracket that is open at the start of a text closes.
fn closing(text: &str) -> Option<usize> {
    let (mut depth, mut quoted) = (0, false);
    for (place, letter) in text.char_indices() {
        match letter {
            '\'' => quoted = !quoted,
            '(' if !quoted => depth += 1,
            ')' if !quoted && depth == 0 => return Some(place),
            ')' if !quoted => depth -= 1,
            _ => {}
        }
    }
    None
}

/// The type of PostgreSQL that has the values of one of Arrow's.
fn sql_type(arrow: &str) -> Option<String> {
    let name = match arrow {
        "Utf8" | "LargeUtf8" | "Utf8View" | "Dictionary(Int32, Utf8)" => "text",
        "Int8" | "Int16" | "UInt8" => "smallint",
        "Int32" | "UInt16" => "integer",
        "Int64" | "UInt32" => "bigint",
        "Float32" => "real",
        "Float64" => "double precision",
        "Boolean" => "boolean",
        "Date32" | "Date64" => "date",
        _ if arrow.starts_with("Timestamp(") && arrow.ends_with(", None)") => "timestamp",
        _ if arrow.starts_with("Timestamp(") => "timestamptz",
        _ => {
            return Some(format!(
                "numeric({}",
                arrow.strip_prefix("Decimal128(").or(arrow.strip_prefix("Decimal256("))?
            ));
        }
    };
    Some(name.to_owned())
}
