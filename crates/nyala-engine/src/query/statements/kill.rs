//! `KILL QUERY`.

use futures::FutureExt;
use futures::future::BoxFuture;
use nyala_model::NodeId;
use nyala_sql::error::{ErrorKind, QueryError, Result};

use crate::query::answer::{Answer, Completion};
use crate::query::authorize::Caller;
use crate::query::command::Command;
use crate::query::engine::Engine;
use crate::query::execution::Execution;
use crate::query::nodes::ControlAction;

/// `KILL QUERY id [ON NODE 'name']`.
pub struct Kill<'a> {
    pub id: u64,
    pub node: Option<&'a str>,
}

impl Kill<'_> {
    /// The other node that runs the statement; none if it is this one.
    fn other(&self, engine: &Engine) -> Option<NodeId> {
        self.node.filter(|name| *name != engine.node.0).map(|name| NodeId(name.to_owned()))
    }
}

/// Fails unless the caller may end a statement of this node: its own ones, and as a superuser all.
pub fn may_kill(caller: &Caller<'_>, id: u64) -> Result<()> {
    match caller.engine.observed.registry.find(id) {
        Some(entry) if entry.owner.identity == *caller.identity => Ok(()),
        _ => caller.require_superuser("killing what others run"),
    }
}

impl Command for Kill<'_> {
    fn authorize(&self, caller: &Caller<'_>) -> Result<()> {
        match self.other(caller.engine) {
            // The node that runs the statement has the role that began it, and checks `may_kill` there.
            Some(_) => Ok(()),
            None => may_kill(caller, self.id),
        }
    }

    fn run<'a>(&'a self, execution: Execution<'a>) -> BoxFuture<'a, Result<Answer>> {
        async move {
            let engine = execution.engine();
            let Some(node) = self.other(engine) else { return engine.kill(self.id) };
            if !engine.nodes.all().iter().any(|known| known.id == node) {
                let message = format!("there is no node `{node}`");
                return Err(QueryError::new(ErrorKind::UndefinedObject, message)
                    .hint("`SELECT node, state FROM system.nodes` lists the nodes"));
            }
            let identity = &execution.session.options().identity;
            engine.ask(&node, ControlAction::KillQuery(self.id), identity).await?;
            Ok(Completion::of("KILL QUERY"))
        }
        .boxed()
    }
}
