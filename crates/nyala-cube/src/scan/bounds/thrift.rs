//! Reads Thrift's compact protocol without keeping anything. None means damaged bytes.

/// Kinds of fields.
pub const I8: u8 = 3;
pub const I32: u8 = 5;
pub const I64: u8 = 6;
pub const BINARY: u8 = 8;
pub const LIST: u8 = 9;
pub const STRUCT: u8 = 12;

/// Deepest nesting of structs; Parquet has seven levels.
const MAX_DEPTH: usize = 32;
/// Bytes of a 64-bit number, at 7 bits a byte.
const MAX_NUMBER_BYTES: usize = 10;

/// Whether a field is a boolean, whose value is its kind.
pub fn is_bool(kind: u8) -> bool {
    matches!(kind, 1 | 2)
}

/// Bytes that are not read yet.
#[derive(Debug, Clone, Copy)]
pub struct Thrift<'a>(pub &'a [u8]);

/// A list: the kind of its elements, and how many.
pub struct List {
    pub kind: u8,
    pub count: usize,
}

impl<'a> Thrift<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// Takes `count` bytes.
    pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    /// A number without a sign.
    pub fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for index in 0..MAX_NUMBER_BYTES {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << (7 * index);
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    /// A number with a sign.
    pub fn signed(&mut self) -> Option<i64> {
        let number = self.number()?;
        Some((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    /// The value of a field that must be a number of 32 bits. Readers do not check the kind, and truncate longer numbers.
    pub fn i32(&mut self, kind: u8) -> Option<i32> {
        if kind != I32 {
            return None;
        }
        i32::try_from(self.signed()?).ok()
    }

    /// Calls `each` with the number and the kind of every field of a struct. It must read or skip the value.
    pub fn fields(&mut self, mut each: impl FnMut(&mut Self, i16, u8) -> Option<()>) -> Option<()> {
        let mut id = 0_i16;
        loop {
            let head = self.byte()?;
            let kind = head & 0xf;
            if kind == 0 {
                return Some(());
            }
            id = match head >> 4 {
                0 => i16::try_from(self.signed()?).ok()?,
                step => id.checked_add(i16::from(step))?,
            };
            each(self, id, kind)?;
        }
    }

    /// The head of a list. None if the list has more items than bytes are left: each item takes at least one.
    pub fn list(&mut self) -> Option<List> {
        let head = self.byte()?;
        let count = match head >> 4 {
            15 => usize::try_from(self.number()?).ok()?,
            count => usize::from(count),
        };
        (count <= self.0.len()).then_some(List { kind: head & 0xf, count })
    }

    /// Skips the value of a field.
    pub fn skip(&mut self, kind: u8) -> Option<()> {
        self.skip_within(kind, MAX_DEPTH)
    }

    fn skip_within(&mut self, kind: u8, depth: usize) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        match kind {
            kind if is_bool(kind) => Some(()),
            3 => self.take(1).map(drop),
            4..=6 => self.number().map(drop),
            7 => self.take(8).map(drop),
            8 => {
                let length = usize::try_from(self.number()?).ok()?;
                self.take(length).map(drop)
            }
            9 | 10 => {
                let List { kind, count } = self.list()?;
                (0..count).try_for_each(|_| self.skip_item(kind, depth))
            }
            11 => self.skip_map(depth),
            12 => self.fields(|rest, _, kind| rest.skip_within(kind, depth)),
            13 => self.take(16).map(drop),
            _ => None,
        }
    }

    /// Skips an item of a list or a map, where a boolean takes a byte.
    fn skip_item(&mut self, kind: u8, depth: usize) -> Option<()> {
        match kind {
            1 | 2 => self.take(1).map(drop),
            kind => self.skip_within(kind, depth),
        }
    }

    fn skip_map(&mut self, depth: usize) -> Option<()> {
        let count = self.number()?;
        if count == 0 {
            return Some(());
        }
        let kinds = self.byte()?;
        if count > self.0.len() as u64 {
            return None;
        }
        (0..count).try_for_each(|_| {
            self.skip_item(kinds >> 4, depth)?;
            self.skip_item(kinds & 0xf, depth)
        })
    }
}
