//! The conditions of a filter, and the rows of a cuboid that they keep.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::compute::prep_null_mask_filter;
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::catalog::Session;
use datafusion::common::DFSchema;
use datafusion::common::cast::as_boolean_array;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::utils::conjunction;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::{
    collect_columns, conjunction as physical_conjunction, reassign_expr_columns, split_conjunction,
};
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};
use datafusion::physical_expr_common::physical_expr::is_volatile;

use super::cuboid::HotCuboid;
use super::prune::BlockFilter;
use super::ranges::{common, split};
use super::search::{Keys, search};
use super::selection::Selection;
use super::sorted::Sorted;
use super::values::{NoValues, Values};

/// With more rows than this, the extremes of blocks are checked first.
const FEW_ROWS: usize = 16_384;

/// The conditions of a filter. It keeps a row if all of them hold.
#[derive(Debug, Clone)]
pub struct Conditions {
    all: Vec<Condition>,
    /// The columns that the filter is over, and their positions in the cuboid's schema.
    schema: SchemaRef,
    columns: Arc<[usize]>,
}

/// One condition, over only the columns that it reads: mostly one.
#[derive(Debug, Clone)]
struct Condition {
    /// Positions of these columns in the schema of the filter.
    places: Vec<usize>,
    alone: SchemaRef,
    expr: Arc<dyn PhysicalExpr>,
}

/// For each condition, whether it holds for all remaining rows of all cuboids so far.
#[derive(Debug)]
pub struct Decided(Vec<bool>);

impl Conditions {
    /// The conditions of `predicate`, over `columns` of a cuboid, which are described by `schema`.
    pub(super) fn of(
        predicate: &Arc<dyn PhysicalExpr>,
        columns: &[usize],
        schema: &SchemaRef,
    ) -> Result<Self> {
        let all = split_conjunction(predicate).into_iter().map(|part| Condition::of(part, schema));
        Ok(Self { all: all.collect::<Result<_>>()?, schema: Arc::clone(schema), columns: columns.into() })
    }

    /// The conditions of a query's filters over a cuboid with `schema`; none if there are no filters.
    pub fn planned(filters: &[Expr], schema: &SchemaRef, session: &dyn Session) -> Result<Option<Self>> {
        let Some(filter) = conjunction(filters.iter().cloned()) else { return Ok(None) };
        let names = DFSchema::try_from(Arc::clone(schema))?;
        let context = PhysicalPlanningContext::default();
        let filter = create_physical_expr(&filter, &names, session.execution_props(), &context)?;
        let columns: Vec<usize> = (0..schema.fields().len()).collect();
        Self::of(&filter, &columns, schema).map(Some)
    }

    /// Before any cuboid has been looked at, every condition counts as decided.
    pub fn undecided(&self) -> Decided {
        Decided(vec![true; self.all.len()])
    }

    /// Ranges of rows of `cuboid` that may match, with the values `given` in the place of parameters: no condition in
    /// `decided` fails for any of them. Conditions that have to be evaluated on the rows are taken out of it.
    pub fn ranges(
        &self,
        cuboid: &HotCuboid,
        given: &dyn Values,
        decided: &mut Decided,
        batch_rows: usize,
    ) -> Result<Vec<Range<usize>>> {
        let mut here = Decided(vec![false; self.all.len()]);
        let mut by_value: Vec<_> = (self.all.iter().zip(&mut here.0))
            .filter_map(|(condition, done)| Some((condition, self.sorted_by(condition, cuboid)?, done)))
            .collect();
        by_value.sort_by_key(|(_, (_, _, sorted), _)| sorted.turn());
        let mut ranges: Vec<Range<usize>> = std::iter::once(0..cuboid.rows()).collect();
        let mut rows = cuboid.rows();
        for (condition, (keys, values, sorted), done) in by_value {
            if rows == 0 {
                break;
            }
            let kept = match search(condition.expr.as_ref(), given, values) {
                Some(kept) => kept,
                // Few rows are evaluated faster than many values, and a condition without a search seldom keeps few ranges of
                // keys.
                None if rows < values.len() || matches!(sorted, Sorted::SortedRanges(_)) => continue,
                // A condition that cannot be decided by value is evaluated on the rows.
                None => match condition.with(given)?.decide(values) {
                    Some(kept) => Keys::of(kept.values()),
                    None => continue,
                },
            };
            let Some(left) = sorted.narrow(keys, &ranges, &kept) else { continue };
            ranges = left;
            rows = ranges.iter().map(Range::len).sum();
            *done = true;
        }
        if rows > FEW_ROWS
            && let Some(left) = self.left(&here, given)?
        {
            let filter = BlockFilter::of(&left.whole()?, &self.schema, cuboid, &self.columns);
            ranges = common(&ranges, &filter.ranges());
        }
        if rows > 0 {
            decided.0.iter_mut().zip(here.0).for_each(|(decided, here)| *decided &= here);
        }
        Ok(split(&ranges, batch_rows))
    }

