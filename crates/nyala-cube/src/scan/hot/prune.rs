//! Finds the blocks of a hot cuboid that a filter can match.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, UInt64Array};
use arrow::datatypes::SchemaRef;
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::{Column, ScalarValue};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::pruning::{PruningPredicate, PruningPredicateBuilder};
use nyala_sql::semantics::pruning::ordered_part;

use super::column::{BLOCK_ROWS, BlockStatistics};
use super::cuboid::HotCuboid;

/// A condition in terms of minima and maxima, of the blocks of one cuboid.
pub struct BlockFilter<'a> {
    cuboid: &'a HotCuboid,
    schema: &'a SchemaRef,
    /// Positions of the columns of `schema` in the cuboid.
    columns: &'a [usize],
    predicate: Option<Arc<PruningPredicate>>,
}

impl<'a> BlockFilter<'a> {
    /// A filter over the columns of `schema`. If extremes decide no part of it, it keeps every block. The rows of the blocks are
    /// checked again.
    pub fn of(
        filter: &Arc<dyn PhysicalExpr>,
        schema: &'a SchemaRef,
        cuboid: &'a HotCuboid,
        columns: &'a [usize],
    ) -> Self {
        let filter = ordered_part(filter, schema);
        let predicate = PruningPredicateBuilder::new().with_file_schema(Arc::clone(schema)).build(filter);
        Self { cuboid, schema, columns, predicate }
    }

    /// Ranges of rows that may match: all rows, if evaluating the filter fails. It may fail for an extreme that is the value of a
    /// row which other conditions rule out.
    pub fn ranges(&self) -> Vec<Range<usize>> {
        let predicate = self.predicate.as_ref().filter(|_| self.cuboid.rows() > 0);
        match predicate.and_then(|predicate| predicate.prune(self).ok()) {
            Some(kept) => self.cuboid.ranges(kept),
            None => self.cuboid.ranges(std::iter::repeat_n(true, self.cuboid.blocks())),
        }
    }

    fn blocks(&self, column: &Column) -> Option<&BlockStatistics> {
        let position = self.columns.get(self.schema.index_of(&column.name).ok()?)?;
        self.cuboid.column(*position)?.blocks.as_ref()
    }
}

impl PruningStatistics for BlockFilter<'_> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        self.blocks(column).map(|blocks| Arc::clone(&blocks.min))
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        self.blocks(column).map(|blocks| Arc::clone(&blocks.max))
    }

    fn num_containers(&self) -> usize {
        self.cuboid.blocks()
    }

    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        self.blocks(column).map(|blocks| Arc::clone(&blocks.nulls))
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        let rows = self.cuboid.rows();
        let counts = (0..self.cuboid.blocks()).map(|block| BLOCK_ROWS.min(rows - block * BLOCK_ROWS) as u64);
        Some(Arc::new(UInt64Array::from_iter_values(counts)))
    }

    fn contained(&self, _column: &Column, _values: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        None
    }
}
