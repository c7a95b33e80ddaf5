//! How fields are written: CSV, or the text format of PostgreSQL's COPY.

use bytes::BytesMut;
use datafusion::sql::sqlparser::ast::CopyOption;
use nyala_engine::{ErrorKind, QueryError};

/// How records and fields are told apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dialect {
    /// Stands between fields.
    pub(super) delimiter: u8,
    /// Stands around fields. Without a quote, backslashes escape.
    pub(super) quote: Option<u8>,
    /// Stands before a quote within quotes.
    pub(super) escape: u8,
    /// An unquoted field with this text is NULL.
    pub(super) null: Vec<u8>,
    /// Whether the first record names the columns.
    pub(super) header: bool,
}

impl Dialect {
    /// CSV as most write it, its first line the names of the columns.
    pub fn csv() -> Self {
        Self { delimiter: b',', quote: Some(b'"'), escape: b'"', null: Vec::new(), header: true }
    }

    /// The default format of `COPY`.
    pub(super) fn text() -> Self {
        Self { delimiter: b'\t', quote: None, escape: b'\\', null: b"\\N".to_vec(), header: false }
    }

    /// The dialect in the options of a COPY statement.
    pub fn of_copy(options: &[CopyOption]) -> Result<Self, QueryError> {
        let format = options.iter().find_map(|option| match option {
            CopyOption::Format(name) => Some(name.value.to_ascii_lowercase()),
            _ => None,
        });
        let mut dialect = match format.as_deref() {
            None | Some("text") => Self::text(),
            Some("csv") => Self { header: false, ..Self::csv() },
            Some(other) => {
                let message = format!("COPY format `{other}` is not supported");
                return Err(QueryError::new(ErrorKind::Unsupported, message).hint("use text, csv or binary"));
            }
        };
        let mut escape = None;
        for option in options {
            match option {
                CopyOption::Format(_) | CopyOption::Freeze(_) => {}
                CopyOption::Delimiter(delimiter) => dialect.delimiter = byte("DELIMITER", *delimiter)?,
                CopyOption::Null(text) => dialect.null = text.clone().into_bytes(),
                CopyOption::Header(header) => dialect.header = *header,
                CopyOption::Quote(_) | CopyOption::Escape(_) if dialect.quote.is_none() => {
                    let message = format!("COPY option `{option}` is for FORMAT csv");
                    return Err(QueryError::new(ErrorKind::InvalidParameter, message)
                        .hint("the text format escapes with backslashes"));
                }
                CopyOption::Quote(quote) => dialect.quote = Some(byte("QUOTE", *quote)?),
                CopyOption::Escape(given) => escape = Some(byte("ESCAPE", *given)?),
                CopyOption::Encoding(name) if is_utf8(name) => {}
                other => {
                    let message = format!("COPY option `{other}` is not supported");
                    return Err(QueryError::new(ErrorKind::Unsupported, message).hint(
                        "there are FORMAT, DELIMITER, NULL, HEADER, QUOTE and ESCAPE; rows are in UTF-8",
                    ));
                }
            }
        }
        if let Some(quote) = dialect.quote {
            dialect.escape = escape.unwrap_or(quote);
        }
        match dialect.conflict() {
            Some(conflict) => Err(QueryError::new(ErrorKind::InvalidParameter, conflict)
                .hint("what is written could not be read again; choose other characters")),
            None => Ok(dialect),
        }
    }

    /// Why rows in this dialect could not be read again, if so. These are the rules of PostgreSQL.
    fn conflict(&self) -> Option<String> {
        let delimiter = char::from(self.delimiter);
        let escapes = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"\\.".contains(&byte);
        match self.quote {
            None if escapes(self.delimiter) => {
                Some(format!("COPY DELIMITER `{delimiter}` has a meaning in the text format"))
            }
            Some(quote) if quote == self.delimiter => {
                Some(format!("COPY DELIMITER and QUOTE are both `{delimiter}`"))
            }
            Some(quote) if self.null.contains(&quote) => {
                Some("COPY NULL must not contain the QUOTE".to_owned())
            }
            _ if self.null.contains(&self.delimiter) => {
                Some("COPY NULL must not contain the DELIMITER".to_owned())
            }
            _ if self.null.iter().any(|byte| matches!(byte, b'\n' | b'\r')) => {
                Some("COPY NULL must not contain the end of a line".to_owned())
            }
            _ => None,
        }
    }

