//! Control requests of other nodes, carried out here.

use std::sync::Arc;

use bytes::Bytes;
use nyala_model::NodeId;
use nyala_sql::error::{ErrorKind, QueryError, Result};
use nyala_storage::object::cache::WantedBlocks;

use super::authorize::Caller;
use super::cubes::jobs;
use super::engine::Engine;
use super::nodes::{Control, ControlAction, ControlAnswer};
use super::options::SessionOptions;
use super::statements::kill;
use super::system;

impl Engine {
    /// Answers a control request of another node. Privileges are checked here: only this node has the entry of the
    /// statement or the job, and with it the role or the cube.
    ///
    /// # Errors
    /// The role may not do it, or there is no statement or job of that number.
    pub async fn administer(self: &Arc<Self>, request: Control) -> Result<ControlAnswer> {
        match request.action {
            ControlAction::ListQueries => system::queries_here(self).map(ControlAnswer::Rows),
            ControlAction::KillQuery(id) => {
                self.check(&request, |caller| kill::may_kill(caller, id)).await?;
                self.kill(id).map(|_| ControlAnswer::Done)
            }
            ControlAction::CancelJob(id) => {
                self.check(&request, |caller| jobs::may_cancel(caller, id.0)).await?;
                self.cancel_job(id).await.map(|()| ControlAnswer::Done)
            }
            ControlAction::EndSent(id) => self.end_sent_here(&request.node, id).map(|()| ControlAnswer::Done),
        }
    }

    /// Ends a statement that a node has sent here, by its number there. That node has checked that the role may end it.
    fn end_sent_here(&self, node: &NodeId, id: u64) -> Result<()> {
        let mut sent = self.observed.registry.running();
        sent.retain(|entry| entry.owner.sent_by.as_ref() == Some(node) && entry.owner.sent_as == Some(id));
        if sent.iter().filter(|entry| entry.kill()).count() > 0 {
            return Ok(());
        }
        let message = format!("no statement runs here that node `{node}` has as `{id}`");
        Err(QueryError::new(ErrorKind::UndefinedObject, message).hint("it has ended, or not begun yet"))
    }

    /// The blocks that the cache of this node has, of those that another node asks for. Blocks the thread.
    pub fn lend_blocks(&self, wanted: &WantedBlocks) -> Vec<(u64, Bytes)> {
        self.snapshots.stores().cache().map(|cache| cache.lend(wanted)).unwrap_or_default()
    }

    /// Keeps blocks that another node has read from their store. Blocks the thread.
    pub fn keep_blocks(&self, given: &WantedBlocks, blocks: Vec<(u64, Bytes)>) {
        if let Some(cache) = self.snapshots.stores().cache() {
            cache.keep(given, blocks);
        }
    }

    /// Checks a request as if the role had sent the statement to this node.
    async fn check(
        self: &Arc<Self>,
        request: &Control,
        may: impl FnOnce(&Caller<'_>) -> Result<()> + Send,
    ) -> Result<()> {
        self.catch_up(request.version).await?;
        let session =
            self.session(SessionOptions { identity: request.identity.clone(), ..SessionOptions::default() });
        let settings = session.settings();
        Caller::of(&session, &settings).as_ref().map_or(Ok(()), may)
    }
}
