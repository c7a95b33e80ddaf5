//! Which rows of a hot cuboid a filter keeps.

use std::sync::Arc;

use arrow::array::{Array, BooleanArray};
use arrow::compute::prep_null_mask_filter;
use arrow::datatypes::{Schema, SchemaRef};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::cast::as_boolean_array;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};

use super::cuboid::HotCuboid;
use super::picked::Picked;

/// A condition on rows that is decided where they lie, so that of the columns it does not look at only
/// the rows that it keeps are unfolded.
#[derive(Debug, Clone)]
pub(super) struct RowFilter {
    /// Over the columns of the scan.
    pub(super) predicate: Arc<dyn PhysicalExpr>,
    /// Over the columns it looks at alone.
    local: Arc<dyn PhysicalExpr>,
    /// Positions of these in the schema of the cuboid.
    looked_at: Vec<usize>,
    local_schema: SchemaRef,
}

impl RowFilter {
    /// A filter of a scan that gives `columns` of the cuboid, whose names and types are in `schema`.
    pub(super) fn new(predicate: Arc<dyn PhysicalExpr>, columns: &[usize], schema: &Schema) -> Result<Self> {
        let mut used: Vec<usize> = collect_columns(&predicate).iter().map(|column| column.index()).collect();
        used.sort_unstable();
        let local_schema = Arc::new(schema.project(&used)?);
        let local = reassign_expr_columns(Arc::clone(&predicate), &local_schema)?;
        let looked_at = used.iter().filter_map(|at| columns.get(*at)).copied().collect();
        Ok(Self { predicate, local, looked_at, local_schema })
    }

    /// Those of `rows` for which the condition holds, with the columns at `positions`; none if there is no such row.
    pub(super) fn read(
        &self,
        cuboid: &HotCuboid,
        positions: &[usize],
        schema: &SchemaRef,
        rows: &Picked,
    ) -> Result<Option<RecordBatch>> {
        let seen = cuboid.batch(&self.local_schema, &self.looked_at, rows)?;
        let kept = self.local.evaluate(&seen)?.into_array(seen.num_rows())?;
        let kept = without_nulls(as_boolean_array(&kept)?);
        let count = kept.true_count();
        if count == 0 {
            return Ok(None);
        }
        if count == kept.len() {
            return cuboid.batch(schema, positions, rows).map(Some);
        }
        let rows = rows.keep(&kept);
        let columns = positions.iter().map(|at| match self.looked_at.iter().position(|seen| seen == at) {
            Some(local) => Ok(arrow::compute::filter(seen.column(local), &kept)?),
            None => cuboid.stored(*at)?.values(&rows),
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        Ok(Some(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?))
    }
}

/// Unknown is not true.
fn without_nulls(kept: &BooleanArray) -> BooleanArray {
    match kept.null_count() {
        0 => kept.clone(),
        _ => prep_null_mask_filter(kept),
    }
}
