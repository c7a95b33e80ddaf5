//! Which blocks of a hot cuboid a filter can match.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, UInt64Array};
use arrow::datatypes::SchemaRef;
use datafusion::catalog::Session;
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::{Column, DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::utils::conjunction;
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};
use datafusion::physical_optimizer::pruning::{PruningPredicate, PruningPredicateBuilder};

use super::column::{BLOCK_ROWS, BlockStatistics};
use super::cuboid::HotCuboid;
use super::exec::HotScan;

/// The filters of a query in terms of minima and maxima; made once for all segments that it reads.
#[derive(Debug)]
pub(crate) struct BlockFilter {
    schema: SchemaRef,
    predicate: Option<Arc<PruningPredicate>>,
    batch_rows: usize,
}

impl BlockFilter {
    /// `filters` are over a cuboid with `schema`. A filter that says nothing about extremes keeps every
    /// block; all are evaluated on the rows again.
    pub(crate) fn new(filters: &[Expr], schema: &SchemaRef, session: &dyn Session) -> Result<Self> {
        let filter = match conjunction(filters.iter().cloned()) {
            Some(filter) => {
                let names = DFSchema::try_from(Arc::clone(schema))?;
                let context = PhysicalPlanningContext::default();
                Some(create_physical_expr(&filter, &names, session.execution_props(), &context)?)
            }
            None => None,
        };
        Ok(Self::build(filter, schema, schema, session.config().batch_size()))
    }

    /// `filter` is over the columns that `scan` reads.
    pub(super) fn of(filter: Option<&Arc<dyn PhysicalExpr>>, scan: &HotScan) -> Self {
        Self::build(filter.cloned(), &scan.schema, &scan.cuboid_schema, scan.batch_rows)
    }

    fn build(
        filter: Option<Arc<dyn PhysicalExpr>>,
        read: &SchemaRef,
        cuboid: &SchemaRef,
        batch_rows: usize,
    ) -> Self {
        let build = |filter| PruningPredicateBuilder::new().with_file_schema(Arc::clone(read)).build(filter);
        Self { schema: Arc::clone(cuboid), predicate: filter.and_then(build), batch_rows }
    }

    /// Ranges of rows of `cuboid` that may match.
    pub(crate) fn ranges(&self, cuboid: &HotCuboid) -> Result<Vec<Range<usize>>> {
        let Some(predicate) = self.predicate.as_ref().filter(|_| cuboid.rows() > 0) else {
            return Ok(cuboid.ranges(std::iter::repeat_n(true, cuboid.blocks()), self.batch_rows));
        };
        let keep = predicate.prune(&Blocks { schema: &self.schema, cuboid })?;
        Ok(cuboid.ranges(keep, self.batch_rows))
    }
}

/// The statistics of a cuboid's blocks, as DataFusion asks for them.
struct Blocks<'a> {
    schema: &'a SchemaRef,
    cuboid: &'a HotCuboid,
}

impl Blocks<'_> {
    fn of(&self, column: &Column) -> Option<&BlockStatistics> {
        let position = self.schema.index_of(&column.name).ok()?;
        self.cuboid.column(position)?.blocks.as_ref()
    }
}

impl PruningStatistics for Blocks<'_> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        self.of(column).map(|blocks| Arc::clone(&blocks.min))
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        self.of(column).map(|blocks| Arc::clone(&blocks.max))
    }

    fn num_containers(&self) -> usize {
        self.cuboid.blocks()
    }

    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        self.of(column).map(|blocks| Arc::clone(&blocks.nulls))
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
