//! Divides planned queries among the nodes.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::LogicalPlan;
use datafusion::logical_expr::LogicalPlanBuilder;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_distributed::{
    DistributedConfig, DistributedExec, DistributedExt, NetworkBoundaryExt, SessionStateBuilderExt, Worker,
};
use futures::FutureExt;
use futures::future::BoxFuture;
use nyala_engine::{
    PassExec, Placed, Placement, PlannedQuery, QueryError, SessionExtension, VERSION, insert_yields,
    remove_yields,
};
use nyala_model::{CatalogSnapshot, NodeEntry, NodeId};

use super::balance::Balance;
use super::channels::Channels;
use super::codec::Codec;
use super::ends::NotesEnd;
use super::executors::{Executors, url_of};
use super::leaves::{divide, route, task_count};
use super::once::limits_below_joins;
use super::spread::SpreadExec;
use super::whole::{WholeOn, as_one_task, bytes_at_home, bytes_read};
use super::windows::sorted_by_all_keys;
use super::{headers, measure, once, portable};

/// Bytes that a node receives ahead from each task of another: memory that no pool limits.
const BYTES_AHEAD: usize = 4 << 20;

/// The placement of queries on this node.
pub struct Distribution {
    own: NodeId,
    address: String,
    channels: Channels,
    worker: Worker,
    planner: Arc<dyn QueryPlanner + Send + Sync>,
    balance: Balance,
}

impl fmt::Debug for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Distribution").field("own", &self.own).finish_non_exhaustive()
    }
}

impl Distribution {
    /// The placement of a node that others reach at `address`; `worker` does this node's own part.
    pub fn new(own: NodeId, address: String, channels: Channels, worker: Worker) -> Self {
        let builder = SessionStateBuilder::new().with_query_planner(Arc::new(AsPlanned));
        let state = builder.with_distributed_planner().build();
        let planner = Arc::clone(state.query_planner());
        Self { own, address, channels, worker, planner, balance: Balance::default() }
    }

    /// The query, divided among the nodes, or the reason why it is not.
    async fn divided(&self, query: &PlannedQuery<'_>) -> Result<std::result::Result<Placed, String>> {
        let plan = &query.plan;
        if !portable::reads_shared_files(plan.as_ref()) {
            return Ok(Err("it reads more than Parquet files in buckets".to_owned()));
        }
        let nodes = self.nodes(&query.executors);
        if nodes.iter().all(|node| node.id == self.own) {
            return Ok(Err(no_other(&query.other_versions)));
        }
        let bare = remove_yields(Arc::clone(plan))?;
        if query.reads_little {
            return self.on_one(bare, query, &nodes, "it reads few rows");
        }
        // A node that is no executor reads no files if another one can.
        if let [_] = nodes.as_slice() {
            return self.on_one(bare, query, &nodes, "no other is an executor now");
        }
        let bare = limits_below_joins(sorted_by_all_keys(portable::widened(bare)?)?)?;
        if let Err(reason) = portable::check(&bare, query.logical, &query.state) {
            return Ok(Err(reason.to_string()));
        }
        let mut state = query.state.clone();
        let executors = Executors::new(&nodes)?;
        self.configure(state.config_mut(), &executors, query)?;
        let divided = self.divide(bare, &mut state).await?;
        if !divided.is::<DistributedExec>() {
            return Ok(Err("no operator can be divided".to_owned()));
        }
        if let Err(reason) = once::check(divided.as_ref()) {
            return Ok(Err(reason.to_string()));
        }
        let names: Vec<&str> = nodes.iter().map(|node| node.id.0.as_str()).collect();
        self.placed(divided, &state, query.is_measured, names.join(", ")).map(Ok)
    }

    /// Places all of the query on one node, for this reason. Queries over the same files go to the same node until it was given too much to
    /// read; a node that is chosen then asks that node's cache for the blocks that its own lacks.
    fn on_one(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        query: &PlannedQuery<'_>,
        nodes: &[NodeEntry],
        reason: &str,
    ) -> Result<std::result::Result<Placed, String>> {
        if let Err(reason) = portable::check(&plan, query.logical, &query.state) {
            return Ok(Err(reason.to_string()));
        }
        let executors = Executors::new(nodes)?;
        let at_home = bytes_at_home(plan.as_ref(), &executors)?;
        let bytes = if query.is_run { bytes_read(plan.as_ref()) } else { 0 };
        let ids: Vec<NodeId> = nodes.iter().map(|node| node.id.clone()).collect();
        let chosen = self.balance.choose(&ids, &at_home, bytes, Instant::now());
        let Some((number, node)) = chosen.and_then(|number| Some((number, ids.get(number)?))) else {
            return Ok(Err(no_other(&query.other_versions)));
        };
        if *node == self.own {
            return Ok(Err(reason.to_owned()));
        }
        let mut state = query.state.clone();
        self.configure(state.config_mut(), &executors, query)?;
        state.config_mut().set_extension(Arc::new(WholeOn(number)));
        let task = as_one_task(plan, query.is_measured)?;
        self.placed(task, &state, query.is_measured, format!("{node} alone: {reason}")).map(Ok)
    }

