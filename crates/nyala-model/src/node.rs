//! Nodes that share a catalog, and what one of them at a time may do.

use serde::{Deserialize, Serialize};

use crate::ids::{NodeId, SnapshotVersion};

/// What a node tells the others of itself, every few seconds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeEntry {
    /// The node.
    pub id: NodeId,
    /// Where other nodes reach it: `host:port`. Empty if they cannot, or not yet.
    pub address: String,
    /// The version of its program.
    pub version: String,
    /// When its process started, in milliseconds since the Unix epoch.
    pub started_at_ms: u64,
    /// Whether it starts, and will be reached by other nodes only later: then its address is empty.
    pub starting: bool,
    /// Whether it ends and takes no new work.
    pub draining: bool,
    /// Whether it reads files in buckets for the queries of all nodes.
    pub executor: bool,
    /// Statements that run on it.
    pub running: u32,
    /// Long queries that its threads are for at once, and as many short ones.
    pub slots: u32,
    /// Queries of its clients that executors compute now, or that wait for it.
    pub spread: u32,
    /// The oldest snapshot of the catalog that one of its statements still reads.
    pub oldest_version: SnapshotVersion,
    /// How long ago it told this, in milliseconds, by the catalog's clock.
    #[serde(skip)]
    pub age_ms: u64,
}

/// A lease: what one node at a time may do, until it ends or is given back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseEntry {
    /// What it is for, such as `cube 7`.
    pub name: String,
    /// The node that holds it.
    pub owner: NodeId,
    /// Grows whenever it is taken.
    pub token: u64,
    /// How long it is held unless it is renewed, in milliseconds.
    pub left_ms: u64,
}
