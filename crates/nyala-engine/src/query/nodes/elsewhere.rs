//! What this node asks of others: whole statements, which travel there and back, and small requests.

use std::fmt::{self, Debug};
use std::sync::Mutex;
use std::time::Duration;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use bytes::Bytes;
use datafusion::common::ScalarValue;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use nyala_cube::cube::build::Counts;
use nyala_model::{NodeEntry, NodeId, QualifiedName, SnapshotVersion};
use nyala_sql::error::{ErrorKind, QueryError, Result};
use nyala_storage::object::cache::WantedBlocks;
use tokio::sync::mpsc;

use super::build_unit::BuildUnit;
use super::control::{Control, ControlAnswer};
use crate::query::answer::{Completion, Ingested};
use crate::query::options::SessionOptions;

/// A whole statement for another node.
#[derive(Debug, Clone)]
pub struct Forwarded {
    /// The statement as it displays: this node has parsed and translated the client's text.
    pub sql: String,
    /// Its parameters.
    pub parameters: Vec<ScalarValue>,
    /// The settings of the session that have other values than at its start.
    pub settings: Vec<(String, String)>,
    /// The user and the client.
    pub options: SessionOptions,
    /// The time that is left for the statement; none if it has no deadline.
    pub timeout: Option<Duration>,
    /// The catalog that it was planned with; the other node must know it.
    pub version: SnapshotVersion,
    /// Whether it may change something: then it is never sent twice.
    pub changes: bool,
    /// The table whose changes are asked for, instead of an answer to `sql`.
    pub follow: Option<Follow>,
}

/// The changes of a live table, as they happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Follow {
    /// The table.
    pub table: QualifiedName,
    /// Changes after this LSN; without it, changes from now on.
    pub after: Option<u64>,
}

/// A load of rows into a live table of another node.
#[derive(Debug, Clone)]
pub struct ForwardedLoad {
    /// Who loads, how long it may take, and how it is listed.
    pub statement: Forwarded,
    /// The table.
    pub table: QualifiedName,
    /// Columns of the rows; empty for all.
    pub columns: Vec<String>,
    /// A load with a label is done once.
    pub label: Option<String>,
    /// Whether it is one statement also without a label.
    pub at_once: bool,
    /// The rows have these columns.
    pub schema: SchemaRef,
}

/// What a load sends after its head.
#[derive(Debug)]
pub enum LoadPart {
    /// Rows.
    Rows(RecordBatch),
    /// There are no more rows. A load that ends without this part is given up.
    End {
        /// Rows that were left out because they could not be read.
        rejected: u64,
    },
}

/// A load that another node takes.
pub struct LoadThere {
    /// The outcome of an earlier load of the same label.
    pub known: Option<Ingested>,
    /// Takes the parts. Closed once the load has failed.
    pub parts: mpsc::Sender<LoadPart>,
    /// The outcome, after the last part. Dropping it gives the load up. The lock makes it `Sync`, and is never waited for.
    pub outcome: Mutex<BoxFuture<'static, Result<Ingested>>>,
}

impl fmt::Debug for LoadThere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadThere").field("known", &self.known).finish_non_exhaustive()
    }
}

/// What the other node answers.
pub enum Forwarding {
    /// Rows, in batches. Dropping them ends the statement there.
    Rows(SchemaRef, BoxStream<'static, Result<RecordBatch>>),
    /// The statement has run, and gives no rows. The version is that of the catalog afterwards.
    Done(Completion, SnapshotVersion),
}

/// The way to other nodes.
pub trait OtherNodes: Debug + Send + Sync {
    /// Where this node is reached, `host:port`; empty if it is not.
    fn address(&self) -> String;

    /// Runs a statement on another node. Dropping the future ends it there.
    fn run<'a>(&'a self, node: &'a NodeEntry, statement: Forwarded) -> BoxFuture<'a, Result<Forwarding>>;

    /// Begins a load into a table of another node. Dropping the future gives it up.
    fn load<'a>(&'a self, node: &'a NodeEntry, load: ForwardedLoad) -> BoxFuture<'a, Result<LoadThere>>;

    /// The blocks that the cache of another node has, of those asked for; fails if the node is not reached.
    fn blocks<'a>(
        &'a self,
        node: &'a NodeEntry,
        wanted: &'a WantedBlocks,
    ) -> BoxFuture<'a, Result<Vec<(u64, Bytes)>>>;

