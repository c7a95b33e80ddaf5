//! `KILL QUERY`.

use futures::FutureExt;
use futures::future::BoxFuture;
use nyala_sql::error::Result;

use crate::query::answer::Answer;
use crate::query::authorize::Caller;
use crate::query::command::Command;
use crate::query::execution::Execution;

/// `KILL QUERY id`.
pub struct Kill(pub u64);

impl Command for Kill {
    fn authorize(&self, caller: &Caller<'_>) -> Result<()> {
        match caller.engine.observed.registry.find(self.0) {
            Some(entry) if entry.owner.identity == *caller.identity => Ok(()),
            _ => caller.require_superuser("killing what others run"),
        }
    }

    fn run<'a>(&'a self, execution: Execution<'a>) -> BoxFuture<'a, Result<Answer>> {
        async move { execution.engine().kill(self.0) }.boxed()
    }
}
