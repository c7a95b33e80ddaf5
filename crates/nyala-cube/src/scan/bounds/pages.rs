//! Checks the numbers in the headers of pages.

use super::damage::DamagedFile;
use super::thrift::{STRUCT, Thrift};

/// Largest page. Writers make pages of a megabyte, but one value may be longer.
const MAX_PAGE_BYTES: usize = 512 << 20;

/// Sizes from the headers of a column chunk's pages.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct ChunkPages {
    /// Uncompressed bytes of the dictionary and of the largest other page, which a reader holds at the same time.
    pub held_bytes: usize,
    /// Values of all pages but the dictionary, nulls counted.
    pub values: usize,
}

/// Walks over whole pages, from header to header, until they have `enough` values: some writers leave a gap behind the last.
///
/// # Errors
/// A page that is longer than the bytes there, that becomes too large, or a dictionary of more values than bytes.
pub fn check_pages(mut pages: &[u8], enough: usize) -> Result<ChunkPages, DamagedFile> {
    let (mut found, mut dictionary_bytes, mut largest) = (ChunkPages::default(), 0_usize, 0_usize);
    while !pages.is_empty() && found.values < enough {
        let mut rest = Thrift(pages);
        let header = Header::read(&mut rest).ok_or(DamagedFile("the header of a page is not whole"))?;
        let (compressed, bytes) = header.sizes().ok_or(DamagedFile("a page has a negative length"))?;
        if bytes > MAX_PAGE_BYTES {
            return Err(DamagedFile("a page is too large"));
        }
        rest.take(compressed).ok_or(DamagedFile("a page is longer than what is there"))?;
        if header.dictionary_values > bytes {
            return Err(DamagedFile("a dictionary has more values than bytes"));
        }
        found.values = found.values.saturating_add(header.values);
        match header.is_dictionary {
            true => dictionary_bytes = dictionary_bytes.max(bytes),
            false => largest = largest.max(bytes),
        }
        pages = rest.0;
    }
    found.held_bytes = dictionary_bytes.saturating_add(largest);
    Ok(found)
}

#[derive(Default)]
struct Header {
    uncompressed: Option<i32>,
    compressed: Option<i32>,
    is_dictionary: bool,
    dictionary_values: usize,
    values: usize,
}

impl Header {
    fn sizes(&self) -> Option<(usize, usize)> {
        Some((usize::try_from(self.compressed?).ok()?, usize::try_from(self.uncompressed?).ok()?))
    }

    fn read(rest: &mut Thrift<'_>) -> Option<Self> {
        let mut header = Self::default();
        rest.fields(|rest, id, kind| {
            match (id, kind) {
                (2, _) => header.uncompressed = Some(rest.i32(kind)?),
                (3, _) => header.compressed = Some(rest.i32(kind)?),
                // Data pages of the first and of the second kind.
                (5, STRUCT) => header.data(rest, 4)?,
                (8, STRUCT) => header.data(rest, 6)?,
                (7, STRUCT) => header.dictionary(rest)?,
                (1 | 4, _) => drop(rest.i32(kind)?),
                (6, STRUCT) => rest.skip(kind)?,
                // A reader derives the kind from the number of the field, and would read on from a wrong position.
                (5..=8, _) => return None,
                _ => rest.skip(kind)?,
            }
            Some(())
        })?;
        Some(header)
    }

    /// The first `numbers` fields are of 32 bits.
    fn data(&mut self, rest: &mut Thrift<'_>, numbers: i16) -> Option<()> {
        rest.fields(|rest, id, kind| {
            match id {
                1 => self.values = self.values.max(usize::try_from(rest.i32(kind)?).ok()?),
                id if (1..=numbers).contains(&id) => drop(rest.i32(kind)?),
                _ => rest.skip(kind)?,
            }
            Some(())
        })
    }

    fn dictionary(&mut self, rest: &mut Thrift<'_>) -> Option<()> {
        self.is_dictionary = true;
        rest.fields(|rest, id, kind| {
            match id {
                1 => self.dictionary_values = usize::try_from(rest.i32(kind)?).ok()?,
                2 => drop(rest.i32(kind)?),
                _ => rest.skip(kind)?,
            }
            Some(())
        })
    }
}
