//! Frequent items (Anderson and others 2017, "A high-performance algorithm for identifying frequent items
//! in data streams") as Apache DataSketches keeps them.
//!
//! The state is our two bytes, the family of the values, then the sketch in DataSketches' own form, with
//! each item as four bytes of length, lowest first, and the bytes of `values.rs`.

use std::hash::{Hash, Hasher};

use datafusion::common::Result;
use datasketches::codec::{SketchBytes, SketchSlice};
use datasketches::error::{Error, ErrorKind};
use datasketches::frequencies::{ErrorType, FrequentItemValue, FrequentItemsSketch};

use crate::error::QueryError;
use crate::functions::aggregate::{Form, Measured, Reader, begin, damaged};
use crate::functions::values::Family;

/// Size of the map of counters. Three quarters of it are used: up to 3,072 different values are counted
/// exactly, and beyond that no count is too large by more than 3.5 / 4096 = 0.09 % of the rows.
const COUNTERS: usize = 1 << LG_COUNTERS;
const LG_COUNTERS: u8 = 12;

/// Most values that are counted: a count and its bound together must be a number.
const MAX_WEIGHT: u64 = i64::MAX.cast_unsigned();

const WHAT: &str = "frequent-items sketch";

/// A value as bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item(pub Box<[u8]>);

impl Hash for Item {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(&self.0);
    }
}

impl FrequentItemValue for Item {
    fn serialize_size(item: &Self) -> usize {
        size_of::<u32>() + item.0.len()
    }

    fn serialize_value(&self, bytes: &mut SketchBytes) {
        bytes.write_u32_le(self.0.len() as u32);
        bytes.write(&self.0);
    }

    fn deserialize_value(cursor: &mut SketchSlice<'_>) -> Result<Self, Error> {
        let short = || Error::new(ErrorKind::InvalidData, "an item ends too early");
        let length = cursor.read_u32_le().map_err(|_| short())?;
        let bytes: Box<[u8]> = cursor.remaining().get(..length as usize).ok_or_else(short)?.into();
        cursor.advance(u64::from(length));
        Ok(Self(bytes))
    }
}

/// A value and about how often it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frequent {
    pub item: Item,
    /// An upper bound of how often the value came.
    pub count: u64,
}

/// The most frequent of the values that were added, with counts.
#[derive(Debug, Default)]
pub struct Items {
    sketch: Option<Box<FrequentItemsSketch<Item>>>,
    /// Number and bytes of the added items, from which the bytes of the kept ones are estimated.
    added: usize,
    added_bytes: usize,
}

impl Measured for Items {
    #[inline]
    fn heap_bytes(&self) -> usize {
        let Some(sketch) = &self.sketch else { return 0 };
        let items = sketch.num_active_items() * (self.added_bytes / self.added.max(1));
        size_of::<FrequentItemsSketch<Item>>() + sketch.estimated_size() + items
    }
}

impl Items {
    fn sketch(&mut self) -> Result<&mut FrequentItemsSketch<Item>> {
        if self.sketch.is_none() {
            let sketch = FrequentItemsSketch::new(COUNTERS).map_err(QueryError::internal)?;
            self.sketch = Some(Box::new(sketch));
        }
        Ok(self.sketch.as_mut().ok_or_else(|| QueryError::internal("a sketch is missing"))?)
    }

    /// Adds a value.
    pub fn add(&mut self, value: &[u8]) -> Result<()> {
        self.added += 1;
        self.added_bytes += value.len();
        self.sketch()?.update(Item(value.into()));
        Ok(())
    }

    /// Adds all values of an encoded sketch.
    pub fn merge(&mut self, family: Family, state: &[u8]) -> Result<()> {
        let other = decode(family, state)?;
        self.added += other.num_active_items();
        self.added_bytes += state.len();
        let sketch = self.sketch()?;
        if sketch.total_weight().saturating_add(other.total_weight()) > MAX_WEIGHT {
            return Err(damaged(WHAT, "its counts are impossibly large"));
        }
        sketch.merge(&other);
        Ok(())
    }

    /// Appends the sketch.
    pub fn encode(&mut self, family: Family, out: &mut Vec<u8>) -> Result<()> {
        begin(out, Form::FrequentItems);
        out.push(family as u8);
        out.extend(self.sketch()?.serialize());
        Ok(())
    }

    /// The `count` most frequent values, most frequent first; equally frequent ones in order of value.
    pub fn top(&self, count: usize) -> Vec<Frequent> {
        let Some(sketch) = &self.sketch else { return Vec::new() };
        let rows = sketch.frequent_items(ErrorType::NoFalseNegatives);
        let mut items: Vec<Frequent> =
            rows.iter().map(|row| Frequent { item: row.item().clone(), count: row.estimate() }).collect();
        items.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.item.0.cmp(&b.item.0)));
        items.truncate(count);
        items
    }
}

fn decode(family: Family, state: &[u8]) -> Result<FrequentItemsSketch<Item>> {
    let mut reader = Reader::expect(WHAT, state, Form::FrequentItems)?;
    let found = reader.byte()?;
    if found != family as u8 {
        return Err(reader.damaged(format!("it has values of family `{found}`, not `{}`", family as u8)));
    }
    // Before it reads any item, the library makes a map of the size that the bytes name.
    if let [_, _, _, largest, size, ..] = *reader.rest()
        && (largest != LG_COUNTERS || size > LG_COUNTERS)
    {
        return Err(reader.damaged("its sizes are not those of this server"));
    }
    let sketch = FrequentItemsSketch::<Item>::deserialize(reader.rest());
    let sketch = sketch.map_err(|error| reader.damaged(error))?;
    if sketch.total_weight() > MAX_WEIGHT || sketch.maximum_error() > sketch.total_weight() {
        return Err(reader.damaged("its counts are impossibly large"));
    }
    Ok(sketch)
}
