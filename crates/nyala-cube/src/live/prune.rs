//! Finds the parts of a live table that a filter can match, by the bounds of their values.

use std::collections::HashSet;
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
use datafusion::physical_expr::create_physical_expr;
use datafusion::physical_optimizer::pruning::{PruningPredicate, PruningPredicateBuilder};
use nyala_sql::semantics::pruning::ordered_part;
use nyala_storage::oplog::{Part, Version};

/// The filter in terms of bounds; none if bounds decide no part of it.
pub fn predicate(
    filters: &[Expr],
    schema: &SchemaRef,
    session: &dyn Session,
) -> Result<Option<Arc<PruningPredicate>>> {
    let Some(filter) = conjunction(filters.iter().cloned()) else { return Ok(None) };
    let names = DFSchema::try_from(Arc::clone(schema))?;
    let context = PhysicalPlanningContext::default();
    let filter = create_physical_expr(&filter, &names, session.execution_props(), &context)?;
    let filter = ordered_part(&filter, schema);
    Ok(PruningPredicateBuilder::new().with_file_schema(Arc::clone(schema)).build(filter))
}

/// Which of the parts may have rows that fulfil `predicate`: all parts, if evaluating it fails. It may fail for a bound that is
/// the value of a row which other conditions rule out. No value is read for this.
pub fn kept(version: &Version, parts: &[Part], predicate: &PruningPredicate) -> Vec<bool> {
    let kept = predicate.prune(&Parts { version, schema: version.schema(), parts });
    kept.unwrap_or_else(|_| vec![true; parts.len()])
}

/// The bounds of parts, as DataFusion asks for them.
struct Parts<'a> {
    version: &'a Version,
    schema: SchemaRef,
    parts: &'a [Part],
}

impl Parts<'_> {
    fn bounds(&self, column: &Column) -> Option<nyala_storage::oplog::Bounds> {
        let position = self.schema.index_of(&column.name).ok()?;
        self.version.bounds(self.parts, position).ok()
    }
}

impl PruningStatistics for Parts<'_> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        self.bounds(column).map(|bounds| bounds.lows)
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        self.bounds(column).map(|bounds| bounds.highs)
    }

    fn num_containers(&self) -> usize {
        self.parts.len()
    }

    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        self.bounds(column).map(|bounds| Arc::new(bounds.nulls) as _)
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        let counts = self.parts.iter().map(|part| part.rows() as u64);
        Some(Arc::new(UInt64Array::from_iter_values(counts)))
    }

    fn contained(&self, _column: &Column, _values: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        None
    }
}