    /// Gives a block of the store to the cache of another node.
    fn give_block<'a>(
        &'a self,
        node: &'a NodeEntry,
        block: &'a WantedBlocks,
        data: Bytes,
    ) -> BoxFuture<'a, Result<()>>;

    /// Has another node make segments of a cube. The stream tells how much is done, and ends when the segments are complete; dropping it
    /// ends the work there.
    fn build<'a>(
        &'a self,
        node: &'a NodeEntry,
        unit: BuildUnit,
    ) -> BoxFuture<'a, Result<BoxStream<'static, Result<Counts>>>>;

    /// Asks another node for something small. The caller bounds the time; it may be asked twice.
    fn ask<'a>(&'a self, node: &'a NodeEntry, control: Control) -> BoxFuture<'a, Result<ControlAnswer>>;
}

/// Why this node reaches no other.
const HERE_ALONE: &str = "this node has no `node.listen`";

/// A node that reaches no other node.
#[derive(Debug)]
pub struct Alone;

impl OtherNodes for Alone {
    fn address(&self) -> String {
        String::new()
    }

    fn run<'a>(&'a self, node: &'a NodeEntry, _: Forwarded) -> BoxFuture<'a, Result<Forwarding>> {
        Box::pin(async move { Err(not_reached(&node.id, HERE_ALONE)) })
    }

    fn load<'a>(&'a self, node: &'a NodeEntry, _: ForwardedLoad) -> BoxFuture<'a, Result<LoadThere>> {
        Box::pin(async move { Err(not_reached(&node.id, HERE_ALONE)) })
    }

    fn blocks<'a>(
        &'a self,
        node: &'a NodeEntry,
        _: &'a WantedBlocks,
    ) -> BoxFuture<'a, Result<Vec<(u64, Bytes)>>> {
        Box::pin(async move { Err(not_reached(&node.id, HERE_ALONE)) })
    }

    fn give_block<'a>(
        &'a self,
        node: &'a NodeEntry,
        _: &'a WantedBlocks,
        _: Bytes,
    ) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move { Err(not_reached(&node.id, HERE_ALONE)) })
    }

    fn build<'a>(
        &'a self,
        node: &'a NodeEntry,
        _: BuildUnit,
    ) -> BoxFuture<'a, Result<BoxStream<'static, Result<Counts>>>> {
        Box::pin(async move { Err(not_reached(&node.id, HERE_ALONE)) })
    }

    fn ask<'a>(&'a self, node: &'a NodeEntry, _: Control) -> BoxFuture<'a, Result<ControlAnswer>> {
        Box::pin(async move { Err(not_reached(&node.id, HERE_ALONE)) })
    }
}

/// The error of a change whose connection broke before the other node told how it ended.
pub fn not_confirmed(node: &NodeId, reason: &str) -> QueryError {
    let message = format!("node `{node}` did not tell how the statement ended: {reason}");
    QueryError::new(ErrorKind::Unconfirmed, message)
        .hint("look whether the change was made before you repeat it")
}

/// Ends the part of [`not_reached`]'s message that names the node.
const WHICH: &str = "`, which the statement needs, is not reached";

/// The node of [`not_reached`]; none if the error is another.
pub fn node_not_reached(error: &QueryError) -> Option<NodeId> {
    let (node, _) = error.message.strip_prefix("node `")?.split_once(WHICH)?;
    Some(NodeId(node.to_owned()))
}

/// Whether an error comes from the node and not from the statement, so that another node may succeed: the node is away or is stopping.
pub fn is_of_node(error: &QueryError) -> bool {
    node_not_reached(error).is_some() || error.kind == ErrorKind::ShuttingDown
}

/// The error of a statement that needs a node which cannot be reached.
pub fn not_reached(node: &NodeId, reason: &str) -> QueryError {
    let message = format!("node `{node}{WHICH}: {reason}");
    QueryError { transient: true, ..QueryError::new(ErrorKind::Unreadable, message) }
        .hint("`SELECT * FROM system.nodes` lists the nodes; start that node, or wait until it is back")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_tells_which_node_was_not_reached() {
        let node = NodeId("n1".to_owned());
        assert_eq!(node_not_reached(&not_reached(&node, "broken pipe")), Some(node.clone()));
        assert_eq!(node_not_reached(&not_confirmed(&node, "broken pipe")), None);
    }
}