    /// The byte between fields.
    pub fn delimiter(&self) -> u8 {
        self.delimiter
    }

    /// Whether fields may stand in quotes.
    pub fn has_quotes(&self) -> bool {
        self.quote.is_some()
    }

    /// Whether the first record names the columns.
    pub fn has_header(&self) -> bool {
        self.header
    }

    /// Appends a field so that a reader gets it back; none is NULL.
    pub fn write(&self, field: Option<&[u8]>, force_quote: bool, out: &mut BytesMut) {
        match (field, self.quote) {
            (None, _) => out.extend_from_slice(&self.null),
            (Some(field), None) => self.write_escaped(field, out),
            (Some(field), Some(quote)) => self.write_quoted(field, quote, force_quote, out),
        }
    }

    fn write_escaped(&self, field: &[u8], out: &mut BytesMut) {
        for byte in field {
            let escaped = match byte {
                8 => b'b',
                9 => b't',
                10 => b'n',
                11 => b'v',
                12 => b'f',
                13 => b'r',
                b'\\' => b'\\',
                byte if *byte == self.delimiter => *byte,
                byte => {
                    out.extend_from_slice(&[*byte]);
                    continue;
                }
            };
            out.extend_from_slice(&[b'\\', escaped]);
        }
    }

    fn write_quoted(&self, field: &[u8], quote: u8, force: bool, out: &mut BytesMut) {
        let special = |byte: &u8| *byte == self.delimiter || *byte == quote || matches!(byte, b'\n' | b'\r');
        if !force && field != self.null && !field.iter().any(special) {
            out.extend_from_slice(field);
            return;
        }
        out.extend_from_slice(&[quote]);
        for byte in field {
            if *byte == quote || *byte == self.escape {
                out.extend_from_slice(&[self.escape]);
            }
            out.extend_from_slice(&[*byte]);
        }
        out.extend_from_slice(&[quote]);
    }
}

fn byte(option: &str, c: char) -> Result<u8, QueryError> {
    u8::try_from(c).ok().filter(|byte| byte.is_ascii() && !matches!(byte, b'\n' | b'\r')).ok_or_else(|| {
        let message = format!("{option} `{c}` is not one byte of ASCII");
        QueryError::new(ErrorKind::InvalidParameter, message)
    })
}

fn is_utf8(name: &str) -> bool {
    name.eq_ignore_ascii_case("utf8") || name.eq_ignore_ascii_case("utf-8")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn csv(options: &[CopyOption]) -> Result<Dialect, QueryError> {
        Dialect::of_copy(&[&[CopyOption::Format("csv".into())], options].concat())
    }

    #[test]
    fn characters_that_could_not_be_told_apart_are_refused() {
        use CopyOption::{Delimiter, Escape, Null, Quote};
        for delimiter in ['a', 'z', '0', '9', '\\', '.'] {
            assert!(Dialect::of_copy(&[Delimiter(delimiter)]).is_err(), "{delimiter}");
            assert!(csv(&[Delimiter(delimiter)]).is_ok(), "{delimiter}");
        }
        assert!(Dialect::of_copy(&[Delimiter('|'), Null("-".to_owned())]).is_ok());
        for options in [[Quote('"')], [Escape('"')]] {
            assert!(Dialect::of_copy(&options).is_err(), "{options:?}");
            assert!(csv(&options).is_ok(), "{options:?}");
        }
        assert!(csv(&[Delimiter('"')]).is_err());
        assert!(csv(&[Delimiter('x'), Quote('x')]).is_err());
        for null in ["a,b", "\"\"", "\n", "a\r"] {
            assert!(csv(&[Null(null.to_owned())]).is_err(), "{null:?}");
        }
    }
}
