//! A set of values as bytes: sorted, each value without the prefix that it shares with the one before it.
//!
//! | content after the two bytes every state begins with | |
//! |---|---|
//! | family of the values | one byte |
//! | how many values | number |
//! | for each value, in order: how many bytes it shares with the one before | number |
//! | … how many follow | number |
//! | … and these | bytes |
//!
//! Numbers are LEB128. Equal sets have equal bytes.

use datafusion::common::Result;

use crate::functions::aggregate::{Form, Reader, begin, put_varint};
use crate::functions::values::Family;

const WHAT: &str = "set of values";

/// Appends the set of `values`, which are sorted and differ.
pub fn encode(family: Family, values: &[&[u8]], out: &mut Vec<u8>) {
    begin(out, Form::Values);
    out.push(family as u8);
    put_varint(out, values.len() as u64);
    let mut before: &[u8] = &[];
    for value in values {
        let shared = before.iter().zip(*value).take_while(|(a, b)| a == b).count();
        let (_, own) = value.split_at_checked(shared).unwrap_or((&[], value));
        put_varint(out, shared as u64);
        put_varint(out, own.len() as u64);
        out.extend_from_slice(own);
        before = value;
    }
}

/// How many values an encoded set has, by its header alone.
pub fn encoded_len(family: Family, bytes: &[u8]) -> Result<u64> {
    Ok(open(family, bytes)?.count()? as u64)
}

/// Calls with every value of an encoded set, in order.
pub fn for_each(family: Family, bytes: &[u8], mut each: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let mut reader = open(family, bytes)?;
    let mut value: Vec<u8> = Vec::new();
    for index in 0..reader.count()? {
        let shared = usize::try_from(reader.varint()?).unwrap_or(usize::MAX);
        let length = reader.varint()?;
        let own = reader.take(length)?;
        if value.get(shared..).is_none_or(|replaced| index > 0 && replaced >= own) {
            return Err(reader.damaged("its values are not in order"));
        }
        value.truncate(shared);
        value.extend_from_slice(own);
        each(&value)?;
    }
    reader.end()
}

fn open(family: Family, bytes: &[u8]) -> Result<Reader<'_>> {
    let mut reader = Reader::expect(WHAT, bytes, Form::Values)?;
    let found = reader.byte()?;
    if found != family as u8 {
        return Err(reader.damaged(format!("it has values of family `{found}`, not `{}`", family as u8)));
    }
    Ok(reader)
}
