//! An operator that passes rows on, and claims less of them than its input does.

use std::sync::Arc;

use datafusion::physical_expr::{EquivalenceProperties, Partitioning};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties, PlanProperties};

use super::pass::{Pass, PassExec};

/// Which properties of its input a [`ForgetExec`] does not tell the operators above.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forgotten {
    /// The order of the rows.
    Order,
    /// Also which columns are constant, equal to others, or unique.
    Values,
    /// Also which values lie in which partition.
    Everything,
}

/// Passes rows on, and claims less of them. It stays in a plan while that runs: operators above derive from the claims of their
/// input how they compute, anew on each node that gets them.
pub type ForgetExec = PassExec<Forgotten>;

/// An operator that passes the rows of `input` on without these claims.
pub fn forget(input: Arc<dyn ExecutionPlan>, forgotten: Forgotten) -> Arc<dyn ExecutionPlan> {
    Arc::new(ForgetExec::new(input, forgotten))
}

/// What an operator forgets, if it does nothing else.
pub fn forgotten(operator: &dyn ExecutionPlan) -> Option<Forgotten> {
    operator.downcast_ref::<ForgetExec>().map(|forget| *forget.pass())
}

impl ForgetExec {
    /// Whether its input claims nothing that operators derive from how they compute. Unique columns are no such claim: they
    /// only let the planner leave out a sort.
    pub(super) fn is_idle(&self) -> bool {
        let known = self.input().equivalence_properties();
        let by_value = match self.input().output_partitioning() {
            Partitioning::UnknownPartitioning(_) | Partitioning::RoundRobinBatch(_) => false,
            Partitioning::Hash(..) | Partitioning::Range(_) => true,
        };
        let has_order = !known.oeq_class().is_empty();
        match self.pass() {
            Forgotten::Order => !has_order,
            Forgotten::Values => !has_order && known.eq_group().is_empty(),
            Forgotten::Everything => !has_order && known.eq_group().is_empty() && !by_value,
        }
    }
}

impl Pass for Forgotten {
    fn name(&self) -> &'static str {
        "ForgetExec"
    }

    fn detail(&self) -> Option<&'static str> {
        Some(match self {
            Self::Order => "order",
            Self::Values => "values",
            Self::Everything => "everything",
        })
    }

    fn anew(&self) -> Self {
        *self
    }

    fn claims(&self, input: &dyn ExecutionPlan) -> Arc<PlanProperties> {
        let known = match self {
            Self::Order => {
                let mut known = input.equivalence_properties().clone();
                known.clear_orderings();
                known
            }
            Self::Values | Self::Everything => EquivalenceProperties::new(input.schema()),
        };
        let partitions = match self {
            Self::Order | Self::Values => input.output_partitioning().clone(),
            Self::Everything => {
                Partitioning::UnknownPartitioning(input.output_partitioning().partition_count())
            }
        };
        let claims = PlanProperties::new(known, partitions, input.pipeline_behavior(), input.boundedness());
        Arc::new(claims.with_scheduling_type(input.properties().scheduling_type))
    }

    fn claims_order(&self) -> bool {
        false
    }

    fn lets_through(&self) -> bool {
        true
    }
}
