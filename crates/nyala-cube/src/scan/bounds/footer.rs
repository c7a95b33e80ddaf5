//! Checks the numbers in a footer and in a page index.

use super::damage::DamagedFile;
use super::thrift::{BINARY, I8, I32, I64, LIST, List, STRUCT, Thrift, is_bool};

/// Largest number of columns, and of the groups around them.
const MAX_SCHEMA_ELEMENTS: usize = 100_000;
/// Deepest nesting of groups.
const MAX_SCHEMA_DEPTH: usize = 64;
/// Largest number of row groups: Parquet numbers them with 16 bits.
const MAX_ROW_GROUPS: usize = i16::MAX as usize;
/// Largest width of a column of fixed width, in bytes.
const MAX_FIXED_BYTES: i32 = 1 << 20;

/// Refuses a footer with counts and lengths larger than itself, or than a reader should follow.
///
/// # Errors
/// The footer is damaged.
pub fn check_footer(footer: &[u8]) -> Result<(), DamagedFile> {
    let mut found = Ok(());
    let whole = Thrift(footer).fields(|rest, id, kind| match (id, kind) {
        (2, LIST) => {
            found = check_schema(rest);
            found.ok()
        }
        (4, LIST) => {
            let count = Thrift(rest.0).list()?.count;
            if count > MAX_ROW_GROUPS {
                found = Err(DamagedFile("it has too many row groups"));
            }
            found.ok().and_then(|()| rest.skip(kind))
        }
        (1, I32) | (3, I64) | (5 | 7, LIST) | (6 | 9, BINARY) | (8, STRUCT) => rest.skip(kind),
        // A reader derives the kind from the number of the field, and would read on from a wrong position.
        (1..=9, _) => None,
        _ => rest.skip(kind),
    });
    found.and(whole.ok_or(DamagedFile("its footer is not whole")))
}

/// Refuses one index of a column's pages with counts and lengths larger than itself.
///
/// # Errors
/// The index is damaged.
pub fn check_index(index: &[u8]) -> Result<(), DamagedFile> {
    Thrift(index).skip(STRUCT).ok_or(DamagedFile("its page index is not whole"))
}

/// Checks the tree of columns, which is written from the root down: each element has the number of its children, which follow it.
fn check_schema(rest: &mut Thrift<'_>) -> Result<(), DamagedFile> {
    let cut_off = DamagedFile("its schema is not whole");
    let List { kind, count } = rest.list().ok_or(cut_off)?;
    if count > MAX_SCHEMA_ELEMENTS {
        return Err(DamagedFile("it has too many columns"));
    }
    // Children that are still missing, for each open group.
    let mut open: Vec<usize> = Vec::new();
    for index in 0..count {
        let element = if kind == STRUCT { Element::read(rest) } else { None };
        let Element { children, width } = element.ok_or(cut_off)?;
        if width > MAX_FIXED_BYTES {
            return Err(DamagedFile("a column is too wide"));
        }
        let children = usize::try_from(children).map_err(|_| cut_off)?;
        if children >= count - index {
            return Err(DamagedFile("its schema has fewer columns than it says"));
        }
        if let Some(missing) = open.last_mut() {
            *missing -= 1;
        }
        open.push(children);
        while open.last() == Some(&0) {
            open.pop();
        }
        if open.len() > MAX_SCHEMA_DEPTH {
            return Err(DamagedFile("its columns are nested too deep"));
        }
    }
    Ok(())
}

/// The checked fields of a schema's element.
#[derive(Default)]
struct Element {
    children: i32,
    width: i32,
}

impl Element {
    fn read(rest: &mut Thrift<'_>) -> Option<Self> {
        let mut element = Self::default();
        rest.fields(|rest, id, kind| {
            match id {
                2 => element.width = rest.i32(kind)?,
                5 => element.children = rest.i32(kind)?,
                1 | 3 | 6..=9 => drop(rest.i32(kind)?),
                4 if kind != BINARY => return None,
                10 if kind == STRUCT => logical_type(rest)?,
                10 => return None,
                _ => rest.skip(kind)?,
            }
            Some(())
        })?;
        Some(element)
    }
}

/// Checks the parameters of a type, for which a reader expects these kinds.
fn logical_type(rest: &mut Thrift<'_>) -> Option<()> {
    rest.fields(|rest, parent, kind| {
        if kind != STRUCT {
            return None;
        }
        rest.fields(|rest, id, kind| {
            let expected = match (parent, id) {
                // The field of a decimal, or the algorithm of a geography.
                (5, 1 | 2) | (18, 2) => kind == I32,
                // A time or timestamp: whether it is UTC, and the unit, which is an empty struct in a struct.
                (7 | 8, 1) | (10, 2) => is_bool(kind),
                (7 | 8, 2) => kind == STRUCT,
                // Integers and variants.
                (10 | 16, 1) => kind == I8,
                (17 | 18, 1) => kind == BINARY,
                _ => true,
            };
            if expected { rest.skip(kind) } else { None }
        })
    })
}
