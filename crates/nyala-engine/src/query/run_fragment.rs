//! Takes parts of queries that other nodes send.

use std::sync::Arc;

use nyala_runtime::DroppedSoon;
use nyala_sql::error::Result;
use tokio::runtime::Handle;

use super::activity::{Phase, Running};
use super::answer::StatementPart;
use super::engine::{Engine, Observed};
use super::fragments::{Fragment, Key, Stopping};
use super::nodes::check_version;
use super::options::SessionOptions;
use super::plan::cost_class::CostClass;
use super::resources::memory;

impl Engine {
    /// Begins this node's part of another node's statement, or finds it if it has begun. It ends when it is dropped.
    ///
    /// # Errors
    /// This node is stopping, runs another version, does not know the catalog that the statement was planned with, or has no such setting.
    pub async fn fragment(self: &Arc<Self>, part: StatementPart) -> Result<Arc<Fragment>> {
        self.runtime.check_open()?;
        check_version(&self.node, &part.node, &part.program)?;
        self.catch_up(part.version).await?;
        let options = SessionOptions { sent_by: Some(part.node.clone()), ..part.options };
        let session = self.session(options);
        for (name, value) in &part.settings {
            // Each node has its own number of threads, and its own resource groups.
            if name != "datafusion.execution.target_partitions" && name != "nyala.resource_group" {
                session.set(name, value)?;
            }
        }
        let settings = session.settings();
        let group = session.group(&settings)?;
        let context = self.snapshots.current();
        let key =
            Key { node: part.node, query_id: part.query_id, begun_ms: part.begun_ms, version: part.version };
        self.fragments.of(key, || {
            // Checked for new statements only: further parts of a statement that runs here already are taken.
            self.check_takes_work()?;
            let Observed { counters, registry, .. } = &self.observed;
            let cancel = self.runtime.stopping.child_token();
            let running = Running::begin(counters, registry, &part.text, session.options(), cancel.clone());
            let entry = running.entry();
            entry.enter(Phase::Running);
            // The memory guard watches the account from now on.
            self.runtime.threads.works().add(entry.account());
            let runtime = memory::runtime_of_parts(&self.snapshots.source().runtime, entry, &group);
            let (stopping, _dropped_soon) = (self.stopping(), DroppedSoon::new());
            Ok(Fragment { context, settings, runtime, cancel, running, stopping, _dropped_soon })
        })
    }

    /// Whether this node stops, for work that it does for others.
    pub(super) fn stopping(&self) -> Stopping {
        Stopping { node: self.node.clone(), token: self.runtime.stopping.clone() }
    }

    /// Whether this node does parts of other nodes' statements.
    pub fn has_fragments(&self) -> bool {
        self.fragments.any()
    }

    /// The threads that compute parts of queries of a class.
    pub fn fragment_threads(&self, class: CostClass) -> &Handle {
        match class {
            CostClass::Small | CostClass::Short => self.runtime.threads.short(),
            CostClass::Joins | CostClass::Long => self.runtime.threads.large(),
        }
    }
}
