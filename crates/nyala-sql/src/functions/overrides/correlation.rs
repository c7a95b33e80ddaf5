//! The correlation of each group, from means and distances to them (Welford 1962), as DataFusion computes it
//! over all rows. The states are the same, too.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array, PrimitiveArray, UInt64Array};
use arrow::datatypes::{ArrowPrimitiveType, Float64Type, UInt64Type};
use datafusion::common::Result;
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};

use crate::error::QueryError;
use crate::functions::aggregate::{Rows, states_of_rows};

/// The state of a group.
#[derive(Debug, Clone, Copy, Default)]
struct Moments {
    count: u64,
    mean_x: f64,
    /// Sum of squared distances to the mean.
    squares_x: f64,
    mean_y: f64,
    squares_y: f64,
    /// Sum of products of distances to the means.
    products: f64,
}

impl Moments {
    fn add(&mut self, x: f64, y: f64) {
        self.count += 1;
        let count = self.count as f64;
        let (from_x, from_y) = (x - self.mean_x, y - self.mean_y);
        self.mean_x += from_x / count;
        self.mean_y += from_y / count;
        self.squares_x += from_x * (x - self.mean_x);
        self.squares_y += from_y * (y - self.mean_y);
        self.products += from_x * (y - self.mean_y);
    }

    fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        if self.count == 0 {
            *self = *other;
            return;
        }
        let (ours, theirs) = (self.count as f64, other.count as f64);
        let (from_x, from_y) = (other.mean_x - self.mean_x, other.mean_y - self.mean_y);
        let (share, weight) = (theirs / (ours + theirs), ours * theirs / (ours + theirs));
        self.count += other.count;
        self.mean_x += from_x * share;
        self.mean_y += from_y * share;
        self.squares_x += other.squares_x + from_x * from_x * weight;
        self.squares_y += other.squares_y + from_y * from_y * weight;
        self.products += other.products + from_x * from_y * weight;
    }

    /// None for fewer than two rows, and if one side does not vary. NaN gives the same as in DataFusion without groups.
    fn correlation(&self) -> Option<f64> {
        if self.mean_x.is_nan() && self.mean_y.is_nan() {
            return Some(f64::NAN);
        }
        if self.mean_x.is_nan() || self.mean_y.is_nan() || self.count < 2 {
            return None;
        }
        let count = self.count as f64;
        let (deviation_x, deviation_y) = ((self.squares_x / count).sqrt(), (self.squares_y / count).sqrt());
        if deviation_x == 0.0 || deviation_y == 0.0 {
            return None;
        }
        Some(self.products / count / deviation_x / deviation_y)
    }
}

/// The correlations of any number of groups.
#[derive(Debug, Default)]
pub struct Correlations(Vec<Moments>);

impl Correlations {
    fn grow(&mut self, count: usize) {
        if count > self.0.len() {
            self.0.resize(count, Moments::default());
        }
    }
}

impl GroupsAccumulator for Correlations {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        self.grow(total_num_groups);
        let (xs, ys) = (column::<Float64Type>(values, 0)?, column::<Float64Type>(values, 1)?);
        Rows::new(values, group_indices, opt_filter).for_each(|row, group| {
            if let Some(moments) = self.0.get_mut(group)
                && ys.is_valid(row)
            {
                moments.add(xs.value(row), ys.value(row));
            }
            Ok(())
        })
    }

    fn merge_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        total_num_groups: usize,
    ) -> Result<()> {
        self.grow(total_num_groups);
        let counts = column::<UInt64Type>(values, 0)?;
        let (means_x, squares_x) = (column::<Float64Type>(values, 1)?, column::<Float64Type>(values, 2)?);
        let (means_y, squares_y) = (column::<Float64Type>(values, 3)?, column::<Float64Type>(values, 4)?);
        let products = column::<Float64Type>(values, 5)?;
        for (row, group) in group_indices.iter().enumerate() {
            let Some(moments) = self.0.get_mut(*group) else { continue };
            moments.merge(&Moments {
                count: counts.value(row),
                mean_x: means_x.value(row),
                squares_x: squares_x.value(row),
                mean_y: means_y.value(row),
                squares_y: squares_y.value(row),
                products: products.value(row),
            });
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let taken = emit_to.take_needed(&mut self.0);
        Ok(Arc::new(taken.iter().map(Moments::correlation).collect::<Float64Array>()))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let taken = emit_to.take_needed(&mut self.0);
        let counts: ArrayRef = Arc::new(UInt64Array::from_iter_values(taken.iter().map(|m| m.count)));
        let floats = |of: fn(&Moments) -> f64| -> ArrayRef {
            Arc::new(Float64Array::from_iter_values(taken.iter().map(of)))
        };
        Ok(vec![
            counts,
            floats(|m| m.mean_x),
            floats(|m| m.squares_x),
            floats(|m| m.mean_y),
            floats(|m| m.squares_y),
            floats(|m| m.products),
        ])
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        opt_filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        states_of_rows(Self::default(), values, opt_filter)
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.0.capacity() * size_of::<Moments>()
    }
}

fn column<T: ArrowPrimitiveType>(columns: &[ArrayRef], index: usize) -> Result<&PrimitiveArray<T>> {
    let column = columns.get(index).and_then(|column| column.as_primitive_opt::<T>());
    Ok(column.ok_or_else(|| QueryError::internal("a correlation is not of floats"))?)
}
