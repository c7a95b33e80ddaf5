//! Many nodes: each is reached by the others on one connection, and runs for them the statements that need what it has.
//!
//! ```text
//! node A: Session ──forward──▶ Cluster::run ──▶ Peers: a channel to B ┐
//!                                                     HTTP/2 over TLS │ with the cluster's secret
//! node B: Engine ◀──run_forwarded── Statements ◀── Listener           ┘
//! ```
//!
//! Small requests, to list or to end what runs, go the same way: `OtherNodes::ask` there, `Engine::administer` here. So do the parts
//! of queries that several nodes do ([`distributed`]), loads into live tables of others ([`loads`]), segments that one makes for the job of another ([`builds`]), and blocks that one node's cache has and another's lacks ([`blocks`]).
//!
//! The catalog has the list of living nodes and their addresses. This crate deliberately knows nothing of clients' protocols, nor of how
//! statements are run.

mod blocks;
mod builds;
mod cluster;
mod connection;
mod control;
mod distributed;
mod identity;
mod loads;
mod statement;

pub use cluster::{Cluster, ClusterError};
pub use identity::{Identity, IdentityError};
