//! The rows of an answer.

use std::sync::Arc;

use arrow::array::{ArrayRef, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::SchemaRef;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::internal_datafusion_err;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::EmitTo;

use super::keys::{Groups, Packing};
use super::order::{Criterion, order};
use super::shape::{Call, Column, Computed, Merging, Shape};
use crate::scan::hot::cuboid::HotCuboid;
use crate::scan::hot::selection::Selection;

/// The answer of this shape from some rows of a cuboid.
pub fn answer(shape: &Shape, cuboid: &HotCuboid, rows: &Selection) -> Result<RecordBatch> {
    let (merged, rows) = match &shape.merging {
        None => (Vec::new(), Rows::Cells(cuboid, rows)),
        Some(merging) if merging.groups.is_empty() => (merging.in_one(cuboid, rows)?, Rows::One),
        Some(merging) => merging.in_groups(cuboid, rows)?,
    };
    Made { rows, merged, computed: &shape.computed }.batch(shape)
}

/// The answer over no rows.
pub fn of_nothing(shape: &Shape) -> Result<RecordBatch> {
    match &shape.merging {
        Some(merging) if merging.groups.is_empty() => {
            let merged = merging.calls.iter().map(|call| call.merge_all(&[])).collect::<Result<_>>()?;
            Made { rows: Rows::One, merged, computed: &shape.computed }.batch(shape)
        }
        _ => Ok(RecordBatch::new_empty(Arc::clone(&shape.schema))),
    }
}

/// The sources of the columns of an answer.
struct Made<'a> {
    rows: Rows<'a>,
    /// The values of each aggregate call.
    merged: Vec<ArrayRef>,
    computed: &'a [Computed],
}

enum Rows<'a> {
    Cells(&'a HotCuboid, &'a Selection),
    Groups {
        cuboid: &'a HotCuboid,
        packing: Packing,
        keys: Vec<u64>,
    },
    /// The only group of a query without group expressions.
    One,
}

impl Made<'_> {
    fn batch(&self, shape: &Shape) -> Result<RecordBatch> {
        let order = if shape.order.is_empty() {
            None
        } else {
            let criteria =
                shape.order.iter().map(|(column, options)| Ok((self.criterion(*column)?, *options)));
            Some(order(criteria.collect::<Result<_>>()?, self.rows.count(), shape.fetch)?)
        };
        let columns = shape.columns.iter().map(|column| self.values(*column, order.as_ref()));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let count = order.as_ref().map_or(self.rows.count(), |order| order.values().len());
        rows_of(&shape.schema, columns, count)
    }

    /// The values of a column, in the given `order` if there is one.
    fn values(&self, column: Column, order: Option<&UInt32Array>) -> Result<ArrayRef> {
        let values = match column {
            Column::Merged(number) => self.merged.get(number).cloned().ok_or_else(missing)?,
            Column::Computed(number) => self.compute(self.computed.get(number).ok_or_else(missing)?)?,
            Column::Stored(position) => match self.rows.keys(position)? {
                None => self.rows.cells(position)?,
                Some((keys, values)) => {
                    let keys = UInt32Array::from(keys);
                    return Ok(match order {
                        Some(order) => take(values, &take(&keys, order, None)?, None)?,
                        None => take(values, &keys, None)?,
                    });
                }
            },
        };
        match order {
            Some(order) => Ok(take(&values, order, None)?),
            None => Ok(values),
        }
    }

    fn compute(&self, computed: &Computed) -> Result<ArrayRef> {
        let inputs = computed.inputs.iter().map(|input| self.values(*input, None));
        let rows = self.rows.count();
        let inputs = rows_of(&computed.schema, inputs.collect::<Result<_>>()?, rows)?;
        computed.expr.evaluate(&inputs)?.into_array(rows)
    }

    fn criterion(&self, column: Column) -> Result<Criterion> {
        if let Column::Stored(position) = column
            && let Some((keys, values)) = self.rows.keys(position)?
        {
            return Ok(Criterion::Keys { keys, count: values.len(), null: values.null_count() > 0 });
        }
        self.values(column, None).map(Criterion::Values)
    }
}

impl Rows<'_> {
    fn count(&self) -> usize {
        match self {
            Self::Cells(_, rows) => rows.rows(),
            Self::Groups { keys, .. } => keys.len(),
            Self::One => 1,
        }
    }

    /// The keys of a column with a dictionary, and the values of the dictionary.
    fn keys(&self, position: usize) -> Result<Option<(Vec<u32>, &ArrayRef)>> {
        let cuboid = match self {
            Self::Cells(cuboid, _) | Self::Groups { cuboid, .. } => cuboid,
            Self::One => return Err(missing()),
        };
        let stored = &cuboid.stored(position)?.stored;
        let Some((_, values)) = stored.folds() else { return Ok(None) };
        let keys = match self {
            Self::Groups { packing, keys, .. } => packing.unpack(position, keys).ok_or_else(missing)?,
            Self::Cells(_, rows) => {
                let mut keys = Vec::with_capacity(rows.rows());
                stored.each_key(rows, |_, key| keys.push(key));
                keys
            }
            Self::One => return Err(missing()),
        };
        Ok(Some((keys, values)))
    }

    /// The values of a column without a dictionary.
    fn cells(&self, position: usize) -> Result<ArrayRef> {
        match self {
            Self::Cells(cuboid, rows) => cuboid.stored(position)?.stored.values(rows),
            _ => Err(missing()),
        }
    }
}

impl Merging {
    fn in_groups<'a>(&self, cuboid: &'a HotCuboid, rows: &Selection) -> Result<(Vec<ArrayRef>, Rows<'a>)> {
        let packing = Packing::of(&self.groups, cuboid).ok_or_else(missing)?;
        let Groups { of_row, keys } = packing.groups(cuboid, rows);
        let merged = self.calls.iter().map(|call| {
            let mut groups = call.function.create_groups_accumulator()?;
            groups.merge_batch(&call.states(cuboid, rows)?, &of_row, keys.len())?;
            groups.evaluate(EmitTo::All)
        });
        Ok((merged.collect::<Result<_>>()?, Rows::Groups { cuboid, packing, keys }))
    }

    fn in_one(&self, cuboid: &HotCuboid, rows: &Selection) -> Result<Vec<ArrayRef>> {
        self.calls.iter().map(|call| call.merge_all(&call.states(cuboid, rows)?)).collect()
    }
}

impl Call {
    fn states(&self, cuboid: &HotCuboid, rows: &Selection) -> Result<Vec<ArrayRef>> {
        self.states.iter().map(|position| cuboid.stored(*position)?.stored.values(rows)).collect()
    }

    /// The value of the call over all states; without states, the value over no rows.
    fn merge_all(&self, states: &[ArrayRef]) -> Result<ArrayRef> {
        let mut accumulator = self.function.create_accumulator()?;
        if !states.is_empty() {
            accumulator.merge_batch(states)?;
        }
        accumulator.evaluate()?.to_array()
    }
}

fn rows_of(schema: &SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}

fn missing() -> DataFusionError {
    internal_datafusion_err!("a column of an answer is none of a group")
}
