//! The rows of an answer.

use std::sync::Arc;

use arrow::array::{ArrayRef, UInt32Array};
use arrow::compute::take;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::internal_datafusion_err;
use datafusion::error::Result;
use datafusion::logical_expr::EmitTo;

use super::keys::{Groups, Packing};
use super::order::{Criterion, order};
use super::shape::{Call, Column, Merging, Shape};
use crate::scan::hot::cuboid::HotCuboid;
use crate::scan::hot::picked::Picked;

/// The answer of this shape from some rows of a cuboid.
pub(super) fn answer(shape: &Shape, cuboid: &HotCuboid, rows: &Picked) -> Result<RecordBatch> {
    let made = match &shape.merging {
        Some(merging) if merging.groups.is_empty() => Made::in_one(merging, cuboid, rows)?,
        Some(merging) => Made::in_groups(merging, cuboid, rows)?,
        None => Made { cuboid, rows: Rows::Cells(rows), merged: Vec::new() },
    };
    let order = match shape.order[..] {
        [] => None,
        _ => {
            let criteria =
                shape.order.iter().map(|(column, options)| Ok((made.criterion(*column)?, *options)));
            Some(order(criteria.collect::<Result<_>>()?, made.count(), shape.fetch)?)
        }
    };
    let columns = shape.columns.iter().map(|column| made.values(*column, order.as_ref()));
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let count = order.as_ref().map_or(made.count(), |order| order.values().len());
    let options = RecordBatchOptions::new().with_row_count(Some(count));
    Ok(RecordBatch::try_new_with_options(Arc::clone(&shape.schema), columns, &options)?)
}

/// The answer to a query without groups over no rows; none if the shape has groups.
pub(super) fn of_nothing(shape: &Shape) -> Result<Option<RecordBatch>> {
    let Some(merging) = shape.merging.as_ref().filter(|merging| merging.groups.is_empty()) else {
        return Ok(None);
    };
    let columns = shape.columns.iter().map(|column| match column {
        Column::Merged(number) => merging.calls.get(*number).ok_or_else(missing)?.merge_all(&[]),
        Column::Stored(_) => Err(missing()),
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    Ok(Some(RecordBatch::try_new_with_options(Arc::clone(&shape.schema), columns, &options)?))
}

/// What columns are taken from.
struct Made<'a> {
    cuboid: &'a HotCuboid,
    rows: Rows<'a>,
    /// The values of each call.
    merged: Vec<ArrayRef>,
}

enum Rows<'a> {
    Cells(&'a Picked),
    Groups { packing: Packing, keys: Vec<u64> },
    One,
}

impl<'a> Made<'a> {
    fn in_groups(merging: &Merging, cuboid: &'a HotCuboid, rows: &Picked) -> Result<Self> {
        let packing = Packing::of(&merging.groups, cuboid).ok_or_else(missing)?;
        let Groups { of_row, keys } = packing.groups(cuboid, rows);
        let merged = merging.calls.iter().map(|call| {
            let mut groups = call.function.create_groups_accumulator()?;
            groups.merge_batch(&call.states(cuboid, rows)?, &of_row, keys.len())?;
            groups.evaluate(EmitTo::All)
        });
        Ok(Self { cuboid, merged: merged.collect::<Result<_>>()?, rows: Rows::Groups { packing, keys } })
    }

    fn in_one(merging: &Merging, cuboid: &'a HotCuboid, rows: &Picked) -> Result<Self> {
        let merged = merging.calls.iter().map(|call| call.merge_all(&call.states(cuboid, rows)?));
        Ok(Self { cuboid, merged: merged.collect::<Result<_>>()?, rows: Rows::One })
    }

    fn count(&self) -> usize {
        match &self.rows {
            Rows::Cells(rows) => rows.rows(),
            Rows::Groups { keys, .. } => keys.len(),
            Rows::One => 1,
        }
    }

    /// The values of a column, of the places in `order` if that is given.
    fn values(&self, column: Column, order: Option<&UInt32Array>) -> Result<ArrayRef> {
        let values = match (column, self.keys(column)?) {
            (Column::Merged(number), _) => Arc::clone(self.merged.get(number).ok_or_else(missing)?),
            (Column::Stored(position), Some((keys, values))) => {
                debug_assert_eq!(self.count(), keys.len(), "column {position}");
                let keys = UInt32Array::from(keys);
                let keys =
                    order.map_or(Ok(Arc::new(keys.clone()) as ArrayRef), |order| take(&keys, order, None))?;
                return Ok(take(values, &keys, None)?);
            }
            (Column::Stored(position), None) => self.cells(position)?,
        };
        Ok(order.map_or(Ok(Arc::clone(&values)), |order| take(&values, order, None))?)
    }

    fn criterion(&self, column: Column) -> Result<Criterion> {
        Ok(match self.keys(column)? {
            Some((keys, values)) => {
                Criterion::Keys { keys, count: values.len(), null: values.null_count() > 0 }
            }
            None => Criterion::Values(self.values(column, None)?),
        })
    }

    /// The keys of a column that is kept as such, and the values they point to.
    fn keys(&self, column: Column) -> Result<Option<(Vec<u32>, &ArrayRef)>> {
        let Column::Stored(position) = column else { return Ok(None) };
        let stored = &self.cuboid.stored(position)?.stored;
        let Some((_, values)) = stored.folds() else { return Ok(None) };
        let keys = match &self.rows {
            Rows::Groups { packing, keys } => packing.unpack(position, keys).ok_or_else(missing)?,
            Rows::Cells(rows) => {
                let mut keys = Vec::with_capacity(rows.rows());
                stored.each_key(rows, |_, key| keys.push(key));
                keys
            }
            Rows::One => return Err(missing()),
        };
        Ok(Some((keys, values)))
    }

    /// The values of a column that is kept as they are.
    fn cells(&self, position: usize) -> Result<ArrayRef> {
        match &self.rows {
            Rows::Cells(rows) => self.cuboid.stored(position)?.stored.values(rows),
            _ => Err(missing()),
        }
    }
}

impl Call {
    fn states(&self, cuboid: &HotCuboid, rows: &Picked) -> Result<Vec<ArrayRef>> {
        self.states.iter().map(|position| cuboid.stored(*position)?.stored.values(rows)).collect()
    }

    /// The value over all of the states; over no rows if there are none.
    fn merge_all(&self, states: &[ArrayRef]) -> Result<ArrayRef> {
        let mut accumulator = self.function.create_accumulator()?;
        if !states.is_empty() {
            accumulator.merge_batch(states)?;
        }
        accumulator.evaluate()?.to_array()
    }
}

fn missing() -> datafusion::error::DataFusionError {
    internal_datafusion_err!("a column of an answer is none of a group")
}
