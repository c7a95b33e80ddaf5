//! Cuts bytes into records, and records into fields.

use std::borrow::Cow;

use nyala_engine::{ErrorKind, QueryError};

use super::dialect::Dialect;

/// A longer record is refused: most likely it has an open quote.
const MAX_RECORD_BYTES: usize = 64 << 20;

/// Most fields of a record: no table has so many columns. Fields take more memory than their delimiters, so the rest of such a record is
/// not taken apart.
const MAX_FIELDS: usize = 1 << 16;

/// A field: its bytes; none for NULL.
pub type Field<'a> = Option<Cow<'a, [u8]>>;

/// Takes a record: the line it begins on, and its fields.
pub type TakeRecord<'a> = dyn FnMut(u64, Vec<Field<'_>>) -> Result<(), QueryError> + 'a;

/// Cuts bytes, as they come, into whole records.
#[derive(Debug)]
pub struct Splitter {
    dialect: Dialect,
    /// The beginning of an incomplete record.
    rest: Vec<u8>,
    /// Where the search for the end of the incomplete record goes on.
    seen: Seen,
    /// Line on which the next record begins.
    line: u64,
    /// Whether `\.` was read, which ends the data.
    ended: bool,
}

/// How far a record was searched without finding its end. A long record comes in many pieces, and each piece is searched once.
#[derive(Debug, Default, Clone, Copy)]
struct Seen {
    bytes: usize,
    /// Whether the next byte is within quotes.
    quoted: bool,
    /// Whether the next byte is escaped.
    skip: bool,
}

impl Splitter {
    pub fn new(dialect: Dialect) -> Self {
        Self { dialect, rest: Vec::new(), seen: Seen::default(), line: 1, ended: false }
    }

    /// Gives each record that is whole, with the line it begins on.
    pub fn push(&mut self, bytes: &[u8], each: &mut TakeRecord<'_>) -> Result<(), QueryError> {
        let mut gathered = std::mem::take(&mut self.rest);
        gathered.extend_from_slice(bytes);
        let mut left = gathered.as_slice();
        while let Some(length) = self.record(left) {
            let (record, behind) = left.split_at(length);
            self.give(record.strip_suffix(b"\n").unwrap_or(record), each)?;
            self.line += record.iter().filter(|byte| **byte == b'\n').count() as u64;
            left = behind;
        }
        if left.len() > MAX_RECORD_BYTES {
            let message = format!("line {}: a row of more than {} MiB", self.line, MAX_RECORD_BYTES >> 20);
            return Err(QueryError::new(ErrorKind::LimitExceeded, message)
                .hint("look for a quote that is not closed"));
        }
        let given = gathered.len() - left.len();
        gathered.drain(..given);
        self.rest = gathered;
        Ok(())
    }

    /// Gives the last record, which needs no line break.
    pub fn finish(&mut self, each: &mut TakeRecord<'_>) -> Result<(), QueryError> {
        let rest = std::mem::take(&mut self.rest);
        if rest.is_empty() {
            return Ok(());
        }
        let ended = [rest.as_slice(), b"\n"].concat();
        if self.dialect.quote.is_some() && self.record(&ended).is_none() {
            let message = format!("line {}: a quote is not closed", self.line);
            return Err(QueryError::new(ErrorKind::Data, message));
        }
        self.give(&rest, each)
    }

    /// Length of the first record with its line break, if that has come.
    fn record(&mut self, bytes: &[u8]) -> Option<usize> {
        let Seen { bytes: seen, mut quoted, mut skip } = std::mem::take(&mut self.seen);
        for (at, byte) in bytes.iter().enumerate().skip(seen) {
            match self.dialect.quote {
                // A backslash keeps the line break behind it in the field.
                None if skip => skip = false,
                None if *byte == b'\\' => skip = true,
                // Two quotes within quotes close and open them again.
                Some(quote) if *byte == quote && self.dialect.escape == quote => quoted = !quoted,
                Some(_) if skip => skip = false,
                Some(_) if quoted && *byte == self.dialect.escape => skip = true,
                Some(quote) if *byte == quote => quoted = !quoted,
                _ if *byte == b'\n' && !quoted => return Some(at + 1),
                _ => {}
            }
        }
        self.seen = Seen { bytes: bytes.len(), quoted, skip };
        None
    }

