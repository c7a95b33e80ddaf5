//! Which of DataFusion's physical rules a plan needs.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::physical_expr::OrderingRequirements;
use datafusion::physical_optimizer::ensure_requirements::EnsureRequirements;
use datafusion::physical_optimizer::filter_pushdown::FilterPushdown;
use datafusion::physical_optimizer::limit_pushdown::LimitPushdown;
use datafusion::physical_optimizer::optimizer::{
    PhysicalOptimizer, PhysicalOptimizerContext, PhysicalOptimizerRule,
};
use datafusion::physical_optimizer::projection_pushdown::ProjectionPushdown;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::filter_pushdown::FilterPushdownPhase;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use nyala_cube::scan::{HotCuboidExec, HotGroupsExec};

use super::behind_filters::BehindFilters;
use super::context_rule::{ContextRule, PhysicalRule};
use super::false_claims::WithoutFalseClaims;
use super::filter_in_scan::FilterInScan;
use super::forget::ForgetExec;
use super::groups_in_scan::GroupsInScan;
use super::hide_casts::HideCasts;
use super::insert_yields::InsertYields;
use super::keys_by_place::KeysByPlace;
use super::push_filters::PushFilters;
use super::wrapped_physical_rule::PhysicalWrapper;
use super::yielding::check_statement;

/// All rules, as one: plans over memory skip the rules that cannot change them.
///
/// Each of some twenty rules walks the plan several times, which takes longer than to compute a few
/// thousand cells.
#[derive(Debug)]
pub struct PhysicalRules {
    all: Vec<PhysicalRule>,
    /// The rules for plans that are [plain](is_plain).
    few: Vec<PhysicalRule>,
}

impl PhysicalRules {
    pub fn new() -> Self {
        let mut all: Vec<PhysicalRule> =
            PhysicalOptimizer::new().rules.into_iter().map(override_of).collect();
        all.push(Arc::new(HideCasts));
        all.push(Arc::new(InsertYields));
        // No rule for plain plans relies on claims, but their aggregations do.
        let limits = WithoutFalseClaims.around(Arc::new(LimitPushdown::new()));
        Self { all, few: vec![limits, Arc::new(FilterInScan), Arc::new(GroupsInScan)] }
    }
}

impl ContextRule for PhysicalRules {
    fn run(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        context: &dyn PhysicalOptimizerContext,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let rules = if is_plain(plan.as_ref()) { &self.few } else { &self.all };
        rules.iter().try_fold(plan, |plan, rule| {
            check_statement()?;
            rule.optimize_with_context(plan, context).map_err(|error| error.context(rule.name()))
        })
    }

    fn name(&self) -> &str {
        "physical_rules"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The replacement of a rule of DataFusion that makes mistakes; other rules are returned as they are.
fn override_of(rule: PhysicalRule) -> PhysicalRule {
    let name = rule.name().to_owned();
    if name == ProjectionPushdown::new().name() {
        return BehindFilters.around(rule);
    }
    if name == EnsureRequirements::new().name() {
        return WithoutFalseClaims.around(KeysByPlace.around(rule));
    }
    if name == FilterPushdown::new().name() {
        return Arc::new(PushFilters { phase: FilterPushdownPhase::Pre, name });
    }
    if name == FilterPushdown::new_post_optimization().name() {
        return Arc::new(PushFilters { phase: FilterPushdownPhase::Post, name });
    }
    rule
}

/// Whether rows go from memory through one chain of operators in one partition. Then there is nothing to
/// divide, to exchange, to sort anew, to reorder or to push into files; and the scan itself checks
/// whether the query was cancelled.
pub fn is_plain(plan: &dyn ExecutionPlan) -> bool {
    if plan.output_partitioning().partition_count() != 1 {
        return false;
    }
    match plan.children()[..] {
        [] => plan.is::<HotCuboidExec>(),
        [child] => is_link(plan) && is_plain(child.as_ref()),
        _ => false,
    }
}

fn is_link(plan: &dyn ExecutionPlan) -> bool {
    let known = plan.is::<ProjectionExec>()
        || plan.is::<FilterExec>()
        || plan.is::<AggregateExec>()
        || plan.is::<HotGroupsExec>()
        || plan.is::<ForgetExec>()
        || plan.is::<SortExec>()
        || plan.is::<GlobalLimitExec>()
        || plan.is::<LocalLimitExec>();
    known
        && plan
            .required_input_ordering()
            .into_iter()
            .zip(plan.children())
            .all(|(required, child)| required.is_none_or(|required| has_order(child.as_ref(), required)))
}

/// Whether rows have the required order. Groups by a column that a condition makes constant are sorted.
fn has_order(plan: &dyn ExecutionPlan, required: OrderingRequirements) -> bool {
    plan.equivalence_properties().ordering_satisfy_requirement(required.into_single()).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_that_has_an_override_is_found() {
        let rules = format!("{:?}", PhysicalRules::new());
        let overrides =
            [("BehindFilters", 2), ("KeysByPlace", 1), ("PushFilters", 2), ("WithoutFalseClaims", 2)];
        for (rule, times) in overrides {
            assert_eq!(rules.matches(rule).count(), times, "{rule}: {rules}");
        }
        assert!(!rules.contains(" FilterPushdown"), "{rules}");
    }
}
