//! Where the parts of a planned query run.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;

use datafusion::execution::{SessionState, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use futures::future::BoxFuture;
use nyala_model::{NodeEntry, NodeId, SnapshotVersion};
use nyala_sql::error::Result;

use crate::query::options::SessionOptions;
use crate::query::plan::cost_class::CostClass;
use crate::query::resources::admission::Site;

/// What a query is placed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A client gets its rows.
    Answer,
    /// EXPLAIN shows where it would run, so that it is no load for any node.
    Shown,
    /// EXPLAIN ANALYZE runs it and shows what each operator did.
    Measured,
}

/// A query that is planned for this process.
pub struct PlannedQuery<'a> {
    /// Its operators.
    pub plan: Arc<dyn ExecutionPlan>,
    /// The logical plan that the operators were made from.
    pub logical: &'a LogicalPlan,
    /// The session state that the query was planned with.
    pub state: SessionState,
    /// How much work it is.
    pub class: CostClass,
    /// Whether it is computed, and not only shown.
    pub is_run: bool,
    /// Whether it reads so few rows that one node shall do all of it.
    pub reads_little: bool,
    /// Whether [`Placement::figures`] is asked for it.
    pub is_measured: bool,
    /// The nodes that read shared files now, and run the version of this one.
    pub executors: Vec<NodeEntry>,
    /// The versions of executors that can do no part of it, if there are no others.
    pub other_versions: BTreeSet<String>,
    /// What other nodes must know of its statement.
    pub statement: &'a (dyn Fn() -> StatementPart + Send + Sync),
}

/// The operators that answer a query, and what they are started with.
pub struct Placed {
    /// The operators.
    pub plan: Arc<dyn ExecutionPlan>,
    /// Settings and functions.
    pub task: Arc<TaskContext>,
    /// Whether other nodes do parts of it.
    pub is_spread: bool,
    /// For EXPLAIN: which nodes do parts of the query, or why no other node does. Empty without other nodes.
    pub note: String,
}

impl Placed {
    /// A query whose operators all run in this process.
    pub fn here(plan: Arc<dyn ExecutionPlan>, state: &SessionState) -> Self {
        Self { plan, task: state.task_ctx(), is_spread: false, note: String::new() }
    }

    /// Which threads it uses.
    pub fn site(&self) -> Site {
        if self.is_spread { Site::Spread } else { Site::Here }
    }

    /// Adds the reason why no other node does a part of the query.
    #[must_use]
    pub fn because(self, reason: impl Into<String>) -> Self {
        Self { note: reason.into(), ..self }
    }
}

/// Decides which nodes do which parts of a query, once it is planned. Queries by cached plans run in this process.
pub trait Placement: Debug + Send + Sync {
    /// The operators that are run here: those of the plan, or others that have parts of it done by other nodes. Dropping their
    /// streams ends those parts.
    fn place<'a>(&'a self, query: PlannedQuery<'a>) -> BoxFuture<'a, Result<Placed>>;

    /// What each operator did on each node, for a query that was placed to be measured and whose rows have ended: the sums of all tasks, or
    /// the figures of each task.
    fn figures<'a>(
        &'a self,
        plan: &'a dyn ExecutionPlan,
        of_each_task: bool,
    ) -> BoxFuture<'a, Result<String>>;
}

/// What a node is told of the statement that it does a part of.
#[derive(Debug, Clone)]
pub struct StatementPart {
    /// The node that answers the client.
    pub node: NodeId,
    /// The version of its program.
    pub program: String,
    /// The number of the statement there.
    pub query_id: u64,
    /// When it began, in milliseconds since the Unix epoch by that node's clock.
    pub begun_ms: u64,
    /// Its text, which shows no secrets.
    pub text: String,
    /// How much work it is.
    pub class: CostClass,
    /// The user and the client.
    pub options: SessionOptions,
    /// The settings of the session that have other values than at its start.
    pub settings: Vec<(String, String)>,
    /// The catalog that it was planned with; the other node must know it.
    pub version: SnapshotVersion,
}
