//! Bitmaps as bytes.
//!
//! | form | content after the two bytes every state begins with |
//! |---|---|
//! | few integers | how many; the first, zigzag; then the distance of each to the one before it |
//! | Roaring | how many; the portable format of 64-bit Roaring bitmaps |
//!
//! Numbers are LEB128. In Roaring's content a value has its sign bit flipped, so that order is kept.
//! At most 32 values are always few integers and more are always Roaring in its smallest form: equal
//! sets have equal bytes.
//! The portable format is that of <https://github.com/RoaringBitmap/RoaringFormatSpec>.

use datafusion::common::Result;
use roaring::RoaringTreemap;

use super::set::{Bitmap, FEW};
use crate::error::QueryError;
use crate::functions::aggregate::{Form, Reader, begin, put_varint};

const WHAT: &str = "bitmap";

impl Bitmap {
    /// Appends the bytes of this bitmap.
    pub fn encode(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let count = self.len();
        if let Some(set) = self.roaring() {
            begin(out, Form::Roaring);
            put_varint(out, count);
            set.serialize_into(out).map_err(QueryError::internal)?;
            return Ok(());
        }
        begin(out, Form::FewIntegers);
        put_varint(out, count);
        let mut before = None;
        for value in self.iter() {
            match before {
                None => put_varint(out, zigzag(value)),
                Some(before) => put_varint(out, value.wrapping_sub(before).cast_unsigned()),
            }
            before = Some(value);
        }
        Ok(())
    }

    /// The bytes of this bitmap.
    pub fn encoded(&mut self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.encode(&mut bytes)?;
        Ok(bytes)
    }

    /// Reads a bitmap and checks all of it.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let (form, reader) = Reader::open(WHAT, bytes)?;
        match form {
            Form::FewIntegers => few(reader),
            Form::Roaring => roaring(reader),
            other => Err(reader.wrong_form(other)),
        }
    }

    /// How many values an encoded bitmap has, by its header alone.
    pub fn encoded_len(bytes: &[u8]) -> Result<u64> {
        let (form, mut reader) = Reader::open(WHAT, bytes)?;
        match form {
            Form::FewIntegers | Form::Roaring => reader.varint(),
            other => Err(reader.wrong_form(other)),
        }
    }
}

fn few(mut reader: Reader<'_>) -> Result<Bitmap> {
    let count = reader.count()?;
    if count > FEW {
        return Err(reader.damaged(format!("a list of {count} values is too long")));
    }
    let mut bitmap = Bitmap::default();
    let mut before = None;
    for _ in 0..count {
        let number = reader.varint()?;
        let value = match before {
            None => unzigzag(number),
            Some(before) => i64::wrapping_add(before, number.cast_signed()),
        };
        if !bitmap.push(value) {
            return Err(reader.damaged("its values are not in order"));
        }
        before = Some(value);
    }
    reader.end()?;
    Ok(bitmap)
}

fn roaring(mut reader: Reader<'_>) -> Result<Bitmap> {
    let count = reader.varint()?;
    let mut rest = reader.rest();
    let set = RoaringTreemap::deserialize_from(&mut rest).map_err(|error| reader.damaged(error))?;
    if !rest.is_empty() || set.len() != count {
        return Err(reader.damaged(format!("it has {} values instead of {count}", set.len())));
    }
    Ok(Bitmap::from_roaring(set))
}

/// Small numbers of either sign to small numbers.
fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)).cast_unsigned()
}

fn unzigzag(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -(number & 1).cast_signed()
}
