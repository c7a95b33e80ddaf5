//! The connections over which parts of queries travel. They are the ones that the nodes have for all their requests.

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
use tonic::codegen::http::{HeaderMap, Request, Response};
use tonic::transport::Channel;
use tonic::{Code, Status};
use tower::Service;
use url::Url;

use super::errors::of_library;
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
    /// Channels over the connections of this node.
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

/// The connection to one node. If it breaks, the error names the node, and the node is avoided for a while. Errors of
/// datafusion-distributed on that node name it, too.
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

    /// The answer, with this node's name in its error.
    fn answered(self, mut answer: Response<Body>) -> Response<Body> {
        let node = self.node.clone();
        name_node(&node, answer.headers_mut());
        answer.map(|body| {
            let body = body.map_frame(move |mut frame| {
                if let Some(trailers) = frame.trailers_mut() {
                    name_node(&node, trailers);
                }
                frame
            });
            Body::new(body.map_err(move |error| self.broke(&error)))
        })
    }
}

/// Names a node in the headers or the trailers that end its answer with an error of a library. Errors of statements stay as they are.
fn name_node(node: &NodeId, headers: &mut HeaderMap) {
    let failed = Status::from_header_map(headers).filter(|status| status.code() != Code::Ok);
    if let Some(error) = failed.and_then(|status| of_library(node, &status)) {
        // Adding fails only for texts that cannot be a header.
        let _ = to_status(&error).add_header(headers);
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
                Ok(answer) => node.answered(answer),
                Err(error) => node.broke(&error).into_http(),
            })
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use nyala_engine::{ErrorKind, QueryError};

    use super::*;
    use crate::statement::from_status;

    #[test]
    fn errors_of_libraries_on_a_node_name_it() {
        let node = NodeId("n1".to_owned());
        let named = |status: Status| {
            let mut headers = HeaderMap::new();
            status.add_header(&mut headers).unwrap();
            name_node(&node, &mut headers);
            Status::from_header_map(&headers).unwrap()
        };
        let told = |status| from_status(&NodeId::default(), &named(status), false);
        let full = told(Status::internal("no room for a batch"));
        assert!(full.transient && full.message.contains("`n1`"), "{full}");
        assert!(full.message.contains("no room for a batch"), "{full}");
        let late = "\u{a}\u{5}Worker::execute_task timed-out while waiting for the plan to be set by the coordinator";
        let late = told(Status::with_details(Code::Internal, "DataFusionError", late.into()));
        assert!(late.transient && late.message.contains("`n1` was too busy"), "{late}");

        let conflict = told(to_status(&QueryError::new(ErrorKind::Conflict, "row changed")));
        assert_eq!((conflict.kind, conflict.message.as_str()), (ErrorKind::Conflict, "row changed"));
        assert_eq!(named(Status::ok("")).code(), Code::Ok);
        let mut none = HeaderMap::new();
        name_node(&node, &mut none);
        assert!(none.is_empty(), "{none:?}");
    }
}
