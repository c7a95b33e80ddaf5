//! Control requests: small ones, which a node answers at once from memory.

use arrow::record_batch::RecordBatch;
use nyala_model::{JobId, NodeId, SnapshotVersion};

use crate::access::Identity;

/// A control request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Control {
    /// The action.
    pub action: ControlAction,
    /// The role that asks. The other node checks its privileges by the rules of its own sessions.
    pub identity: Identity,
    /// The catalog here; the other node must know it before it checks privileges.
    pub version: SnapshotVersion,
    /// The node that asks.
    pub node: NodeId,
}

/// What the other node is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControlAction {
    /// Its running statements, as rows of `system.queries`. Whether the role may see them was checked by the node that asks.
    ListQueries,
    /// Ends the statement of this number there.
    KillQuery(u64),
    /// Cancels a job that runs there.
    CancelJob(JobId),
    /// Ends the statement that the node which asks has sent there, by the number that the statement has on that node.
    EndSent(u64),
}

/// The answer to a control request.
#[derive(Debug, Clone, PartialEq)]
pub enum ControlAnswer {
    /// Rows.
    Rows(RecordBatch),
    /// The statement or the job is told to end.
    Done,
}