    /// The conditions that have to be evaluated on the rows, with the values `given`; none if all are decided.
    pub(super) fn left(&self, decided: &Decided, given: &dyn Values) -> Result<Option<Self>> {
        let left = self.all.iter().zip(&decided.0).filter(|(_, decided)| !**decided);
        let all = left.map(|(condition, _)| condition.with(given)).collect::<Result<Vec<_>>>()?;
        let (schema, columns) = (&self.schema, &self.columns);
        Ok((!all.is_empty()).then(|| Self { all, schema: Arc::clone(schema), columns: Arc::clone(columns) }))
    }

    /// All conditions as one, over the columns of the filter.
    pub(super) fn whole(&self) -> Result<Arc<dyn PhysicalExpr>> {
        let all = self.all.iter().map(|condition| condition.over(&self.schema));
        Ok(physical_conjunction(all.collect::<Result<Vec<_>>>()?))
    }

    /// The conditions, one by one.
    pub(super) fn exprs(&self) -> impl Iterator<Item = &Arc<dyn PhysicalExpr>> {
        self.all.iter().map(|condition| &condition.expr)
    }

    /// The part of `rows` that fulfils all conditions.
    pub(super) fn keep(&self, cuboid: &HotCuboid, mut rows: Selection) -> Result<Selection> {
        for condition in &self.all {
            if rows.rows() == 0 {
                break;
            }
            let kept = condition.holds(cuboid, &self.columns, &rows)?;
            if kept.true_count() < rows.rows() {
                rows = rows.keep(&kept);
            }
        }
        Ok(rows)
    }

    /// Keys and values of a condition's only column, and how the column is sorted.
    fn sorted_by<'a>(
        &self,
        condition: &Condition,
        cuboid: &'a HotCuboid,
    ) -> Option<(&'a ArrayRef, &'a ArrayRef, &'a Sorted)> {
        let [place] = condition.places[..] else { return None };
        cuboid.column(*self.columns.get(place)?)?.sorted()
    }
}

impl Condition {
    fn of(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Self> {
        let mut places: Vec<usize> = collect_columns(expr).iter().map(Column::index).collect();
        places.sort_unstable();
        let alone = Arc::new(schema.project(&places)?);
        let expr = reassign_expr_columns(Arc::clone(expr), &alone)?;
        Ok(Self { places, alone, expr })
    }

    /// The condition with the given values in the place of parameters.
    fn with(&self, given: &dyn Values) -> Result<Self> {
        let (places, alone) = (self.places.clone(), Arc::clone(&self.alone));
        Ok(Self { places, alone, expr: given.put_into(&self.expr)? })
    }

    /// The condition over all columns.
    fn over(&self, schema: &Schema) -> Result<Arc<dyn PhysicalExpr>> {
        let over = Arc::clone(&self.expr).transform_up(|expr| {
            let place = expr.downcast_ref::<Column>().and_then(|column| self.places.get(column.index()));
            let Some(place) = place else { return Ok(Transformed::no(expr)) };
            let column = Column::new(schema.field(*place).name(), *place);
            Ok(Transformed::yes(Arc::new(column) as Arc<dyn PhysicalExpr>))
        });
        over.data()
    }

    /// For which values of its only column the condition holds, without nulls; none if it cannot be evaluated on values.
    fn decide(&self, values: &ArrayRef) -> Option<BooleanArray> {
        // An error may come from a value that only unwanted rows have, so it counts as undecided.
        if is_volatile(&self.expr) {
            None
        } else {
            self.evaluate(vec![Arc::clone(values)], values.len()).ok()
        }
    }

    /// For which of `rows` the condition holds.
    fn holds(&self, cuboid: &HotCuboid, columns: &[usize], rows: &Selection) -> Result<BooleanArray> {
        let positions = self.places.iter().filter_map(|place| columns.get(*place).copied());
        let positions: Vec<usize> = positions.collect();
        if let [position] = positions[..] {
            let stored = &cuboid.stored(position)?.stored;
            let found = |values: &ArrayRef| search(self.expr.as_ref(), &NoValues, values);
            if let Some(kept) = stored.holds(rows, found, |values| self.decide(values)) {
                return Ok(kept);
            }
        }
        let seen = cuboid.batch(&self.alone, &positions, rows)?;
        self.evaluate(seen.columns().to_vec(), seen.num_rows())
    }

    fn evaluate(&self, columns: Vec<ArrayRef>, rows: usize) -> Result<BooleanArray> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let rows = RecordBatch::try_new_with_options(Arc::clone(&self.alone), columns, &options)?;
        let kept = self.expr.evaluate(&rows)?.into_array(rows.num_rows())?;
        let kept = as_boolean_array(&kept)?;
        // A condition that is null does not hold.
        Ok(if kept.null_count() == 0 { kept.clone() } else { prep_null_mask_filter(kept) })
    }
}