    fn give(&mut self, record: &[u8], each: &mut TakeRecord<'_>) -> Result<(), QueryError> {
        let record = record.strip_suffix(b"\r").unwrap_or(record);
        self.ended |= record == b"\\.";
        // An empty line is no row. It could be one of a single text column, but is hardly ever meant as such.
        if self.ended || record.is_empty() {
            return Ok(());
        }
        let fields = match self.dialect.quote {
            Some(quote) => self.quoted_fields(record, quote),
            None => self.escaped_fields(record),
        };
        each(self.line, fields)
    }

    fn quoted_fields<'a>(&self, record: &'a [u8], quote: u8) -> Vec<Field<'a>> {
        let mut fields = Vec::new();
        let (mut start, mut quoted, mut skip) = (0, false, false);
        for (at, byte) in record.iter().enumerate() {
            match *byte {
                _ if skip => skip = false,
                byte if quoted && byte == self.dialect.escape && byte != quote => skip = true,
                byte if byte == quote => quoted = !quoted,
                byte if byte == self.dialect.delimiter && !quoted => {
                    if fields.len() >= MAX_FIELDS {
                        break;
                    }
                    fields.push(self.quoted_field(record.get(start..at).unwrap_or_default(), quote));
                    start = at + 1;
                }
                _ => {}
            }
        }
        fields.push(self.quoted_field(record.get(start..).unwrap_or_default(), quote));
        fields
    }

    fn quoted_field<'a>(&self, field: &'a [u8], quote: u8) -> Field<'a> {
        if !field.contains(&quote) {
            return (field != self.dialect.null.as_slice()).then_some(Cow::Borrowed(field));
        }
        let mut value = Vec::with_capacity(field.len());
        let mut bytes = field.iter().copied().peekable();
        let mut quoted = false;
        while let Some(byte) = bytes.next() {
            let escapes = quoted && byte == self.dialect.escape;
            match bytes.peek().copied().filter(|next| *next == quote || *next == self.dialect.escape) {
                Some(next) if escapes => {
                    value.push(next);
                    bytes.next();
                }
                _ if byte == quote => quoted = !quoted,
                _ => value.push(byte),
            }
        }
        Some(Cow::Owned(value))
    }

    fn escaped_fields<'a>(&self, record: &'a [u8]) -> Vec<Field<'a>> {
        let mut fields = Vec::new();
        let (mut start, mut skip) = (0, false);
        for (at, byte) in record.iter().enumerate() {
            match *byte {
                _ if skip => skip = false,
                b'\\' => skip = true,
                byte if byte == self.dialect.delimiter => {
                    if fields.len() >= MAX_FIELDS {
                        break;
                    }
                    fields.push(self.escaped_field(record.get(start..at).unwrap_or_default()));
                    start = at + 1;
                }
                _ => {}
            }
        }
        fields.push(self.escaped_field(record.get(start..).unwrap_or_default()));
        fields
    }

    fn escaped_field<'a>(&self, field: &'a [u8]) -> Field<'a> {
        if field == self.dialect.null.as_slice() {
            return None;
        }
        if !field.contains(&b'\\') {
            return Some(Cow::Borrowed(field));
        }
        Some(Cow::Owned(unescaped(field)))
    }
}

/// Source: PostgreSQL documentation, COPY, "Text Format".
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut value = Vec::with_capacity(field.len());
    let mut bytes = field.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            value.push(byte);
            continue;
        }
        match bytes.next() {
            Some(b'b') => value.push(8),
            Some(b'f') => value.push(12),
            Some(b'n') => value.push(b'\n'),
            Some(b'r') => value.push(b'\r'),
            Some(b't') => value.push(b'\t'),
            Some(b'v') => value.push(11),
            Some(b'x') => value.push(number(&mut bytes, 16, 2, None).unwrap_or(b'x')),
            Some(digit @ b'0'..=b'7') => {
                // At most three octal digits, of which this is the first.
                let first = u32::from(digit - b'0');
                value.push(number(&mut bytes, 8, 2, Some(first)).unwrap_or_default());
            }
            Some(other) => value.push(other),
            None => value.push(b'\\'),
        }
    }
    value
}

