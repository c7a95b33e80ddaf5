//! Conditions on rows that a scan checks itself.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, AsArray};
use arrow::buffer::BooleanBuffer;
use arrow::compute::prep_null_mask_filter;
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, Column, DynamicFilterTracking, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal,
    NotExpr,
};
use datafusion::physical_expr::simplifier::PhysicalExprSimplifier;
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use datafusion::physical_expr::{PhysicalExpr, conjunction, split_conjunction};
use datafusion::physical_expr_common::physical_expr::snapshot_physical_expr;
use datafusion::physical_optimizer::pruning::{PruningPredicate, PruningPredicateBuilder};
use datafusion::physical_plan::filter_pushdown::PushedDown;

/// Conditions in terms of the columns of a scan.
#[derive(Debug, Clone, Default)]
pub struct Conditions {
    /// Conditions that every row of the output fulfils.
    fixed: Vec<Arc<dyn PhysicalExpr>>,
    /// Dynamic filters, which operators above narrow while they run. These operators need no rows that fail them, but tolerate some.
    moving: Vec<Arc<dyn PhysicalExpr>>,
}

impl Conditions {
    /// Takes a condition over, if checking it on any row cannot fail.
    pub(super) fn take(&mut self, condition: Arc<dyn PhysicalExpr>) -> PushedDown {
        if DynamicFilterTracking::classify(&condition).contains_dynamic_filter() {
            self.moving.push(condition);
        } else if cannot_fail(&condition) {
            self.fixed.push(condition);
        } else {
            return PushedDown::No;
        }
        PushedDown::Yes
    }

    /// The fixed conditions alone.
    pub(super) fn only_fixed(&self) -> Self {
        Self { fixed: self.fixed.clone(), moving: Vec::new() }
    }

    pub(super) fn has_fixed(&self) -> bool {
        !self.fixed.is_empty()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.fixed.is_empty() && self.moving.is_empty()
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Arc<dyn PhysicalExpr>> {
        self.fixed.iter().chain(&self.moving)
    }

    /// The opposite of the fixed conditions, for bounds: in a part that it rules out, every row fulfils them. None if bounds
    /// decide no part of it.
    pub(super) fn counterpart(&self, schema: &SchemaRef) -> Result<Option<Arc<PruningPredicate>>> {
        if self.fixed.is_empty() {
            return Ok(None);
        }
        let all = conjunction(self.fixed.iter().cloned());
        let mut counterpart: Arc<dyn PhysicalExpr> = Arc::new(NotExpr::new(Arc::clone(&all)));
        // A row for which the conditions are null does not fulfil them.
        for column in collect_columns(&all) {
            let null = Arc::new(IsNullExpr::new(Arc::new(column)));
            counterpart = Arc::new(BinaryExpr::new(counterpart, Operator::Or, null));
        }
        let counterpart = PhysicalExprSimplifier::new(schema).simplify(counterpart)?;
        Ok(PruningPredicateBuilder::new().with_file_schema(Arc::clone(schema)).build(counterpart))
    }

    /// Positions of the columns that the conditions read.
    pub(super) fn columns(&self) -> BTreeSet<usize> {
        self.all().flat_map(collect_columns).map(|column| column.index()).collect()
    }
}

impl fmt::Display for Conditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, condition) in self.all().enumerate() {
            write!(f, "{}{condition}", if at == 0 { "" } else { " AND " })?;
        }
        Ok(())
    }
}

/// Whether evaluating a condition never fails. It is evaluated on dead rows, and on rows that other conditions rule out, where
/// `100 / x > 7` could divide by zero.
fn cannot_fail(condition: &Arc<dyn PhysicalExpr>) -> bool {
    let is_known = match condition.downcast_ref::<BinaryExpr>() {
        Some(binary) => matches!(
            binary.op(),
            Operator::And
                | Operator::Or
                | Operator::Eq
                | Operator::NotEq
                | Operator::Lt
                | Operator::LtEq
                | Operator::Gt
                | Operator::GtEq
                | Operator::IsDistinctFrom
                | Operator::IsNotDistinctFrom
        ),
        None => {
            condition.is::<Column>()
                || condition.is::<Literal>()
                || condition.is::<NotExpr>()
                || condition.is::<IsNullExpr>()
                || condition.is::<IsNotNullExpr>()
                || condition.is::<InListExpr>()
                || condition.downcast_ref::<LikeExpr>().is_some_and(|like| like.pattern().is::<Literal>())
        }
    };
    is_known && condition.children().into_iter().all(cannot_fail)
}

