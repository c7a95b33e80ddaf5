//! Groups that each are a set of values.

use arrow::array::ArrayRef;
use datafusion::common::Result;

use super::dictionary::Dictionary;
use super::encoding;
use crate::error::QueryError;
use crate::functions::aggregate::{GroupList, Held, Kind, Rows};
use crate::functions::bitmap::{Bitmap, count_column};
use crate::functions::values::{Family, spell};

/// One set of values for each group: a bitmap of numbers in a dictionary that all groups share. A state holds
/// the values themselves, so it means the same everywhere.
#[derive(Debug, Clone)]
pub struct DistinctKind {
    family: Family,
    dictionary: Dictionary,
    /// Size of the dictionary when it was last searched for values that are in no group.
    checked_bytes: usize,
}

/// Bytes beyond twice the size at the last search, before a dictionary is searched again for values that are in no group.
const UNCHECKED_BYTES: usize = 4 << 20;

impl DistinctKind {
    /// For values of one family.
    pub fn new(family: Family) -> Self {
        Self { family, dictionary: Dictionary::default(), checked_bytes: 0 }
    }

    fn value(&self, number: i64) -> Result<&[u8]> {
        let value = u32::try_from(number).ok().and_then(|number| self.dictionary.value(number));
        Ok(value.ok_or_else(|| QueryError::internal("a value is missing"))?)
    }

    fn values(&self, numbers: &Bitmap) -> Result<Vec<&[u8]>> {
        let values: Result<Vec<&[u8]>> = numbers.iter().map(|number| self.value(number)).collect();
        let mut values = values?;
        values.sort_unstable();
        Ok(values)
    }

    /// Shrinks the dictionary to the values of `groups`, which get new numbers.
    fn renumber(&mut self, groups: &mut [Held<Bitmap>]) -> Result<()> {
        let mut dictionary = Dictionary::default();
        for group in groups {
            let Held::Open(numbers) = group else { continue };
            let mut renumbered = Bitmap::default();
            for number in numbers.iter() {
                renumbered.insert(i64::from(dictionary.number(self.value(number)?)?));
            }
            *numbers = renumbered;
        }
        self.dictionary = dictionary;
        Ok(())
    }
}

/// The number of values of the unpacked groups. A value counts once for each group that it is in.
fn unpacked(groups: &[Held<Bitmap>]) -> u64 {
    let values = groups.iter().map(|group| if let Held::Open(numbers) = group { numbers.len() } else { 0 });
    values.sum()
}

/// Adds the values of an encoded set.
fn unpack(family: Family, dictionary: &mut Dictionary, bytes: &[u8], numbers: &mut Bitmap) -> Result<()> {
    encoding::for_each(family, bytes, |value| {
        numbers.insert(i64::from(dictionary.number(value)?));
        Ok(())
    })
}

fn open<'a>(
    family: Family,
    dictionary: &mut Dictionary,
    group: &'a mut Held<Bitmap>,
) -> Result<&'a mut Bitmap> {
    group.open(|bytes| {
        let mut numbers = Bitmap::default();
        unpack(family, dictionary, bytes, &mut numbers)?;
        Ok(numbers)
    })
}

impl Kind for DistinctKind {
    type Group = Held<Bitmap>;

    fn fresh(&self) -> Self {
        Self::new(self.family)
    }

    fn update(
        &mut self,
        groups: &mut GroupList<Self::Group>,
        rows: &Rows<'_>,
        values: &[ArrayRef],
    ) -> Result<()> {
        let column = values.first().ok_or_else(|| QueryError::internal("there is no argument"))?;
        let spelled = spell(self.family, column)?;
        let Self { family, dictionary, .. } = self;
        rows.for_each(|row, group| {
            let number = i64::from(dictionary.number(spelled.value(row))?);
            groups.change(group, |held| {
                open(*family, dictionary, held)?.insert(number);
                Ok(())
            })
        })
    }

    fn merge(&mut self, group: &mut Self::Group, state: &[u8]) -> Result<()> {
        let Self { family, dictionary, .. } = self;
        if let Held::Empty = group {
            encoding::encoded_len(*family, state)?;
            *group = Held::Packed(state.into());
            return Ok(());
        }
        let numbers = open(*family, dictionary, group)?;
        unpack(*family, dictionary, state, numbers)
    }

    fn encode(&self, group: &mut Self::Group, out: &mut Vec<u8>) -> Result<()> {
        match group {
            Held::Empty => encoding::encode(self.family, &[], out),
            Held::Packed(bytes) => out.extend_from_slice(bytes),
            Held::Open(numbers) => encoding::encode(self.family, &self.values(numbers)?, out),
        }
        Ok(())
    }

    fn finish(&self, groups: &mut [Self::Group]) -> Result<ArrayRef> {
        count_column(groups, |bytes| encoding::encoded_len(self.family, bytes), Bitmap::len)
    }

    /// Sorted groups are emitted one after the other. Without this, the dictionary would come to hold the values of all of them.
    fn forget(&mut self, groups: &mut [Self::Group]) -> Result<bool> {
        if self.dictionary.heap_bytes() < 2 * self.checked_bytes + UNCHECKED_BYTES {
            return Ok(false);
        }
        let few = unpacked(groups) < self.dictionary.len() as u64 / 2;
        if few {
            self.renumber(groups)?;
        }
        self.checked_bytes = self.dictionary.heap_bytes();
        Ok(few)
    }

    fn shared_bytes(&self) -> usize {
        self.dictionary.heap_bytes()
    }
}
