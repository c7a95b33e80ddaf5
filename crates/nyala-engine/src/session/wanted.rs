//! Whether anybody waits for the plan that a thread makes.
//!
//! DataFusion plans in one go, without a place to wait: a statement that was cancelled or timed out would keep its planning thread to
//! the end. So rules ask before they begin, and those that go node by node before each node.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Weak};

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::{AnalyzerRule, ApplyOrder, OptimizerConfig, OptimizerRule};

use crate::error::QueryError;

thread_local! {
    static WANTED: RefCell<Option<Weak<()>>> = const { RefCell::new(None) };
}

/// `work`, which ends with an error at the next rule once `wanted` is dropped.
pub(crate) async fn while_wanted<F: Future>(wanted: Weak<()>, work: F) -> F::Output {
    let mut work = pin!(work);
    poll_fn(|context| {
        let before = WANTED.replace(Some(wanted.clone()));
        let polled = work.as_mut().poll(context);
        WANTED.set(before);
        polled
    })
    .await
}

/// An error if nobody waits for what this thread plans.
pub(crate) fn check_wanted() -> Result<()> {
    let is_wanted =
        |wanted: &Option<Weak<()>>| wanted.as_ref().is_none_or(|wanted| wanted.strong_count() > 0);
    match WANTED.with_borrow(is_wanted) {
        true => Ok(()),
        false => Err(QueryError::cancelled().into()),
    }
}

/// A rule of the analyzer that is not begun for nobody.
#[derive(Debug)]
pub(super) struct WantedAnalysis(pub(super) Arc<dyn AnalyzerRule + Send + Sync>);

impl AnalyzerRule for WantedAnalysis {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        check_wanted()?;
        self.0.analyze(plan, config)
    }
}

/// A rule of the optimizer that is not begun, nor goes on to the next node, for nobody.
#[derive(Debug)]
pub(super) struct WantedRule(pub(super) Arc<dyn OptimizerRule + Send + Sync>);

impl OptimizerRule for WantedRule {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        check_wanted()?;
        self.0.rewrite(plan, config)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[tokio::test]
    async fn planning_ends_at_the_next_rule_once_nobody_waits() {
        let wanted = Arc::new(());
        let left = Arc::downgrade(&wanted);
        let work = async move {
            check_wanted().unwrap();
            drop(wanted);
            check_wanted()
        };
        assert!(while_wanted(left, work).await.is_err());
        assert!(check_wanted().is_ok(), "only the work itself is asked");
    }
}
