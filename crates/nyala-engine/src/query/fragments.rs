//! Parts of queries that other nodes have sent: each is listed, accounted and ended like a statement of this node.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use datafusion::error::{DataFusionError, Result};
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::physical_plan::ExecutionPlan;
use nyala_model::{NodeId, QualifiedName, SnapshotVersion};
use nyala_runtime::{DroppedSoon, Scope};
use nyala_sql::error::QueryError;
use nyala_sql::semantics::unnamed_functions;
use tokio_util::sync::CancellationToken;

use super::activity::Running;
use super::nodes::not_reached;
use super::resources::memory;
use crate::session::{Settings, SnapshotContext};

/// What this node does for one statement of another: all tasks of it together.
#[derive(Debug)]
pub struct Fragment {
    pub(super) running: Running,
    pub(super) context: Arc<SnapshotContext>,
    pub(super) settings: Settings,
    pub(super) runtime: Arc<RuntimeEnv>,
    /// Cancelled by KILL QUERY, and when the node stops.
    pub(super) cancel: CancellationToken,
    pub(super) stopping: Stopping,
    /// Frees the memory of the tasks soon after they ended: datafusion-distributed keeps them in a map of moka.
    pub(super) _dropped_soon: DroppedSoon,
}

/// Tells whether this node stops.
#[derive(Debug, Clone)]
pub struct Stopping {
    pub node: NodeId,
    pub token: CancellationToken,
}

impl Stopping {
    /// Why work for another node ends when its token is cancelled: if this node stops, another may do it.
    pub fn reason(&self) -> QueryError {
        match self.token.is_cancelled() {
            true => not_reached(&self.node, "it is stopping"),
            false => QueryError::cancelled(),
        }
    }
}

impl Fragment {
    /// Settings and functions of the statement's session, over the snapshot that it was planned with or a newer one.
    ///
    /// # Errors
    /// A function cannot be registered.
    pub fn state(&self) -> Result<SessionState> {
        let mut state = self.context.state(&self.settings);
        let (functions, aggregate) = unnamed_functions();
        for function in functions {
            state.register_udf(Arc::clone(function))?;
        }
        state.register_udaf(aggregate)?;
        Ok(state)
    }

    /// Memory and stores.
    pub fn runtime(&self) -> &Arc<RuntimeEnv> {
        &self.runtime
    }

    /// The scope of its tasks.
    pub fn scope(&self) -> Scope {
        self.running.scope()
    }

    /// Waits until the statement must end.
    pub async fn must_end(&self) -> DataFusionError {
        let error: QueryError = tokio::select! {
            () = self.cancel.cancelled() => self.stopping.reason(),
            ended = self.running.entry().account().ended() => ended.into(),
        };
        error.into()
    }

    /// Whether a part failed for lack of memory that other statements hold. Then another attempt may succeed.
    pub fn lacked_memory(&self, error: &DataFusionError) -> bool {
        memory::is_held_by_others(error, self.runtime.memory_pool.as_ref(), self.running.entry())
    }

    /// A scan that another node has sent, with the readers of this one.
    ///
    /// # Errors
    /// The table is another one here.
    pub fn adopt(
        &self,
        table: &QualifiedName,
        scan: &dyn ExecutionPlan,
        tags: Vec<Option<String>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.context.external(table)?.adopt(scan, tags, &self.context.state(&self.settings))
    }
}

impl Drop for Fragment {
    fn drop(&mut self) {
        // The node that answers the client counts and logs the statement.
        self.running.listed().hand_over();
    }
}

/// A statement of another node, as it was planned.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key {
    pub node: NodeId,
    pub query_id: u64,
    /// When the statement began. Numbers of statements begin anew when a node starts.
    pub begun_ms: u64,
    pub version: SnapshotVersion,
}

/// The statements of other nodes that this one does parts of.
#[derive(Debug, Default)]
pub struct Fragments {
    known: Mutex<HashMap<Key, Weak<Fragment>>>,
}

impl Fragments {
    /// Whether this node does a part of any statement.
    pub fn any(&self) -> bool {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.values().any(|fragment| fragment.strong_count() > 0)
    }

    /// The fragment of a statement, or the one that `begin` makes.
    pub fn of(
        &self,
        key: Key,
        begin: impl FnOnce() -> Result<Fragment, QueryError>,
    ) -> Result<Arc<Fragment>, QueryError> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(fragment) = known.get(&key).and_then(Weak::upgrade) {
            return Ok(fragment);
        }
        known.retain(|_, fragment| fragment.strong_count() > 0);
        let fragment = Arc::new(begin()?);
        known.insert(key, Arc::downgrade(&fragment));
        Ok(fragment)
    }
}
