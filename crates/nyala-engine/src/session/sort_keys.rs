//! Sort keys that DataFusion would not recognise as sorted are columns.
//!
//! To find whether rows are in some order, DataFusion 55 asks each part of a key between which values it lies. CASE and most functions
//! answer with an interval without a type; `abs` and comparisons fail on that, as in `abs(a - 5)` and `length(t) > 3`. The failure
//! counts as "in no order", also right above a sort by the very key, and the plan is refused.
//!
//! A key such as `random()` would be computed by the sort, and once more by the window or the merge above it, which then find rows in
//! another order, or in other groups.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, Projection, Sort, Window};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalSortExpr, create_physical_expr};
use nyala_sql::semantics::is_volatile;

/// The plan with columns in the place of such keys of sorts, windows and ordered aggregates: projections below them compute these
/// columns, and projections above them leave them out.
pub fn keys_as_columns(plan: LogicalPlan, properties: &ExecutionProps) -> Result<LogicalPlan> {
    if !has_computed_keys(&plan)? {
        return Ok(plan);
    }
    let plan = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Sort(sort) => of_sort(sort, properties),
        LogicalPlan::Window(window) => of_window(window, properties),
        LogicalPlan::Aggregate(aggregate) => of_aggregate(aggregate, properties),
        other => Ok(Transformed::no(other)),
    })?;
    Ok(plan.data)
}

/// Whether any key is more than a column. Most plans have none, and are not rewritten.
fn has_computed_keys(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        let keys: Vec<&Expr> = match node {
            LogicalPlan::Sort(sort) => sort.expr.iter().map(|key| &key.expr).collect(),
            LogicalPlan::Window(window) => window.window_expr.iter().flat_map(keys_of).collect(),
            LogicalPlan::Aggregate(aggregate) => aggregate.aggr_expr.iter().flat_map(keys_of).collect(),
            _ => Vec::new(),
        };
        found |= !keys.into_iter().all(is_column);
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

fn is_column(key: &Expr) -> bool {
    matches!(key, Expr::Column(_) | Expr::Literal(..))
}

fn of_sort(mut sort: Sort, properties: &ExecutionProps) -> Result<Transformed<LogicalPlan>> {
    let keys = sort.expr.iter().map(|key| &key.expr);
    let Some(computed) = Computed::among(keys, sort.input.schema(), properties) else {
        return Ok(Transformed::no(LogicalPlan::Sort(sort)));
    };
    for key in &mut sort.expr {
        computed.replace(&mut key.expr);
    }
    let columns = columns_of(&sort.input);
    sort.input = computed.below(sort.input)?;
    let shown = Projection::try_new(columns, Arc::new(LogicalPlan::Sort(sort)))?;
    Ok(Transformed::yes(LogicalPlan::Projection(shown)))
}

fn of_window(window: Window, properties: &ExecutionProps) -> Result<Transformed<LogicalPlan>> {
    let keys = window.window_expr.iter().flat_map(keys_of);
    let Some(computed) = Computed::among(keys, window.input.schema(), properties) else {
        return Ok(Transformed::no(LogicalPlan::Window(window)));
    };
    let Window { input, mut window_expr, schema } = window;
    window_expr.iter_mut().for_each(|call| computed.replace_in(call));
    let shown = schema.columns().into_iter().map(Expr::Column).collect();
    let windows = Window::try_new(window_expr, computed.below(input)?)?;
    let shown = Projection::try_new(shown, Arc::new(LogicalPlan::Window(windows)))?;
    Ok(Transformed::yes(LogicalPlan::Projection(shown)))
}

fn of_aggregate(mut aggregate: Aggregate, properties: &ExecutionProps) -> Result<Transformed<LogicalPlan>> {
    let keys = aggregate.aggr_expr.iter().flat_map(keys_of);
    let Some(computed) = Computed::among(keys, aggregate.input.schema(), properties) else {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    };
    aggregate.aggr_expr.iter_mut().for_each(|call| computed.replace_in(call));
    aggregate.input = computed.below(aggregate.input)?;
    Ok(Transformed::yes(LogicalPlan::Aggregate(aggregate)))
}

fn columns_of(plan: &LogicalPlan) -> Vec<Expr> {
    plan.schema().columns().into_iter().map(Expr::Column).collect()
}

/// The keys by which a call has its rows sorted.
fn keys_of(call: &Expr) -> Vec<&Expr> {
    match call {
        Expr::Alias(alias) => keys_of(&alias.expr),
        Expr::AggregateFunction(call) => call.params.order_by.iter().map(|key| &key.expr).collect(),
        Expr::WindowFunction(call) => {
            let order_by = call.params.order_by.iter().map(|key| &key.expr);
            call.params.partition_by.iter().chain(order_by).collect()
        }
        _ => Vec::new(),
    }
}

fn keys_mut(call: &mut Expr) -> Vec<&mut Expr> {
    match call {
        Expr::Alias(alias) => keys_mut(&mut alias.expr),
        Expr::AggregateFunction(call) => call.params.order_by.iter_mut().map(|key| &mut key.expr).collect(),
        Expr::WindowFunction(call) => {
            let parameters = &mut call.params;
            let order_by = parameters.order_by.iter_mut().map(|key| &mut key.expr);
            parameters.partition_by.iter_mut().chain(order_by).collect()
        }
        _ => Vec::new(),
    }
}

/// Keys that become columns.
struct Computed(Vec<Expr>);

impl Computed {
    /// The keys of an operator by which rows would not be recognised as sorted; none if there is no such key.
    fn among<'a>(
        keys: impl Iterator<Item = &'a Expr>,
        schema: &DFSchema,
        properties: &ExecutionProps,
    ) -> Option<Self> {
        let mut computed: Vec<Expr> = Vec::new();
        for key in keys {
            if !computed.contains(key) && !is_recognised(key, schema, properties) {
                computed.push(key.clone());
            }
        }
        (!computed.is_empty()).then_some(Self(computed))
    }

    /// The input of the operator, with the columns behind its own.
    fn below(&self, input: Arc<LogicalPlan>) -> Result<Arc<LogicalPlan>> {
        let computed = self.0.iter().enumerate().map(|(at, key)| key.clone().alias(name_of(at)));
        let columns = columns_of(&input).into_iter().chain(computed).collect();
        Ok(Arc::new(LogicalPlan::Projection(Projection::try_new(columns, input)?)))
    }

    /// Puts the column in the place of a key; whether there is one.
    fn replace(&self, key: &mut Expr) -> bool {
        let Some(at) = self.0.iter().position(|computed| *computed == *key) else { return false };
        *key = Expr::Column(Column::new_unqualified(name_of(at)));
        true
    }

    /// Puts columns in the place of keys of a call, which keeps its name.
    fn replace_in(&self, call: &mut Expr) {
        let (relation, name) = call.qualified_name();
        let mut is_changed = false;
        for key in keys_mut(call) {
            is_changed |= self.replace(key);
        }
        if is_changed && !matches!(call, Expr::Alias(_)) {
            *call = std::mem::take(call).alias_qualified(relation, name);
        }
    }
}

