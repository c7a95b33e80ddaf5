//! Checks the contents of a page, after decompression: levels, values, indices, differences and lengths.
//!
//! The reader of Parquet takes these numbers as they are, and panics on some that are damaged.

use parquet::basic::{Encoding, Type};
use parquet::column::page::Page;
use parquet::schema::types::ColumnDescriptor;

use super::damage::DamagedFile;
use super::delta::check_delta;
use super::entries::{Entries, Fingerprint};
use super::levels::{packed, runs, width_of};

const LEVELS: DamagedFile = DamagedFile("a page has fewer levels than values");
const VALUES: DamagedFile = DamagedFile("a page has fewer values than it says");
/// Indices of a dictionary have at most 32 bits.
const MAX_INDEX_WIDTH: u8 = 32;

/// Checks the pages of a column chunk, one after the other.
#[derive(Debug)]
pub struct ContentsCheck<'a> {
    column: &'a ColumnDescriptor,
    /// Number of values of the dictionary, after its page was checked.
    dictionary: Option<u32>,
    /// The entries of each list around the column, by the levels of the pages so far.
    entries: Vec<Fingerprint>,
}

impl<'a> ContentsCheck<'a> {
    /// Checks a chunk of a column that is in these lists.
    pub fn new(column: &'a ColumnDescriptor, lists: &[Entries]) -> Self {
        Self { column, dictionary: None, entries: lists.iter().map(|list| Fingerprint::new(*list)).collect() }
    }

    /// The entries of each list, by the levels. All columns of a list must have the same entries.
    pub fn entries(self) -> Vec<Fingerprint> {
        self.entries
    }

    /// Checks the next page.
    ///
    /// # Errors
    /// The page is damaged.
    pub fn check(&mut self, page: &Page) -> Result<(), DamagedFile> {
        let (values, present) = match page {
            Page::DictionaryPage { buf, num_values, .. } => {
                self.dictionary = Some(*num_values);
                return self.check_plain(buf, u64::from(*num_values));
            }
            Page::DataPage { buf, rep_level_encoding, def_level_encoding, num_values, .. } => {
                let (repetition, rest) =
                    leveled(buf, *rep_level_encoding, self.column.max_rep_level(), *num_values)
                        .ok_or(LEVELS)?;
                let (definition, rest) =
                    leveled(rest, *def_level_encoding, self.column.max_def_level(), *num_values)
                        .ok_or(LEVELS)?;
                (rest, self.levels(repetition, definition, *num_values).ok_or(LEVELS)?)
            }
            Page::DataPageV2 { buf, rep_levels_byte_len, def_levels_byte_len, num_values, .. } => {
                let (repetition, rest) = split(buf, *rep_levels_byte_len).ok_or(LEVELS)?;
                let (definition, rest) = split(rest, *def_levels_byte_len).ok_or(LEVELS)?;
                let (repetition, definition) = (Levels::Runs(repetition), Levels::Runs(definition));
                (rest, self.levels(repetition, definition, *num_values).ok_or(LEVELS)?)
            }
        };
        // The reader divides by the number of values. Other encodings begin with a width or a count, also in an empty page.
        if page.num_values() == 0 && page.encoding() == Encoding::PLAIN && !values.is_empty() {
            return Err(DamagedFile("a page has more values than it says"));
        }
        self.check_values(values, page.encoding(), present)
    }

    /// Reads the levels of a page, and counts the values that are not null.
    fn levels(&mut self, repetition: Levels<'_>, definition: Levels<'_>, count: u32) -> Option<u64> {
        let (max_repetition, max_definition) = (self.column.max_rep_level(), self.column.max_def_level());
        let count = u64::from(count);
        let mut present = if max_definition == 0 { count } else { 0 };
        definition.show(max_definition, count, |level, times| {
            present += if i64::from(level) == i64::from(max_definition) { times } else { 0 };
            Some(())
        })?;
        if max_repetition > 0 {
            let (repetition, definition) =
                (repetition.collect(max_repetition, count)?, definition.collect(max_definition, count)?);
            let levels = || repetition.iter().copied().zip(definition.iter().copied());
            self.entries.iter_mut().for_each(|entries| {
                levels().for_each(|(repetition, definition)| {
                    entries.add(repetition, definition);
                })
            });
        }
        Some(present)
    }

