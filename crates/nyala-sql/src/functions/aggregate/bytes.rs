//! The bytes of a stored state, and of a bitmap that a client holds.
//!
//! | byte | meaning |
//! |---|---|
//! | 0 | version of the layout: 1 |
//! | 1 | [`Form`] of the rest |
//! | 2… | by form |
//!
//! Numbers of varying length are LEB128: seven bits a byte, lowest first, the top bit set on all but the
//! last. All input is checked: damaged bytes end in an error, never in a panic or in memory that a made-up
//! length asks for.

use datafusion::common::{DataFusionError, Result};

use crate::error::{ErrorKind, QueryError};

/// The only version there is so far.
const VERSION: u8 = 1;

/// Longest LEB128 of 64 bits.
const MAX_VARINT_BYTES: u32 = 10;

/// How a state is encoded. The numbers are part of the format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Form {
    /// A short sorted list of integers.
    FewIntegers = 1,
    /// A Roaring bitmap of integers.
    Roaring = 2,
    /// A sorted set of values as bytes.
    Values = 3,
    /// Several bitmaps.
    Bitmaps = 4,
    /// A HyperLogLog sketch.
    Hll = 5,
    /// A frequent-items sketch.
    FrequentItems = 6,
}

impl Form {
    fn of(byte: u8) -> Option<Self> {
        let all =
            [Self::FewIntegers, Self::Roaring, Self::Values, Self::Bitmaps, Self::Hll, Self::FrequentItems];
        all.into_iter().find(|form| *form as u8 == byte)
    }
}

/// Writes version and form.
pub fn begin(out: &mut Vec<u8>, form: Form) {
    out.extend([VERSION, form as u8]);
}

/// Writes a number in as few bytes as it needs.
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// The error for damaged bytes.
pub fn damaged(what: &str, why: impl std::fmt::Display) -> DataFusionError {
    QueryError::new(ErrorKind::Data, format!("this is not a whole {what}: {why}"))
        .hint("if it comes from a cube, drop, create and build the cube again")
        .into()
}

fn unknown_version(what: &str, version: u8) -> DataFusionError {
    let message = format!("{what} has version `{version}`, but only version `{VERSION}` is known here");
    QueryError::new(ErrorKind::Data, message)
        .hint(
            "another version of nyala wrote it: read it with that, or drop, create and build the cube again",
        )
        .into()
}

/// Takes bytes apart, from the front.
#[derive(Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    what: &'static str,
}

impl<'a> Reader<'a> {
    /// Checks the version and reads the form. Errors name the state as `what`.
    pub fn open(what: &'static str, bytes: &'a [u8]) -> Result<(Form, Self)> {
        let mut reader = Self { rest: bytes, what };
        let version = reader.byte()?;
        if version != VERSION {
            return Err(unknown_version(what, version));
        }
        let form = reader.byte()?;
        match Form::of(form) {
            Some(form) => Ok((form, reader)),
            None => Err(reader.damaged(format!("`{form}` is no form of it"))),
        }
    }

    /// As [`open`](Self::open), but a form other than `wanted` is an error.
    pub fn expect(what: &'static str, bytes: &'a [u8], wanted: Form) -> Result<Self> {
        let (form, reader) = Self::open(what, bytes)?;
        if form == wanted { Ok(reader) } else { Err(reader.wrong_form(form)) }
    }

    /// The error for the form of another state.
    pub fn wrong_form(&self, form: Form) -> DataFusionError {
        self.damaged(format!("it has the form of something else, {form:?}"))
    }

    /// The error for these damaged bytes.
    pub fn damaged(&self, why: impl std::fmt::Display) -> DataFusionError {
        damaged(self.what, why)
    }

    /// The next byte.
    pub fn byte(&mut self) -> Result<u8> {
        let (first, rest) = self.rest.split_first().ok_or_else(|| self.damaged("it ends too early"))?;
        self.rest = rest;
        Ok(*first)
    }

    /// The next `count` bytes.
    pub fn take(&mut self, count: u64) -> Result<&'a [u8]> {
        let split = usize::try_from(count).ok().and_then(|count| self.rest.split_at_checked(count));
        let (taken, rest) = split.ok_or_else(|| self.damaged("it ends too early"))?;
        self.rest = rest;
        Ok(taken)
    }

    /// A number of varying length.
    pub fn varint(&mut self) -> Result<u64> {
        let mut value = 0u64;
        for index in 0..MAX_VARINT_BYTES {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7F);
            let shifted = bits << (7 * index);
            if shifted >> (7 * index) != bits {
                break;
            }
            value |= shifted;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(self.damaged("a number has more than 64 bits"))
    }

    /// A number of 32 bits, lowest byte first.
    pub fn u32(&mut self) -> Result<u32> {
        let bytes = self.take(4)?.first_chunk().copied().unwrap_or_default();
        Ok(u32::from_le_bytes(bytes))
    }

    /// A number of 64 bits, lowest byte first.
    pub fn u64(&mut self) -> Result<u64> {
        let bytes = self.take(8)?.first_chunk().copied().unwrap_or_default();
        Ok(u64::from_le_bytes(bytes))
    }

    /// The number of elements that follow. Each takes at least one byte, so a larger number is damage.
    pub fn count(&mut self) -> Result<usize> {
        let count = usize::try_from(self.varint()?).unwrap_or(usize::MAX);
        if count > self.rest.len() {
            return Err(self.damaged("it ends too early"));
        }
        Ok(count)
    }

    /// The unread bytes.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Checks that nothing follows.
    pub fn end(self) -> Result<()> {
        if self.rest.is_empty() {
            return Ok(());
        }
        Err(self.damaged(format!("{} bytes follow its end", self.rest.len())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_survive() {
        for value in [0, 1, 127, 128, 300, 1 << 35, u64::MAX - 1, u64::MAX] {
            let mut bytes = Vec::new();
            begin(&mut bytes, Form::Values);
            put_varint(&mut bytes, value);
            let mut reader = Reader::expect("test", &bytes, Form::Values).unwrap();
            assert_eq!(reader.varint().unwrap(), value);
            reader.end().unwrap();
        }
    }

    #[test]
    fn what_is_not_whole_is_an_error_that_says_so() {
        check(&[], "ends too early");
        check(&[7, 1], "version `7`");
        check(&[1, 99], "`99` is no form");
        check(&[1, 2], "something else");
        check(&[1, 3], "ends too early");
        check(&[1, 3, 0x80], "ends too early");
        check(&[1, 3, 255, 255, 255, 255, 255, 255, 255, 255, 255, 2], "more than 64 bits");
        check(&[1, 3, 1, 1], "1 bytes follow");
    }

    fn check(bytes: &[u8], words: &str) {
        let read = || {
            let mut reader = Reader::expect("test", bytes, Form::Values)?;
            reader.varint()?;
            reader.end()
        };
        let error = QueryError::from(read().unwrap_err());
        assert_eq!(error.kind, ErrorKind::Data);
        assert!(error.message.contains(words), "{error}");
    }
}
