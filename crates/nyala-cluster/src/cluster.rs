//! This node's connections to the other nodes of its cluster, and what it asks them for.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use nyala_engine::{
    BuildUnit, Control, ControlAnswer, Counts, Engine, ErrorKind, Extensions, Forwarded, ForwardedLoad,
    Forwarding, LoadThere, OtherNodes, QueryError, WantedBlocks, not_reached,
};
use nyala_model::config::NodeConfig;
use nyala_model::{NodeEntry, NodeId};
use tokio::runtime::Handle;
use tonic::service::Routes;
use tonic::transport::Channel;

use crate::connection::{Listener, Listening, Peers, serve};
use crate::control::ask;
use crate::distributed::{Channels, Distribution, PlannedForNodes, Workers};
use crate::identity::{Identity, IdentityError};
use crate::statement::{Statements, send};
use crate::{blocks, builds, loads};

/// Why this node cannot be one of several.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// The secret is unusable.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The address cannot be listened on.
    #[error("cannot listen for other nodes on {address}: {source}; choose another `node.listen`")]
    Listen {
        /// The configured address.
        address: SocketAddr,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Other nodes could not connect to any address.
    #[error(
        "`node.listen` is {address}, which other machines cannot connect to; set `node.address` to the host and port that they reach"
    )]
    NoAddress {
        /// The configured address.
        address: SocketAddr,
    },
}

/// This node's connections to others, and theirs to it.
#[derive(Debug)]
pub struct Cluster {
    peers: Arc<Peers>,
    address: String,
    listener: Mutex<Option<Listener>>,
    statements: Statements,
    workers: Workers,
    distribution: Arc<Distribution>,
}

impl Cluster {
    /// Takes the address for other nodes. Their connections are refused before [`Self::serve`].
    ///
    /// # Errors
    /// The secret or the address is unusable.
    pub async fn bind(
        listen: SocketAddr,
        config: &NodeConfig,
        node: &NodeId,
    ) -> Result<Arc<Self>, ClusterError> {
        let identity = Identity::new(&config.secret, node)?;
        let failed = |source| ClusterError::Listen { address: listen, source };
        let listener = Listener::bind(listen, &identity).map_err(failed)?;
        let bound = listener.address().map_err(failed)?;
        let address = match config.address.as_str() {
            "" if bound.ip().is_unspecified() => return Err(ClusterError::NoAddress { address: bound }),
            "" => bound.to_string(),
            address => address.to_owned(),
        };
        let (peers, statements) = (Arc::new(Peers::new(&identity, Handle::current())), Statements::default());
        let channels = Channels::new(Arc::clone(&peers));
        let workers = Workers::new(node.clone(), statements.engine_later(), channels.clone());
        let distribution =
            Distribution::new(node.clone(), address.clone(), channels, workers.worker().clone());
        Ok(Arc::new(Self {
            peers,
            address,
            listener: Mutex::new(Some(listener)),
            statements,
            distribution: Arc::new(distribution),
            workers,
        }))
    }

    /// Serves other nodes with this engine until `stop` is ready; requests that run then may end. Announces the address to them once it is open.
    ///
    /// # Errors
    /// The socket fails.
    pub async fn serve(
        &self,
        engine: &Arc<Engine>,
        stop: impl Future<Output = ()>,
    ) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        self.statements.attach(engine);
        let Some(listening) = self.listen()? else { return Ok(()) };
        engine.announce_node_port();
        let routes = Routes::new(self.statements.service()).add_service(self.workers.service());
        tokio::select! {
            served = serve(listening, routes, stop) => Ok(served?),
            () = self.workers.sweep_ended_tasks() => Ok(()),
        }
    }

    /// Lets other nodes connect until the returned socket is dropped; requests wait until they are served. None if the socket was taken before.
    ///
    /// # Errors
    /// Another process listens there by now.
    pub fn listen(&self) -> io::Result<Option<Listening>> {
        let listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner).take();
        listener.map(Listener::listen).transpose()
    }

    /// Gives an engine what it needs in a cluster: requests to other nodes, the placement of queries, and plans that can be divided.
    pub fn extend(self: &Arc<Self>, extensions: &mut Extensions) {
        extensions.elsewhere = Arc::clone(self) as _;
        extensions.placement = Some(Arc::clone(&self.distribution) as _);
        extensions.sessions.push(Arc::new(PlannedForNodes));
    }

    fn channel(&self, node: &NodeEntry) -> Result<Channel, QueryError> {
        if node.address.is_empty() {
            let reason = if node.starting { "it is starting" } else { "it has no `node.listen`" };
            return Err(not_reached(&node.id, reason));
        }
        let channel = self.peers.channel(&node.id, &node.address);
        channel.map_err(|error| not_reached(&node.id, &error.to_string()))
    }

    async fn ask_for(&self, node: &NodeEntry, control: &Control) -> Result<ControlAnswer, QueryError> {
        let channel = self.channel(node)?;
        let first = match ask(&node.id, channel.clone(), control).await {
            // The connection may have broken long ago: a new one is made.
            Err(error) if error.is_unavailable() || error.kind == ErrorKind::Unconfirmed => error,
            answered => return answered,
        };
        second_answer(first, ask(&node.id, channel, control).await)
    }

    async fn send(&self, node: &NodeEntry, statement: Forwarded) -> Result<Forwarding, QueryError> {
        let channel = self.channel(node)?;
        let again = (!statement.changes).then(|| statement.clone());
        match (send(&node.id, channel.clone(), statement).await, again) {
            // The connection may have broken long ago: a new one is made.
            (Err(error), Some(statement)) if error.is_unavailable() => {
                send(&node.id, channel, statement).await
            }
            (sent, _) => sent,
        }
    }
}