fn name_of(at: usize) -> String {
    format!("__sort_key_{at}")
}

/// Whether DataFusion recognises that rows are sorted by a key. A key that is planned with more than its input, such as a subquery, is
/// left alone.
fn is_recognised(key: &Expr, schema: &DFSchema, properties: &ExecutionProps) -> bool {
    if is_column(key) {
        return true;
    }
    if is_volatile(key) {
        return false;
    }
    let context = PhysicalPlanningContext::default();
    let Ok(key) = create_physical_expr(key, schema, properties, &context) else { return true };
    let key = PhysicalSortExpr::new_default(key);
    let sorted = EquivalenceProperties::new_with_orderings(Arc::clone(schema.inner()), [[key.clone()]]);
    sorted.ordering_satisfy([key]).unwrap_or(true)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use datafusion::functions::math::expr_fn::{abs, random};
    use datafusion::logical_expr::{LogicalPlanBuilder, case, col, lit};

    use super::*;

    fn sorted_by(key: Expr) -> LogicalPlan {
        let rows = LogicalPlanBuilder::values(vec![vec![lit(1_i32), lit(2_i32)]]).unwrap();
        rows.sort([key.sort(true, false), col("column2").sort(false, false)]).unwrap().build().unwrap()
    }

    fn shown(key: Expr) -> String {
        keys_as_columns(sorted_by(key), &ExecutionProps::new()).unwrap().to_string()
    }

    #[test]
    fn a_key_that_would_not_be_recognised_is_a_column() {
        let key = || case(col("column1")).when(lit(1_i32), lit(2_i32)).otherwise(lit(3_i32)).unwrap();
        for key in [abs(key()), key().gt(lit(1_i32)), random()] {
            let plan = shown(key.clone());
            assert!(plan.contains("Sort: __sort_key_0 ASC NULLS LAST, column2 DESC"), "{plan}");
            assert!(plan.starts_with("Projection: column1, column2\n"), "{plan}");
            assert!(plan.contains(&format!("column1, column2, {key} AS __sort_key_0")), "{plan}");
        }
    }

    #[test]
    fn other_keys_stay() {
        for key in [col("column1"), col("column1") + col("column2"), abs(col("column1") - lit(1_i32))] {
            assert_eq!(shown(key.clone()), sorted_by(key).to_string());
        }
    }
}