    fn check_values(&self, values: &[u8], encoding: Encoding, present: u64) -> Result<(), DamagedFile> {
        match encoding {
            Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY => self.check_indices(values, present),
            Encoding::PLAIN => self.check_plain(values, present),
            Encoding::BYTE_STREAM_SPLIT => {
                let width = self.width().unwrap_or(1).max(1);
                let bytes = values.len() as u64;
                let whole = bytes.is_multiple_of(width) && bytes / width >= present;
                if whole { Ok(()) } else { Err(VALUES) }
            }
            _ => check_delta(values, encoding, self.column.physical_type(), present),
        }
    }

    fn check_indices(&self, values: &[u8], present: u64) -> Result<(), DamagedFile> {
        let count = self.dictionary.ok_or(DamagedFile("a column has indices of a dictionary, and none"))?;
        let (width, indices) = values.split_first().ok_or(VALUES)?;
        if *width > MAX_INDEX_WIDTH {
            return Err(DamagedFile("indices of a dictionary are too wide"));
        }
        // Indices of no width are all 0. Some writers leave out their runs.
        if *width == 0 && indices.is_empty() && count > 0 {
            return Ok(());
        }
        let is_within = |index, _| if index < count { Some(()) } else { None };
        runs(indices, u32::from(*width), present, is_within)
            .ok_or(DamagedFile("a page has an index that is not in the dictionary"))
    }

    /// Lengths of texts are left to the reader.
    fn check_plain(&self, values: &[u8], present: u64) -> Result<(), DamagedFile> {
        let bytes = match self.column.physical_type() {
            Type::BOOLEAN => present.div_ceil(8),
            _ => self.width().unwrap_or(4).saturating_mul(present),
        };
        if bytes <= values.len() as u64 { Ok(()) } else { Err(VALUES) }
    }

    /// Bytes of a value, for types of a fixed width.
    fn width(&self) -> Option<u64> {
        match self.column.physical_type() {
            Type::INT32 | Type::FLOAT => Some(4),
            Type::INT64 | Type::DOUBLE => Some(8),
            Type::INT96 => Some(12),
            Type::FIXED_LEN_BYTE_ARRAY => u64::try_from(self.column.type_length()).ok(),
            Type::BOOLEAN | Type::BYTE_ARRAY => None,
        }
    }
}

/// The encoded levels of a page.
#[derive(Clone, Copy)]
enum Levels<'a> {
    Runs(&'a [u8]),
    Packed(&'a [u8]),
}

impl Levels<'_> {
    /// Calls `each` with every run of `count` levels: the level, and the length of the run. None if a level is more than `most`.
    fn show(self, most: i16, count: u64, mut each: impl FnMut(u32, u64) -> Option<()>) -> Option<()> {
        let max = u32::try_from(most).unwrap_or_default();
        let each = |level, times| if level <= max { each(level, times) } else { None };
        match self {
            _ if max == 0 => Some(()),
            Self::Runs(levels) => runs(levels, width_of(most), count, each),
            Self::Packed(levels) => packed(levels, width_of(most), count, each),
        }
    }

    fn collect(self, most: i16, count: u64) -> Option<Vec<u32>> {
        let mut all = Vec::new();
        self.show(most, count, |level, times| {
            all.extend(std::iter::repeat_n(level, usize::try_from(times).ok()?));
            Some(())
        })?;
        all.resize(usize::try_from(count).ok()?, 0);
        Some(all)
    }
}

/// Levels of at most `most` in a data page of version 1, and the rest of the page.
// Old writers pack levels, which the format calls deprecated.
#[allow(deprecated)]
fn leveled(page: &[u8], encoding: Encoding, most: i16, count: u32) -> Option<(Levels<'_>, &[u8])> {
    match encoding {
        _ if most <= 0 => Some((Levels::Runs(&[]), page)),
        Encoding::BIT_PACKED => {
            let bits = u64::from(count) * u64::from(width_of(most));
            let (levels, rest) = page.split_at_checked(usize::try_from(bits.div_ceil(8)).ok()?)?;
            Some((Levels::Packed(levels), rest))
        }
        _ => {
            let (length, rest) = page.split_first_chunk::<4>()?;
            let (levels, rest) = split(rest, u32::from_le_bytes(*length))?;
            Some((Levels::Runs(levels), rest))
        }
    }
}

fn split(page: &[u8], length: u32) -> Option<(&[u8], &[u8])> {
    page.split_at_checked(usize::try_from(length).ok()?)
}