/// The answer to a request that was sent twice. If the first one may have ended a statement, and the second finds none to end, the answer
/// is that the outcome of the first is not known.
fn second_answer(
    first: QueryError,
    second: Result<ControlAnswer, QueryError>,
) -> Result<ControlAnswer, QueryError> {
    second.map_err(|error| match first.kind == ErrorKind::Unconfirmed && !error.is_unavailable() {
        true => first,
        false => error,
    })
}

impl OtherNodes for Cluster {
    fn address(&self) -> String {
        self.address.clone()
    }

    fn run<'a>(
        &'a self,
        node: &'a NodeEntry,
        statement: Forwarded,
    ) -> BoxFuture<'a, Result<Forwarding, QueryError>> {
        self.send(node, statement).boxed()
    }

    fn load<'a>(
        &'a self,
        node: &'a NodeEntry,
        load: ForwardedLoad,
    ) -> BoxFuture<'a, Result<LoadThere, QueryError>> {
        async move {
            let channel = self.channel(node)?;
            match loads::begin(&node.id, channel.clone(), load.clone()).await {
                // The connection may have broken long ago: a new one is made. No row was sent yet.
                Err(error) if error.is_unavailable() => loads::begin(&node.id, channel, load).await,
                begun => begun,
            }
        }
        .boxed()
    }

    fn blocks<'a>(
        &'a self,
        node: &'a NodeEntry,
        wanted: &'a WantedBlocks,
    ) -> BoxFuture<'a, Result<Vec<(u64, Bytes)>, QueryError>> {
        async move { blocks::ask(&node.id, self.channel(node)?, wanted).await }.boxed()
    }

    fn give_block<'a>(
        &'a self,
        node: &'a NodeEntry,
        block: &'a WantedBlocks,
        data: Bytes,
    ) -> BoxFuture<'a, Result<(), QueryError>> {
        async move { blocks::give(&node.id, self.channel(node)?, block, data).await }.boxed()
    }

    fn build<'a>(
        &'a self,
        node: &'a NodeEntry,
        unit: BuildUnit,
    ) -> BoxFuture<'a, Result<BoxStream<'static, Result<Counts, QueryError>>, QueryError>> {
        async move {
            // The request is not repeated: the first one may have arrived, and both would write the same segment.
            builds::ask(&node.id, self.channel(node)?, unit).await
        }
        .boxed()
    }

    fn ask<'a>(
        &'a self,
        node: &'a NodeEntry,
        control: Control,
    ) -> BoxFuture<'a, Result<ControlAnswer, QueryError>> {
        async move { self.ask_for(node, &control).await }.boxed()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use nyala_engine::not_confirmed;

    use super::*;

    #[test]
    fn a_second_request_that_finds_nothing_to_end_does_not_tell_that_the_first_failed() {
        let node = NodeId("n1".to_owned());
        let lost = || not_confirmed(&node, "broken pipe");
        let nothing = || Err(QueryError::new(ErrorKind::UndefinedObject, "no query `7` is running"));
        assert_eq!(second_answer(lost(), nothing()).unwrap_err().kind, ErrorKind::Unconfirmed);
        assert_eq!(second_answer(lost(), Ok(ControlAnswer::Done)).unwrap(), ControlAnswer::Done);
        let gone = second_answer(lost(), Err(not_reached(&node, "connection refused")));
        assert_eq!(gone.unwrap_err().kind, ErrorKind::Unreadable);
        // The first request did not arrive.
        let refused = second_answer(not_reached(&node, "connection refused"), nothing());
        assert_eq!(refused.unwrap_err().kind, ErrorKind::UndefinedObject);
    }
}
