//! Small requests to other nodes: each is answered within a short time, or fails.

use std::pin::pin;
use std::time::Duration;

use arrow::datatypes::Schema;
use arrow::record_batch::RecordBatch;
use futures::future::join_all;
use nyala_model::{NodeEntry, NodeId, SnapshotVersion};
use nyala_sql::error::{ErrorKind, QueryError, Result};

use super::deadline::Deadline;
use super::engine::Engine;
use super::nodes::{Control, ControlAction, ControlAnswer, not_reached};
use crate::access::Identity;

/// How long an answer may take. Nothing that is asked waits for work to end.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// How long it may take to read the catalog that another node knows. While the database of the catalog does not answer, statements that
/// read the catalog wait for each other.
const CATCH_UP_WITHIN: Duration = Duration::from_secs(10);

/// How soon another node is told again to end a statement that it has not begun yet, and how many times at most.
const TELL_AGAIN: Duration = Duration::from_millis(200);
const MAX_TELLINGS: usize = 25;

impl Engine {
    /// The answer of another node to a statement that changes something. When the statement is cancelled, that node is told so, and answers
    /// how it ended: if the connection was closed instead, the client could not be told whether the change was made.
    pub(super) async fn until_ended_there<T>(
        &self,
        (node, id): (&NodeEntry, u64),
        deadline: &Deadline,
        answer: impl Future<Output = T>,
    ) -> T {
        let mut answer = pin!(answer);
        tokio::select! {
            biased;
            answer = &mut answer => return answer,
            () = deadline.token().cancelled() => {}
        }
        tokio::select! {
            biased;
            answer = &mut answer => return answer,
            () = self.end_sent(node, id) => {}
        }
        answer.await
    }

    /// Tells another node to end the statement that has this number here.
    async fn end_sent(&self, node: &NodeEntry, id: u64) {
        for _ in 0..MAX_TELLINGS {
            match self.ask_one(node, ControlAction::EndSent(id), Identity::Owner).await {
                Err(error) if error.kind == ErrorKind::UndefinedObject => {
                    tokio::time::sleep(TELL_AGAIN).await
                }
                // The node was told, or cannot be told: then the statement ends with its connection.
                _ => return,
            }
        }
    }

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
        let control = Control { action, identity, version, node: self.node.clone() };
        let asked = self.elsewhere.ask(node, control);
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
            let read = async {
                self.catalog().refresh().await?;
                self.snapshots.refresh().await
            };
            // If reading takes longer, the check below fails.
            if let Ok(read) = tokio::time::timeout(CATCH_UP_WITHIN, read).await {
                read?;
            }
        }
        if known() < version {
            let message = "this node does not know the newest catalog yet";
            return Err(QueryError { transient: true, ..QueryError::new(ErrorKind::Changed, message) });
        }
        Ok(())
    }
}