/// The conditions of a scan while it reads rows.
#[derive(Debug)]
pub struct Checks {
    /// The columns that the conditions read.
    seen: SchemaRef,
    fixed: Option<Arc<dyn PhysicalExpr>>,
    moving: Option<Arc<dyn PhysicalExpr>>,
    tracking: DynamicFilterTracking,
    now: Now,
}

/// The dynamic filters as they are now.
#[derive(Debug, Default)]
struct Now {
    condition: Option<Arc<dyn PhysicalExpr>>,
    /// The filters in terms of bounds, made when the next part is opened.
    bounds: OnceCell<Option<Arc<PruningPredicate>>>,
}

impl Checks {
    /// Checks of rows with the columns `seen`, which the conditions read.
    pub fn new(conditions: &Conditions, seen: SchemaRef) -> Result<Self> {
        let of_seen = |conditions: &[Arc<dyn PhysicalExpr>]| {
            let all = (!conditions.is_empty()).then(|| conjunction(conditions.iter().cloned()));
            all.map(|all| reassign_expr_columns(all, &seen)).transpose()
        };
        let (fixed, moving) = (of_seen(&conditions.fixed)?, of_seen(&conditions.moving)?);
        let tracking = moving.as_ref().map_or(DynamicFilterTracking::Static, DynamicFilterTracking::classify);
        let now = Now::of(moving.as_ref())?;
        Ok(Self { seen, fixed, moving, tracking, now })
    }

    /// The dynamic filters as they are now, in terms of the bounds of parts.
    pub fn bounds(&mut self) -> Result<Option<&PruningPredicate>> {
        self.refresh()?;
        let now = &self.now;
        let bounds = now.bounds.get_or_init(|| {
            let builder = PruningPredicateBuilder::new().with_file_schema(Arc::clone(&self.seen));
            builder.build(Arc::clone(now.condition.as_ref()?))
        });
        Ok(bounds.as_deref())
    }

    /// Takes over what operators above have narrowed.
    pub fn refresh(&mut self) -> Result<()> {
        if self.tracking.watcher().is_some_and(|watcher| watcher.changed()) {
            self.now = Now::of(self.moving.as_ref())?;
        }
        Ok(())
    }

    /// Bit 1 for every row that fulfils all conditions; none if there are no conditions. If it is `certain` that all rows
    /// fulfil the fixed conditions, these are not evaluated.
    pub fn chosen(&self, rows: &RecordBatch, certain: bool) -> Result<Option<BooleanBuffer>> {
        let mut chosen: Option<BooleanBuffer> = None;
        for condition in self.fixed.iter().filter(|_| !certain).chain(&self.now.condition) {
            if chosen.as_ref().is_some_and(|chosen| chosen.count_set_bits() == 0) {
                break;
            }
            let holds = holds(condition, rows)?;
            chosen = Some(match chosen {
                Some(chosen) => &chosen & &holds,
                None => holds,
            });
        }
        Ok(chosen)
    }
}

impl Now {
    fn of(moving: Option<&Arc<dyn PhysicalExpr>>) -> Result<Self> {
        let Some(moving) = moving else { return Ok(Self::default()) };
        let moving = snapshot_physical_expr(Arc::clone(moving))?;
        let parts =
            split_conjunction(&moving).into_iter().filter(|part| cannot_fail(part) && !part.is::<Literal>());
        let parts: Vec<_> = parts.cloned().collect();
        if parts.is_empty() {
            return Ok(Self::default());
        }
        Ok(Self { condition: Some(conjunction(parts)), bounds: OnceCell::new() })
    }
}

/// Bit 1 for every row for which the condition is true: not false, not null.
fn holds(condition: &Arc<dyn PhysicalExpr>, rows: &RecordBatch) -> Result<BooleanBuffer> {
    let value = condition.evaluate(rows)?.into_array(rows.num_rows())?;
    let value = value.as_boolean_opt().ok_or_else(|| {
        DataFusionError::Internal(format!("a condition has type {}: {condition}", value.data_type()))
    })?;
    Ok(match value.null_count() {
        0 => value.values().clone(),
        _ => prep_null_mask_filter(value).values().clone(),
    })
}
