//! Small requests to other nodes: each is answered within a short time, or fails.

use std::time::Duration;

use arrow::datatypes::Schema;
use arrow::record_batch::RecordBatch;
use futures::future::join_all;
use nyala_model::{NodeEntry, NodeId, SnapshotVersion};
use nyala_sql::error::{ErrorKind, QueryError, Result};

use super::engine::Engine;
use super::nodes::{Control, ControlAction, ControlAnswer, not_reached};
use crate::access::Identity;

/// How long an answer may take. Nothing that is asked waits for work to end.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

impl Engine {
    /// Lets another node do something for a role.
    pub(super) async fn ask(&self, node: &NodeId, action: ControlAction, identity: &Identity) -> Result<()> {
        let node = self.nodes.living(node)?;
        self.ask_one(&node, action, identity.clone()).await.map(drop)
    }

    async fn ask_one(
        &self,
        node: &NodeEntry,
        action: ControlAction,
        identity: Identity,
    ) -> Result<ControlAnswer> {
        let version = self.snapshots.current().snapshot().version;
        let asked = self.elsewhere.ask(node, Control { action, identity, version });
        tokio::time::timeout(ANSWER_WITHIN, asked).await.unwrap_or_else(|_| {
            let reason = format!("it did not answer within {} seconds", ANSWER_WITHIN.as_secs());
            Err(not_reached(&node.id, &reason))
        })
    }

    /// The running statements of each other node that answers in time. `system.nodes` tells why others did not.
    pub(super) async fn queries_of_others(&self, schema: &Schema) -> Vec<RecordBatch> {
        let others = self.nodes.others();
        let answers = others.iter().map(|node| async move {
            let rows = self.queries_of(node, schema).await;
            self.nodes.note_answer(&node.id, rows.as_ref().err().map(|error| error.message.clone()));
            rows.ok()
        });
        join_all(answers).await.into_iter().flatten().collect()
    }

    async fn queries_of(&self, node: &NodeEntry, schema: &Schema) -> Result<RecordBatch> {
        match self.ask_one(node, ControlAction::ListQueries, Identity::Owner).await? {
            ControlAnswer::Rows(rows) if rows.schema().fields() == schema.fields() => Ok(rows),
            _ => {
                let message = format!("node `{}` lists its statements in another form", node.id);
                Err(QueryError::new(ErrorKind::Unsupported, message).hint("run one version on all nodes"))
            }
        }
    }

    /// Makes sure that this node knows the catalog of a node that asks.
    pub(super) async fn catch_up(&self, version: SnapshotVersion) -> Result<()> {
        let known = || self.snapshots.current().snapshot().version;
        if known() < version {
            self.catalog().refresh().await?;
            self.snapshots.refresh().await?;
        }
        if known() < version {
            let message = "this node does not know the newest catalog yet";
            return Err(QueryError { transient: true, ..QueryError::new(ErrorKind::Changed, message) });
        }
        Ok(())
    }
}
