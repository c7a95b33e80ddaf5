//! Requests for parts of queries, handled on the threads that compute. The threads that serve connections answer pings meanwhile.

use std::convert::Infallible;
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::BoxFuture;
use http_body_util::BodyExt;
use nyala_engine::{Engine, QueryError};
use nyala_model::NodeId;
use tokio::task::{AbortHandle, JoinError};
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tonic::server::NamedService;
use tower::Service;

use super::errors::not_ready;
use super::headers::class_of;
use crate::statement::to_status;

/// A service that answers every HTTP/2 request: its errors are answers, too.
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

/// A service whose requests, and the tasks that they spawn, run on the threads for the cost class of their statement.
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
        let (own, engine) = (self.own.clone(), Arc::downgrade(&engine));
        async move {
            let done = task.await;
            drop(end);
            let Ok(answer) = done.unwrap_or_else(|error| Ok(to_status(&lost(&own, error)).into_http()));
            Ok(answer.map(|body| cut_is_error(body, own, move || engine.strong_count() == 0)))
        }
        .boxed()
    }
}

/// The error of a request whose task panicked or was dropped before it gave an answer.
fn lost(own: &NodeId, error: JoinError) -> QueryError {
    if error.is_panic() { QueryError::internal(error) } else { not_ready(own) }
}

/// Ends a stream of rows with an error if the threads that compute them have stopped. A task that is dropped with its threads closes the
/// channel of its rows, which datafusion-distributed takes for the end of the rows: some of the rows would count as all.
fn cut_is_error(body: Body, own: NodeId, are_gone: impl Fn() -> bool + Send + 'static) -> Body {
    Body::new(body.map_frame(move |mut frame| {
        if let Some(trailers) = frame.trailers_mut()
            && are_gone()
        {
            // Adding fails only for texts that cannot be a header.
            let _ = to_status(&not_ready(&own)).add_header(trailers);
        }
        frame
    }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use bytes::Bytes;
    use http_body_util::Full;
    use tonic::codegen::http::HeaderMap;
    use tonic::{Code, Status};

    use super::*;
    use crate::statement::from_status;

    /// Rows that end well.
    fn rows() -> Body {
        let end = async {
            let mut trailers = HeaderMap::new();
            Status::ok("").add_header(&mut trailers).unwrap();
            Some(Ok(trailers))
        };
        Body::new(Full::new(Bytes::from_static(b"rows")).with_trailers(end))
    }

    #[tokio::test]
    async fn rows_that_were_dropped_with_their_threads_are_not_all_rows() {
        let own = NodeId("n1".to_owned());
        for are_gone in [false, true] {
            let answer = cut_is_error(rows(), own.clone(), move || are_gone).collect().await.unwrap();
            let end = Status::from_header_map(answer.trailers().unwrap()).unwrap();
            assert_eq!(end.code() == Code::Ok, !are_gone, "{end:?}");
            if are_gone {
                let told = from_status(&NodeId::default(), &end, false);
                assert!(told.transient && told.message.contains("`n1`"), "{told}");
            }
            assert_eq!(answer.to_bytes(), "rows");
        }
    }
}
