//! Bounds of the values in parts of a scan, known before the parts are read.

use arrow_array::{Array, ArrayRef, UInt64Array, new_empty_array, new_null_array};
use arrow_schema::DataType;
use arrow_select::concat::concat;

use super::Version;
use crate::oplog::error::{OplogError, Result};
use crate::oplog::unit::{Bounds, Part, PartBounds};

impl Version {
    /// Bounds of a column, given by its position in [`Self::schema`], in some parts of this version. They cover rows
    /// that are dead too, so that they may be wider than the values, never narrower. Floats are ordered with negative
    /// zero below zero and NaN above all. Nothing is read: parts of a log that is not read yet have no bounds, and
    /// neither have intervals and nested values.
    pub fn bounds(&self, parts: &[Part], column: usize) -> Result<Bounds> {
        let (id, data_type) = self.column(column)?;
        let (mut lows, mut highs, mut nulls) = (Vec::new(), Vec::new(), Vec::new());
        let unknown = || new_null_array(&data_type, 1);
        for part in parts {
            let (low, high, count) = match part.bounds(id) {
                PartBounds::Unknown => (unknown(), unknown(), None),
                PartBounds::Nulls => (unknown(), unknown(), Some(part.rows() as u64)),
                PartBounds::Known(low, high, nulls) => (low, high, Some(nulls)),
            };
            lows.push(low);
            highs.push(high);
            nulls.push(count);
        }
        Ok(Bounds {
            lows: joined(&data_type, &lows)?,
            highs: joined(&data_type, &highs)?,
            nulls: UInt64Array::from(nulls),
        })
    }

    /// All rows in at most so many groups of parts, none empty: neighbours stay together, and all groups have about
    /// as many rows.
    pub fn partitions(&self, count: usize) -> Result<Vec<Vec<Part>>> {
        let parts = self.parts()?;
        let rows: usize = parts.iter().map(Part::rows).sum();
        let share = rows.div_ceil(count.max(1)).max(1);
        let (mut groups, mut done): (Vec<(usize, Vec<Part>)>, usize) = (Vec::new(), 0);
        for part in parts {
            // A part belongs to the group that its middle falls into.
            let group = (done + part.rows() / 2) / share;
            done += part.rows();
            match groups.last_mut() {
                Some((last, parts)) if *last == group => parts.push(part),
                _ => groups.push((group, vec![part])),
            }
        }
        Ok(groups.into_iter().map(|(_, parts)| parts).collect())
    }
}

fn joined(data_type: &DataType, values: &[ArrayRef]) -> Result<ArrayRef> {
    if values.is_empty() {
        return Ok(new_empty_array(data_type));
    }
    let values: Vec<&dyn Array> = values.iter().map(AsRef::as_ref).collect();
    concat(&values).map_err(|error| OplogError::invalid(error.to_string()))
}