    fn placed(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        state: &SessionState,
        is_measured: bool,
        note: String,
    ) -> Result<Placed> {
        let has_ended = Arc::new(AtomicBool::new(false));
        let plan = if is_measured { measure::with_marks(plan)? } else { plan };
        let plan = with_yields(plan, &has_ended)?;
        let plan = Arc::new(SpreadExec::new(plan, self.channels.clone(), has_ended));
        Ok(Placed { plan, task: state.task_ctx(), is_spread: true, note })
    }

    /// The executors, but for nodes to which the connection broke within the last ten seconds; all executors if it broke to each.
    fn nodes(&self, executors: &[NodeEntry]) -> Vec<NodeEntry> {
        let fine: Vec<NodeEntry> =
            executors.iter().filter(|node| !self.channels.is_avoided(&node.id)).cloned().collect();
        if fine.is_empty() { executors.to_vec() } else { fine }
    }

    fn configure(
        &self,
        config: &mut SessionConfig,
        executors: &Executors,
        query: &PlannedQuery<'_>,
    ) -> Result<()> {
        config.set_distributed_option_extension(options(query.is_measured));
        config.set_distributed_worker_resolver(executors.clone());
        config.set_extension(Arc::new(executors.clone()));
        config.set_distributed_channel_resolver(self.channels.clone());
        config.set_distributed_user_codec(Codec);
        config.set_distributed_passthrough_headers(headers::write((query.statement)())?)?;
        config.set_distributed_desired_task_count_handler(task_count);
        config.set_distributed_scale_up_leaf_node_handler(divide);
        config.set_distributed_route_tasks_handler(route);
        let own = url_of(&self.own, &self.address)?;
        if executors.urls().contains(&own) {
            config.set_distributed_local_worker_context(self.worker.to_local_worker_context(own));
        }
        Ok(())
    }

    async fn divide(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        state: &mut SessionState,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        state.config_mut().set_extension(Arc::new(Given(plan)));
        let nothing = LogicalPlanBuilder::empty(false).build()?;
        self.planner.create_physical_plan(&nothing, state).await
    }
}

impl Placement for Distribution {
    fn place<'a>(
        &'a self,
        query: PlannedQuery<'a>,
    ) -> BoxFuture<'a, std::result::Result<Placed, QueryError>> {
        async move {
            // What cannot be divided can still be computed.
            let divided = self.divided(&query).await.unwrap_or_else(|error| Err(error.to_string()));
            Ok(divided.unwrap_or_else(|reason| {
                Placed::here(query.plan, &query.state).because(format!("this node alone: {reason}"))
            }))
        }
        .boxed()
    }

    fn figures<'a>(
        &'a self,
        plan: &'a dyn ExecutionPlan,
        of_each_task: bool,
    ) -> BoxFuture<'a, std::result::Result<String, QueryError>> {
        async move {
            let Some(spread) = plan.downcast_ref::<SpreadExec>() else {
                return Err(QueryError::internal("the query is of this node alone"));
            };
            measure::figures(spread.input(), of_each_task).await.map_err(QueryError::from)
        }
        .boxed()
    }
}

/// How datafusion-distributed divides a query, and sends rows.
fn options(is_measured: bool) -> DistributedConfig {
    let mut options = DistributedConfig::default();
    // With isolated inputs, a UNION would have fewer tasks than there are nodes, and parts of files would be read away from their homes.
    options.children_isolator_unions = false;
    // Tasks that are counted while the query runs may be fewer than the nodes, too, and EXPLAIN could not show them.
    options.dynamic_task_count = false;
    options.collect_metrics = is_measured;
    "none".clone_into(&mut options.compression);
    options.worker_connection_buffer_budget_bytes = BYTES_AHEAD;
    options
}

/// Why no other node does a part of a query.
fn no_other(other_versions: &BTreeSet<String>) -> String {
    let others: Vec<&str> = other_versions.iter().map(String::as_str).collect();
    match others.is_empty() {
        true => "no other is an executor now".to_owned(),
        false => format!("the other executors run version {}, and this node {VERSION}", others.join(", ")),
    }
}

/// The operators of this node's own stage, with places to yield; those of the other stages get theirs where they run.
fn with_yields(plan: Arc<dyn ExecutionPlan>, has_ended: &Arc<AtomicBool>) -> Result<Arc<dyn ExecutionPlan>> {
    let stages = plan.children().into_iter().cloned();
    let stages = stages.map(|stage| -> Result<Arc<dyn ExecutionPlan>> {
        let stage = insert_yields(stage, &|operator| is_boundary(operator))?;
        Ok(Arc::new(PassExec::new(stage, NotesEnd(Arc::clone(has_ended)))))
    });
    let stages = stages.collect::<Result<Vec<_>>>()?;
    replace_children_if_necessary(plan, stages)
}

