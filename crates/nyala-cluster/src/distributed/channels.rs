//! The connections over which parts of queries travel: those that the nodes have anyway.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use datafusion::common::exec_datafusion_err;
use datafusion::error::DataFusionError;
use datafusion_distributed::grpc::{BoxCloneSyncChannel, create_worker_client};
use datafusion_distributed::{ChannelResolver, WorkerChannel};
use futures::FutureExt;
use futures::future::BoxFuture;
use http_body_util::BodyExt;
use nyala_engine::not_reached;
use nyala_model::NodeId;
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tonic::transport::Channel;
use tower::Service;
use url::Url;

use super::executors::node_of;
use crate::connection::Peers;
use crate::statement::to_status;

/// For this long a node whose connection broke gets no parts of queries. By then its heartbeat in the catalog is late if the node is
/// dead.
const AVOID_FOR: Duration = Duration::from_secs(10);

/// The connections of this node, and the nodes whose connections broke within the last ten seconds. Clones share both.
#[derive(Debug, Clone)]
pub struct Channels {
    peers: Arc<Peers>,
    broken: Arc<Mutex<HashMap<NodeId, Instant>>>,
}

impl Channels {
    /// Over the connections of this node.
    pub fn new(peers: Arc<Peers>) -> Self {
        Self { peers, broken: Arc::default() }
    }

    /// Whether the connection to a node broke lately.
    pub fn is_avoided(&self, node: &NodeId) -> bool {
        let broken = self.broken.lock().unwrap_or_else(PoisonError::into_inner);
        broken.get(node).is_some_and(|at| at.elapsed() < AVOID_FOR)
    }

    /// Records that the connection to a node broke.
    pub fn note_broken(&self, node: &NodeId) {
        let mut broken = self.broken.lock().unwrap_or_else(PoisonError::into_inner);
        broken.retain(|_, at| at.elapsed() < AVOID_FOR);
        if broken.insert(node.clone(), Instant::now()).is_none() {
            tracing::warn!(%node, "the connection to a node broke; it gets no parts of queries for a while");
        }
    }
}

#[async_trait]
impl ChannelResolver for Channels {
    async fn get_worker_client_for_url(&self, url: &Url) -> Result<Box<dyn WorkerChannel>, DataFusionError> {
        let (node, address) =
            node_of(url).ok_or_else(|| exec_datafusion_err!("`{url}` names no node of this cluster"))?;
        let channel = self.peers.channel(&node, address);
        let channel = channel.map_err(|error| not_reached(&node, &error.to_string()))?;
        let channel = NodeChannel { channel, node, channels: self.clone() };
        Ok(create_worker_client(BoxCloneSyncChannel::new(channel)))
    }
}

/// The connection to one node. Where it breaks, the error names the node, and the node is avoided for a while.
#[derive(Clone)]
struct NodeChannel {
    channel: Channel,
    node: NodeId,
    channels: Channels,
}

impl NodeChannel {
    fn broke(&self, reason: &dyn std::error::Error) -> tonic::Status {
        self.channels.note_broken(&self.node);
        let mut cause = reason;
        while let Some(source) = cause.source() {
            cause = source;
        }
        to_status(&not_reached(&self.node, &cause.to_string()))
    }
}

impl Service<Request<Body>> for NodeChannel {
    type Response = Response<Body>;
    type Error = tonic::transport::Error;
    type Future = BoxFuture<'static, Result<Response<Body>, tonic::transport::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), tonic::transport::Error>> {
        self.channel.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (sent, node) = (self.channel.call(request), self.clone());
        async move {
            Ok(match sent.await {
                Ok(answer) => answer.map(|body| Body::new(body.map_err(move |error| node.broke(&error)))),
                Err(error) => node.broke(&error).into_http(),
            })
        }
        .boxed()
    }
}
