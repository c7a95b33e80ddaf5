//! Tasks that operators spawn compute in the scope of the statement that spawns them.

use std::any::Any;

use datafusion::common::runtime::{JoinSetTracer, set_join_set_tracer};
use futures::FutureExt;
use futures::future::BoxFuture;
use nyala_runtime::Scope;

/// A tracer that DataFusion calls whenever an operator spawns a task, as repartitioning does.
struct InheritScope;

/// Makes spawned tasks inherit the scope, in the whole process.
pub fn install() {
    // Set already by an earlier engine of this process.
    let _ = set_join_set_tracer(&InheritScope);
}

type Erased = Box<dyn Any + Send>;

impl JoinSetTracer for InheritScope {
    fn trace_future(&self, future: BoxFuture<'static, Erased>) -> BoxFuture<'static, Erased> {
        match Scope::current() {
            Some(scope) => scope.run(future).boxed(),
            None => future,
        }
    }

    fn trace_block(&self, block: Box<dyn FnOnce() -> Erased + Send>) -> Box<dyn FnOnce() -> Erased + Send> {
        match Scope::current() {
            Some(scope) => Box::new(move || scope.call(block)),
            None => block,
        }
    }
}