pub fn is_boundary(operator: &dyn ExecutionPlan) -> bool {
    operator.is_network_boundary()
}

/// The operators to be divided, on their way through datafusion-distributed, which takes a logical plan.
#[derive(Debug)]
struct Given(Arc<dyn ExecutionPlan>);

/// A query planner that returns the operators in [`Given`].
#[derive(Debug)]
struct AsPlanned;

#[async_trait]
impl QueryPlanner for AsPlanned {
    async fn create_physical_plan(
        &self,
        _: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match session.config().get_extension::<Given>() {
            Some(given) => Ok(Arc::clone(&given.0)),
            None => internal_err!("no operators are given"),
        }
    }
}

/// Plans sessions so that other nodes can take parts of their queries.
#[derive(Debug)]
pub struct PlannedForNodes;

impl SessionExtension for PlannedForNodes {
    fn configure(&self, mut builder: SessionStateBuilder) -> Result<SessionStateBuilder> {
        let options = builder.config().get_or_insert_default().options_mut();
        // datafusion-distributed knows no operators that evaluate a subquery within an expression.
        options.optimizer.enable_physical_uncorrelated_scalar_subquery = false;
        // A scan that is planned in one partition cannot always be divided (`portable::widened`).
        options.optimizer.repartition_file_min_size = 0;
        options.execution.target_partitions = options.execution.target_partitions.max(2);
        Ok(builder)
    }

    fn install(&self, _: &SessionContext, _: &Arc<CatalogSnapshot>) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use arrow::datatypes::Schema;
    use datafusion::execution::TaskContext;
    use datafusion::physical_plan::empty::EmptyExec;
    use datafusion_distributed::{RouteTasksEvent, get_distributed_worker_resolver};
    use nyala_engine::{CostClass, SessionOptions, StatementPart};
    use nyala_model::SnapshotVersion;
    use tokio::runtime::Handle;

    use super::*;
    use crate::connection::Peers;
    use crate::identity::Identity;

    fn statement() -> StatementPart {
        StatementPart {
            node: NodeId("a".to_owned()),
            program: VERSION.to_owned(),
            query_id: 7,
            begun_ms: 1,
            text: "SELECT 1".to_owned(),
            class: CostClass::Long,
            options: SessionOptions::default(),
            settings: Vec::new(),
            version: SnapshotVersion(1),
        }
    }

    /// datafusion-distributed asks for the nodes when it plans a query and again when it routes the tasks: by then there may be more or fewer.
    #[tokio::test]
    async fn planning_and_routing_know_the_same_nodes() {
        let all = ["a", "b", "c"].map(|name| NodeEntry {
            id: NodeId(name.to_owned()),
            address: "127.0.0.1:7433".to_owned(),
            ..NodeEntry::default()
        });
        let own = NodeId("a".to_owned());
        let identity = Identity::new("0123456789abcdef0123456789abcdef", &own).unwrap();
        let channels = Channels::new(Arc::new(Peers::new(&identity, Handle::current())));
        let address = "127.0.0.1:7433".to_owned();
        let distribution = Distribution::new(own, address, channels.clone(), Worker::default());
        let plan: Arc<dyn ExecutionPlan> = Arc::new(EmptyExec::new(Arc::new(Schema::empty())));
        let query = PlannedQuery {
            plan: Arc::clone(&plan),
            logical: &LogicalPlanBuilder::empty(false).build().unwrap(),
            state: SessionStateBuilder::new().with_default_features().build(),
            class: CostClass::Long,
            is_run: true,
            reads_little: false,
            is_measured: false,
            executors: all.to_vec(),
            other_versions: BTreeSet::new(),
            statement: &statement,
        };
        let executors = Executors::new(&distribution.nodes(&query.executors)).unwrap();
        let mut config = query.state.config().clone();
        distribution.configure(&mut config, &executors, &query).unwrap();
        let planned = get_distributed_worker_resolver(&config).unwrap().get_urls().unwrap();
        assert_eq!(planned.len(), 3);

        // A connection breaks between planning and routing.
        channels.note_broken(&NodeId("b".to_owned()));
        assert_eq!(distribution.nodes(&query.executors).len(), 2, "the next query does without it");
        assert_eq!(get_distributed_worker_resolver(&config).unwrap().get_urls().unwrap(), planned);
        let task_ctx = Arc::new(TaskContext::default().with_session_config(config));
        let routed = route(RouteTasksEvent { task_ctx, plan: &plan, task_count: planned.len() });
        assert_eq!(routed.unwrap().unwrap().urls, planned);
    }

    #[test]
    fn every_executor_has_a_task_and_little_is_taken_ahead() {
        let options = options(false);
        assert!(!options.dynamic_task_count, "tasks are counted before a query runs");
        assert!(!options.children_isolator_unions && options.max_tasks_per_stage == 0);
        assert_eq!(options.worker_connection_buffer_budget_bytes, 4 << 20);
        assert_eq!((options.compression.as_str(), options.collect_metrics), ("none", false));
    }
}