/// Reads at most `most` further digits; the earlier ones are in `value`.
fn number(
    bytes: &mut std::iter::Peekable<impl Iterator<Item = u8>>,
    radix: u32,
    most: usize,
    mut value: Option<u32>,
) -> Option<u8> {
    for _ in 0..most {
        let Some(digit) = bytes.peek().and_then(|byte| char::from(*byte).to_digit(radix)) else { break };
        value = Some(value.unwrap_or(0) * radix + digit);
        bytes.next();
    }
    value.map(|value| (value & 0xff) as u8)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Records, however the bytes are cut.
    fn check(dialect: &Dialect, text: &str, expected: &[(u64, &[Option<&str>])]) {
        for size in [1, 2, 3, 7, text.len().max(1)] {
            let mut splitter = Splitter::new(dialect.clone());
            let mut found: Vec<(u64, Vec<Option<String>>)> = Vec::new();
            let mut each = |line: u64, fields: Vec<Field<'_>>| {
                let text = |field: &Field<'_>| field.as_ref().map(|f| String::from_utf8(f.to_vec()).unwrap());
                found.push((line, fields.iter().map(text).collect()));
                Ok(())
            };
            for piece in text.as_bytes().chunks(size) {
                splitter.push(piece, &mut each).unwrap();
            }
            splitter.finish(&mut each).unwrap();
            let expected: Vec<(u64, Vec<Option<String>>)> = expected
                .iter()
                .map(|(line, fields)| (*line, fields.iter().map(|f| f.map(str::to_owned)).collect()))
                .collect();
            assert_eq!(found, expected, "{text:?} in pieces of {size}");
        }
    }

    #[test]
    fn csv_is_cut_at_what_is_not_quoted() {
        let csv = Dialect::csv();
        check(&csv, "a,b\n1,2\n", &[(1, &[Some("a"), Some("b")]), (2, &[Some("1"), Some("2")])]);
        check(&csv, "a,b", &[(1, &[Some("a"), Some("b")])]);
        check(&csv, "a,\r\n\n,\"\"\r\n", &[(1, &[Some("a"), None]), (3, &[None, Some("")])]);
        let text = "\"a \"\"b\"\"\",\"x,\ny\"\nlast,1\n";
        check(&csv, text, &[(1, &[Some("a \"b\""), Some("x,\ny")]), (3, &[Some("last"), Some("1")])]);
        let other = Dialect { escape: b'\\', delimiter: b';', ..Dialect::csv() };
        check(&other, "\"a\\\"b;\";c\n", &[(1, &[Some("a\"b;"), Some("c")])]);
    }

    #[test]
    fn a_record_of_delimiters_has_no_more_fields_than_a_table_could() {
        for (dialect, delimiter) in [(Dialect::csv(), ","), (Dialect::text(), "\t")] {
            let record = format!("{}\na\n", delimiter.repeat(20 << 20));
            let mut found = Vec::new();
            let fuzz = nyala_fuzz::Target { name: "delimiters", memory: &crate::MEMORY };
            fuzz.check(record.as_bytes(), |bytes| {
                let mut each = |_: u64, fields: Vec<Field<'_>>| {
                    found.push(fields.len());
                    Ok(())
                };
                Splitter::new(dialect.clone()).push(bytes, &mut each).unwrap();
            });
            assert_eq!(found, [MAX_FIELDS + 1, 1]);
        }
    }

    #[test]
    fn text_is_cut_at_what_is_not_escaped() {
        let text = Dialect::text();
        check(&text, "a\t\\N\t\n", &[(1, &[Some("a"), None, Some("")])]);
        check(&text, "a\\tb\\\\\t\\x41\\101\\7\n", &[(1, &[Some("a\tb\\"), Some("AA\u{7}")])]);
        check(&text, "a\\\nb\tc\nd\te\n", &[(1, &[Some("a\nb"), Some("c")]), (3, &[Some("d"), Some("e")])]);
        check(&text, "a\n\\.\nb\n", &[(1, &[Some("a")])]);
    }
}
