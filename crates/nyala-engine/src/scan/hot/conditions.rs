//! A filter taken apart, and which rows of a cuboid its parts leave.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, BooleanArray, RecordBatch};
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
    collect_columns, conjunction_opt, reassign_expr_columns, split_conjunction,
};
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};
use datafusion::physical_expr_common::physical_expr::is_volatile;

use super::cuboid::HotCuboid;
use super::prune::BlockFilter;
use super::runs::Runs;

/// More rows than this are worth a look at the extremes of their blocks.
const FEW_ROWS: usize = 2048;

/// Conditions that all hold of the rows that a filter keeps.
#[derive(Debug, Clone)]
pub(crate) struct Conditions {
    all: Vec<Condition>,
    /// The columns that the conditions are over, and their positions in the cuboid's schema.
    schema: SchemaRef,
    columns: Arc<[usize]>,
}

#[derive(Debug, Clone)]
enum Condition {
    One(OneColumn),
    /// On several columns, or on none.
    Other(Arc<dyn PhysicalExpr>),
}

/// A condition on one column.
#[derive(Debug, Clone)]
struct OneColumn {
    /// Of the column, in the schema of the conditions.
    place: usize,
    /// Over that column alone.
    expr: Arc<dyn PhysicalExpr>,
    alone: SchemaRef,
}

/// Which conditions hold of all rows that are left of all cuboids looked at.
#[derive(Debug)]
pub(crate) struct Decided(Vec<bool>);

impl Conditions {
    /// Those of `predicate`, over `columns` of a cuboid, which are described by `schema`.
    pub(super) fn of(
        predicate: &Arc<dyn PhysicalExpr>,
        columns: &[usize],
        schema: &SchemaRef,
    ) -> Result<Self> {
        let all = split_conjunction(predicate).into_iter().map(|part| Condition::of(part, schema));
        Ok(Self { all: all.collect::<Result<_>>()?, schema: Arc::clone(schema), columns: columns.into() })
    }

    /// Those of a query's filters over a cuboid with `schema`; none if there are no filters.
    pub(crate) fn planned(
        filters: &[Expr],
        schema: &SchemaRef,
        session: &dyn Session,
    ) -> Result<Option<Self>> {
        let Some(filter) = conjunction(filters.iter().cloned()) else { return Ok(None) };
        let names = DFSchema::try_from(Arc::clone(schema))?;
        let context = PhysicalPlanningContext::default();
        let filter = create_physical_expr(&filter, &names, session.execution_props(), &context)?;
        let columns: Vec<usize> = (0..schema.fields().len()).collect();
        Self::of(&filter, &columns, schema).map(Some)
    }

    /// The same conditions, each changed.
    pub(super) fn changed(
        &self,
        change: impl Fn(&Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>>,
    ) -> Result<Self> {
        let all = self.all.iter().map(|condition| {
            Ok(match condition {
                Condition::One(one) => Condition::One(OneColumn { expr: change(&one.expr)?, ..one.clone() }),
                Condition::Other(expr) => Condition::Other(change(expr)?),
            })
        });
        let all = all.collect::<Result<_>>()?;
        Ok(Self { all, schema: Arc::clone(&self.schema), columns: Arc::clone(&self.columns) })
    }

    /// Before any cuboid has been looked at, nothing speaks against a condition.
    pub(crate) fn undecided(&self) -> Decided {
        Decided(vec![true; self.all.len()])
    }

    /// Ranges of rows of `cuboid` that may match: no condition in `decided` fails for any of them. Conditions that
    /// have to be evaluated on the rows are taken out of it.
    pub(crate) fn ranges(
        &self,
        cuboid: &HotCuboid,
        decided: &mut Decided,
        batch_rows: usize,
    ) -> Result<Vec<Range<usize>>> {
        let mut with_runs: Vec<(usize, &OneColumn, &Runs)> = Vec::new();
        let mut here = vec![false; self.all.len()];
        for (number, condition) in self.all.iter().enumerate() {
            if let Some((one, runs)) = self.runs_of(condition, cuboid) {
                with_runs.push((number, one, runs));
            }
        }
        with_runs.sort_by_key(|(_, _, runs)| runs.len());
        let mut ranges = vec![0..cuboid.rows()];
        for (number, one, runs) in with_runs {
            // What cannot be said of values apart from their rows is said of the rows.
            let Some(kept) = one.decide(runs) else { continue };
            ranges = runs.narrow(&ranges, &kept);
            if let Some(here) = here.get_mut(number) {
                *here = true;
            }
        }
        let rows: usize = ranges.iter().map(Range::len).sum();
        if rows > FEW_ROWS && here.contains(&false) {
            let rest = self.left(&Decided(here.clone()))?;
            let blocks = BlockFilter::of(rest, &self.schema, cuboid, &self.columns).ranges()?;
            ranges = common(&ranges, &blocks);
        }
        if rows > 0 {
            for (decided, here) in decided.0.iter_mut().zip(here) {
                *decided &= here;
            }
        }
        Ok(cuboid.split(&ranges, batch_rows))
    }

    /// What has to be evaluated on the rows; none if nothing has to.
    pub(super) fn left(&self, decided: &Decided) -> Result<Option<Arc<dyn PhysicalExpr>>> {
        let left = self.all.iter().zip(&decided.0).filter(|(_, decided)| !**decided);
        let left = left.map(|(condition, _)| condition.whole(&self.schema)).collect::<Result<Vec<_>>>()?;
        Ok(conjunction_opt(left))
    }

    fn runs_of<'a>(
        &self,
        condition: &'a Condition,
        cuboid: &'a HotCuboid,
    ) -> Option<(&'a OneColumn, &'a Runs)> {
        let Condition::One(one) = condition else { return None };
        let position = self.columns.get(one.place)?;
        Some((one, cuboid.column(*position)?.runs.as_ref()?))
    }
}

