//! Requests for parts of queries, handled on the threads that compute. Those that serve connections answer pings meanwhile.

use std::convert::Infallible;
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::BoxFuture;
use nyala_engine::{Engine, QueryError};
use nyala_model::NodeId;
use tokio::task::AbortHandle;
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tonic::server::NamedService;
use tower::Service;

use super::errors::not_ready;
use super::headers::class_of;
use crate::statement::to_status;

/// A service of HTTP/2 requests that answers each, also with its errors.
pub trait PartService:
    Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future: Send>
    + NamedService
    + Clone
    + Send
    + Sync
    + 'static
{
}

impl<S> PartService for S where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future: Send>
        + NamedService
        + Clone
        + Send
        + Sync
        + 'static
{
}

/// A service whose requests are handled on the threads of the class of their statement, and what they spawn there, too.
#[derive(Clone)]
pub struct OnThreads<S> {
    own: NodeId,
    service: S,
    engine: Arc<OnceLock<Weak<Engine>>>,
}

impl<S> OnThreads<S> {
    /// Requests fail until the engine is set.
    pub fn new(own: NodeId, service: S, engine: Arc<OnceLock<Weak<Engine>>>) -> Self {
        Self { own, service, engine }
    }
}

impl<S: NamedService> NamedService for OnThreads<S> {
    const NAME: &'static str = S::NAME;
}

/// Ends a task whose request is given up.
struct EndOnDrop(AbortHandle);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl<S: PartService> Service<Request<Body>> for OnThreads<S>
where
    S::Future: 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.service.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let Some(engine) = self.engine.get().and_then(Weak::upgrade) else {
            let refused = to_status(&not_ready(&self.own)).into_http();
            return futures::future::ready(Ok(refused)).boxed();
        };
        let threads = engine.fragment_threads(class_of(request.headers()));
        let task = threads.spawn(self.service.call(request));
        let end = EndOnDrop(task.abort_handle());
        async move {
            let done = task.await;
            drop(end);
            done.unwrap_or_else(|error| Ok(to_status(&QueryError::internal(error)).into_http()))
        }
        .boxed()
    }
}
