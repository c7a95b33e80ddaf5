//! The beginning of a CSV file: the names of its columns, and rows from which their types are guessed.

use std::io::Cursor;
use std::sync::Arc;

use arrow::csv::reader::Format;
use arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use bytes::{Bytes, BytesMut};
use datafusion::common::config::CsvOptions;
use datafusion::error::Result;
use futures::{StreamExt, stream};
use nyala_sql::error::{ErrorKind, QueryError};

use super::bytes::ByteStream;

/// Largest length of a first line, in bytes.
const MAX_LINE_BYTES: usize = 16 << 20;
/// Bytes from which types are guessed, at most.
pub const GUESSED_BYTES: usize = 1 << 20;

/// Whole records from the beginning of a file.
#[derive(Debug)]
pub struct HeadOfCsv {
    bytes: Bytes,
    /// Length of the whole records among the bytes.
    whole: usize,
}

impl HeadOfCsv {
    /// Reads `wanted` bytes, and at least one record. Also returns all bytes of the file from its beginning.
    pub async fn read(
        mut bytes: ByteStream,
        options: &CsvOptions,
        wanted: usize,
    ) -> Result<(Self, ByteStream)> {
        let mut head = BytesMut::new();
        let mut ended = false;
        let whole = loop {
            let whole = if ended { head.len() } else { end_of_records(&head, options) };
            if ended || (whole > 0 && head.len() >= wanted) {
                break whole;
            }
            if head.len() > MAX_LINE_BYTES.max(wanted) {
                let message = format!("its first line is longer than {} MiB", MAX_LINE_BYTES >> 20);
                return Err(QueryError::new(ErrorKind::Unreadable, message)
                    .hint("check the quotes, and the option `format.quote`")
                    .into());
            }
            match bytes.next().await {
                Some(more) => head.extend_from_slice(&more?),
                None => ended = true,
            }
        };
        let head = head.freeze();
        let all = stream::iter([Ok(head.clone())]).chain(bytes).boxed();
        Ok((Self { bytes: head, whole }, all))
    }

    /// Names and types of the columns, guessed from at most `rows` rows.
    pub fn columns(&self, options: &CsvOptions, rows: usize) -> Result<Vec<FieldRef>> {
        let records = self.bytes.get(..self.whole).unwrap_or_default();
        let (schema, _) = format_of(options).infer_schema(Cursor::new(records), Some(rows))?;
        Ok(schema.fields().iter().cloned().collect())
    }

    /// The names in the first line. Without a header, only their number counts.
    pub fn names(&self, options: &CsvOptions) -> Result<Vec<String>> {
        Ok(self.columns(options, 0)?.iter().map(|column| column.name().clone()).collect())
    }
}

/// Columns with the types that a table has. Texts of times are read as microseconds.
pub fn columns_of_csv(columns: &[FieldRef]) -> Vec<FieldRef> {
    let settled = |column: &FieldRef| {
        let data_type = match column.data_type() {
            DataType::Timestamp(_, zone) => DataType::Timestamp(TimeUnit::Microsecond, zone.clone()),
            other => other.clone(),
        };
        Arc::new(Field::new(column.name(), data_type, true))
    };
    columns.iter().map(settled).collect()
}

/// Whether the first line names the columns.
pub fn has_header(options: &CsvOptions) -> bool {
    options.has_header.unwrap_or(true)
}

fn format_of(options: &CsvOptions) -> Format {
    let mut format = Format::default()
        .with_header(has_header(options))
        .with_delimiter(options.delimiter)
        .with_quote(options.quote)
        .with_truncated_rows(options.truncated_rows.unwrap_or(false));
    if let Some(escape) = options.escape {
        format = format.with_escape(escape);
    }
    if let Some(comment) = options.comment {
        format = format.with_comment(comment);
    }
    if let Some(terminator) = options.terminator {
        format = format.with_terminator(terminator);
    }
    format
}

/// End of the last whole record that is neither a comment nor an empty line; 0 if there is none.
fn end_of_records(bytes: &[u8], options: &CsvOptions) -> usize {
    let terminator = options.terminator.unwrap_or(b'\n');
    let (mut quoted, mut escaped, mut begin, mut end) = (false, false, 0, 0);
    for (position, byte) in bytes.iter().enumerate() {
        if escaped {
            escaped = false;
        } else if options.escape == Some(*byte) && quoted {
            escaped = true;
        } else if *byte == options.quote {
            quoted = !quoted;
        } else if *byte == terminator && !quoted {
            let line = bytes.get(begin..position).unwrap_or_default();
            let is_comment = options.comment.is_some_and(|comment| line.first() == Some(&comment));
            if !is_comment && !line.trim_ascii().is_empty() {
                end = position + 1;
            }
            begin = position + 1;
        }
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_end_outside_of_quotes() {
        let check = |text: &str, expected: usize| {
            assert_eq!(end_of_records(text.as_bytes(), &CsvOptions::default()), expected, "{text:?}");
        };
        check("", 0);
        check("a,b", 0);
        check("a,b\n", 4);
        check("a,b\n1,\"x\n", 4);
        check("a,b\n1,\"x\ny\"\n2", 12);
        check("\n\n", 0);
        check("a,\"\"\"\n\"\n", 8);
    }
}