impl Condition {
    fn of(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Self> {
        let columns = collect_columns(expr);
        let mut places = columns.iter().map(Column::index);
        let (Some(place), None) = (places.next(), places.next()) else {
            return Ok(Self::Other(Arc::clone(expr)));
        };
        let alone = Arc::new(schema.project(&[place])?);
        let expr = reassign_expr_columns(Arc::clone(expr), &alone)?;
        Ok(Self::One(OneColumn { place, expr, alone }))
    }

    /// The condition over all columns.
    fn whole(&self, schema: &Schema) -> Result<Arc<dyn PhysicalExpr>> {
        let one = match self {
            Self::One(one) => one,
            Self::Other(expr) => return Ok(Arc::clone(expr)),
        };
        let whole = Arc::clone(&one.expr).transform_up(|expr| {
            if expr.downcast_ref::<Column>().is_none() {
                return Ok(Transformed::no(expr));
            }
            let column = Column::new(schema.field(one.place).name(), one.place);
            Ok(Transformed::yes(Arc::new(column) as Arc<dyn PhysicalExpr>))
        });
        whole.data()
    }
}

impl OneColumn {
    /// For which of the values it holds; none if that cannot be said.
    fn decide(&self, runs: &Runs) -> Option<BooleanArray> {
        if is_volatile(&self.expr) {
            return None;
        }
        let values = RecordBatch::try_new(Arc::clone(&self.alone), vec![Arc::clone(&runs.values)]).ok()?;
        // An error may be of a value that no row has which the query wants.
        let kept = self.expr.evaluate(&values).ok()?.into_array(runs.values.len()).ok()?;
        as_boolean_array(&kept).ok().cloned()
    }
}

/// What two lists of ranges have in common. Both are in order, and the ranges of each apart.
fn common(a: &[Range<usize>], b: &[Range<usize>]) -> Vec<Range<usize>> {
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    let mut both = Vec::new();
    while let (Some(left), Some(right)) = (a.peek(), b.peek()) {
        let range = left.start.max(right.start)..left.end.min(right.end);
        if !range.is_empty() {
            both.push(range);
        }
        if left.end <= right.end {
            a.next();
        } else {
            b.next();
        }
    }
    both
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ranges_have_in_common() {
        let check = |a: &[Range<usize>], b: &[Range<usize>], expected: &[Range<usize>]| {
            assert_eq!(common(a, b), expected);
            assert_eq!(common(b, a), expected);
        };
        check(&[], &[0..5], &[]);
        check(&[0..5], &[5..7], &[]);
        check(&[0..5, 8..12], &[3..10], &[3..5, 8..10]);
        check(&[0..100], &[1..2, 50..60, 99..200], &[1..2, 50..60, 99..100]);
    }
}
