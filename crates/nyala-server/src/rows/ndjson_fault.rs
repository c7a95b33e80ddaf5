//! Finds the fault in a line of NDJSON that was refused.
//!
//! The decoder tells of a value that it cannot read, but not always of which column. A line is decoded again with ever
//! fewer columns until one is left, so that a wide table costs a logarithm of its columns and not all of them.

use std::collections::HashSet;
use std::fmt;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use arrow::error::ArrowError;
use serde::de::{Deserializer as _, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::Deserializer;

use super::rejects::{Reject, shorten};

/// Decodes a line into columns; names of other columns are ignored.
pub type Decode = fn(&[u8], &SchemaRef) -> Result<Vec<RecordBatch>, ArrowError>;

/// The reject for the line with this number. `error` is the error that its block gave.
pub fn reject(at: u64, line: &[u8], schema: &SchemaRef, error: &ArrowError, decode: Decode) -> Reject {
    let plain = |column, reason: &str| Reject { line: at, column, reason: shorten(reason) };
    match names(line, schema) {
        Names::Known => {}
        Names::Unknown(name) => return plain(Some(name), "the table has no such column"),
        // The line is not one object, so that no column is at fault.
        Names::None => return plain(None, &reason_of(error, "")),
    }
    match column(line, schema, decode) {
        Some((column, error)) => {
            let reason = reason_of(&error, &column);
            plain(Some(column), &reason)
        }
        None => plain(None, &reason_of(error, "")),
    }
}

/// The first column that cannot be decoded, and its error; none if each one can.
fn column(line: &[u8], schema: &SchemaRef, decode: Decode) -> Option<(String, ArrowError)> {
    let first = |count: usize| {
        let columns: Vec<usize> = (0..count).collect();
        decode(line, &SchemaRef::new(schema.project(&columns).ok()?)).err()
    };
    // The first `below` columns can be decoded, the first `above` cannot.
    let (mut below, mut above) = (0, schema.fields().len());
    let mut error = first(above)?;
    while above - below > 1 {
        let middle = below + (above - below) / 2;
        match first(middle) {
            Some(earlier) => (above, error) = (middle, earlier),
            None => below = middle,
        }
    }
    let column = schema.fields().get(below)?.name().clone();
    Some((column, error))
}

/// The decoder's message, without the name of the column in front.
fn reason_of(error: &ArrowError, column: &str) -> String {
    let text = match error {
        ArrowError::JsonError(text) => text.clone(),
        ArrowError::ExternalError(error) => error.to_string(),
        other => other.to_string(),
    };
    text.strip_prefix(&format!("whilst decoding field '{column}': ")).unwrap_or(&text).to_owned()
}

/// The names in a line.
#[derive(Debug, PartialEq, Eq)]
enum Names {
    /// All names are columns of the table.
    Known,
    /// The first name that is no column of the table.
    Unknown(String),
    /// The line is not one object.
    None,
}

fn names(line: &[u8], schema: &Schema) -> Names {
    let columns = schema.fields().iter().map(|field| field.name().as_str()).collect();
    let mut find = FindUnknown { columns, found: None };
    let mut json = Deserializer::from_slice(line);
    let read = json.deserialize_map(&mut find).and_then(|()| json.end());
    match (find.found, read) {
        (Some(name), _) => Names::Unknown(name),
        (None, Ok(())) => Names::Known,
        (None, Err(_)) => Names::None,
    }
}

/// Reads an object up to the first name that is no column.
struct FindUnknown<'a> {
    columns: HashSet<&'a str>,
    found: Option<String>,
}

impl<'de> Visitor<'de> for &mut FindUnknown<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<String>()? {
            if !self.columns.contains(name.as_str()) {
                self.found = Some(name);
                return Err(A::Error::custom("a name that is no column"));
            }
            map.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{DataType, Field};

    use super::*;

    #[test]
    fn names_that_are_no_columns_are_found() {
        let schema = Schema::new(vec![
            Field::new("a", DataType::Int64, true),
            Field::new("b \"c\"", DataType::Utf8, true),
        ]);
        let check = |line: &str, expected| assert_eq!(names(line.as_bytes(), &schema), expected, "{line}");
        check("{\"a\": [1, {\"x\": 2}]}\r", Names::Known);
        check("{\"b \\\"c\\\"\": null, \"a\": 1}", Names::Known);
        check("{}", Names::Known);
        check("{\"a\": 1, \"A\": 2, \"x\": 3}", Names::Unknown("A".to_owned()));
        check("{\"x\": nonsense", Names::Unknown("x".to_owned()));
        for line in ["", "[]", "7", "{\"a\": 1} {\"a\": 2}", "{\"a\": 1", "{\"a\": 01}", "{a: 1}"] {
            check(line, Names::None);
        }
    }
}
