//! Rows as lines of CSV, as PostgreSQL's COPY writes them: NULL can be told from an empty text, and from one that says the same.

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::Schema;
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use nyala_sql::error::{ErrorKind, QueryError, Result};

const VALUES: FormatOptions<'static> = FormatOptions::new().with_display_error(false);

/// How the fields of a line are told apart.
#[derive(Debug, Clone)]
pub struct CsvLines {
    /// Between fields.
    pub delimiter: u8,
    /// Around fields that hold one of these signs; two stand for one within.
    pub quote: u8,
    /// Stands for NULL.
    pub null: String,
}

impl CsvLines {
    /// Fails if what is written could not be read again.
    pub fn check(&self) -> Result<()> {
        let ends_line = |byte: u8| matches!(byte, b'\n' | b'\r');
        let message = match () {
            () if ends_line(self.delimiter) || ends_line(self.quote) => {
                "DELIMITER and QUOTE cannot be the end of a line"
            }
            () if !self.delimiter.is_ascii() || !self.quote.is_ascii() => {
                "DELIMITER and QUOTE are characters of ASCII"
            }
            () if self.delimiter == self.quote => "DELIMITER and QUOTE cannot be the same",
            () if self.null.bytes().any(|byte| self.is_special(byte)) => {
                "NULL cannot hold the DELIMITER, the QUOTE or the end of a line"
            }
            () => return Ok(()),
        };
        Err(QueryError::new(ErrorKind::InvalidParameter, message)
            .hint("what is written could not be read again; choose other characters"))
    }

    fn is_special(&self, byte: u8) -> bool {
        byte == self.delimiter || byte == self.quote || matches!(byte, b'\n' | b'\r')
    }

    /// Appends a line with the names of the columns.
    pub fn names(&self, schema: &Schema, out: &mut Vec<u8>) {
        for (at, field) in schema.fields().iter().enumerate() {
            self.separate(at, out);
            self.field(field.name(), out);
        }
        out.push(b'\n');
    }

    /// Appends a line for each row.
    ///
    /// # Errors
    /// A value has no text.
    pub fn rows(&self, batch: &RecordBatch, out: &mut Vec<u8>) -> std::result::Result<(), ArrowError> {
        let columns = batch.columns().iter();
        let texts = columns.map(|column| ArrayFormatter::try_new(column.as_ref(), &VALUES));
        let texts = texts.collect::<std::result::Result<Vec<_>, _>>()?;
        for row in 0..batch.num_rows() {
            let begin = out.len();
            for (at, (column, texts)) in batch.columns().iter().zip(&texts).enumerate() {
                self.separate(at, out);
                match column.is_null(row) {
                    true => out.extend_from_slice(self.null.as_bytes()),
                    false => self.field(&texts.value(row).try_to_string()?, out),
                }
            }
            if out.len() == begin {
                // Readers pass over empty lines.
                out.extend_from_slice(&[self.quote, self.quote]);
            }
            out.push(b'\n');
        }
        Ok(())
    }

    fn separate(&self, at: usize, out: &mut Vec<u8>) {
        if at > 0 {
            out.push(self.delimiter);
        }
    }

    fn field(&self, text: &str, out: &mut Vec<u8>) {
        if text != self.null && !text.bytes().any(|byte| self.is_special(byte)) {
            out.extend_from_slice(text.as_bytes());
            return;
        }
        out.push(self.quote);
        for byte in text.bytes() {
            if byte == self.quote {
                out.push(byte);
            }
            out.push(byte);
        }
        out.push(self.quote);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use arrow::array::{ArrayRef, BooleanArray, Int64Array, StringArray};

    use super::*;

    fn written(null: &str, columns: &[(&str, ArrayRef)]) -> String {
        let columns = columns.iter().map(|(name, column)| (*name, Arc::clone(column), true));
        let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
        let lines = CsvLines { delimiter: b',', quote: b'"', null: null.to_owned() };
        let mut out = Vec::new();
        lines.names(&batch.schema(), &mut out);
        lines.rows(&batch, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn null_is_no_text() {
        let texts: ArrayRef =
            Arc::new(StringArray::from(vec![Some(""), None, Some("NA"), Some("a,\"b\"\nc")]));
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(-3), Some(4)]));
        let both = [("t,u", Arc::clone(&texts)), ("n", numbers)];
        assert_eq!(written("", &both), "\"t,u\",n\n\"\",1\n,\nNA,-3\n\"a,\"\"b\"\"\nc\",4\n");
        assert_eq!(written("NA", &both), "\"t,u\",n\n,1\nNA,NA\n\"NA\",-3\n\"a,\"\"b\"\"\nc\",4\n");
    }

    #[test]
    fn no_row_is_an_empty_line() {
        let switches: ArrayRef = Arc::new(BooleanArray::from(vec![Some(true), None]));
        assert_eq!(written("", &[("s", switches)]), "s\ntrue\n\"\"\n");
    }

    #[test]
    fn signs_with_two_meanings_are_refused() {
        let check =
            |delimiter, quote, null: &str| CsvLines { delimiter, quote, null: null.to_owned() }.check();
        assert!(check(b';', b'\'', "NULL").is_ok());
        for (delimiter, quote, null) in
            [(b',', b',', ""), (b'\n', b'"', ""), (b',', b'\r', ""), (b',', b'"', "a,b"), (0xe9, b'"', "")]
        {
            assert!(check(delimiter, quote, null).is_err(), "{delimiter} {quote} {null}");
        }
    }
}
