//! Nodes that share a catalog, and the leases that let only one of them at a time do a task.

use serde::{Deserialize, Serialize};

use crate::ids::{NodeId, SnapshotVersion};

/// The state that a node reports to the others every few seconds.
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
    /// Whether it is starting: other nodes cannot reach it yet, so its address is empty.
    pub starting: bool,
    /// Whether it is stopping and takes no new work.
    pub draining: bool,
    /// Whether it reads files in buckets for the queries of all nodes.
    pub executor: bool,
    /// Statements that run on it.
    pub running: u32,
    /// Slots of a resource group for long queries on its threads, by default, and as many again for short ones.
    pub slots: u32,
    /// Queries of its clients that executors compute, or that wait for a slot on them.
    pub spread: u32,
    /// The oldest snapshot of the catalog that one of its statements still reads.
    pub oldest_version: SnapshotVersion,
    /// Age of this report, in milliseconds, by the catalog's clock.
    #[serde(skip)]
    pub age_ms: u64,
}

/// A lease: the right of one node to do a task, until the lease ends or is given back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseEntry {
    /// The task, such as `cube 7`.
    pub name: String,
    /// The node that holds it.
    pub owner: NodeId,
    /// Grows with each time the lease is taken.
    pub token: u64,
    /// Time until the lease ends unless it is renewed, in milliseconds.
    pub left_ms: u64,
}
