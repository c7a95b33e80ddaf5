//! Sends a whole statement to the node that has the disk store which it needs, and runs those of other nodes.

use std::sync::Arc;
use std::time::Duration;

use datafusion::common::ScalarValue;
use futures::StreamExt;
use nyala_model::SnapshotVersion;
use nyala_sql::error::{ErrorKind, Owner, QueryError, Result};

use super::answer::{Answer, Batches, RowStream};
use super::deadline::Deadline;
use super::engine::Engine;
use super::nodes::{Forwarded, Forwarding, is_of_node};
use super::options::SessionOptions;
use super::prepared::{Form, Prepared};
use super::session::Session;

/// How long a client waits after its change on another node until this one sees it.
const SEE_WITHIN: Duration = Duration::from_secs(2);
/// The setting that is not sent with a statement: the time that is left is sent instead.
const TIMEOUT: &str = "statement_timeout";
/// A setting that each node has for itself: how many partitions a session may ask for depends on the threads of its node.
const PARTITIONS: &str = "datafusion.execution.target_partitions";
/// The setting of the resource group that a session chose.
const GROUP: &str = "nyala.resource_group";

/// Whether a statement that another node failed to do may succeed on this one, which can do it, too.
pub fn may_do_better_here(error: &QueryError) -> bool {
    is_of_node(error) || error.kind == ErrorKind::Changed
}

impl Session {
    /// Runs a statement on the node that owns what it needs. This node has done nothing of it yet.
    pub(super) async fn forward(
        &self,
        owner: &Owner,
        prepared: &Prepared,
        parameters: Vec<ScalarValue>,
        deadline: &Deadline,
    ) -> Result<Answer> {
        let node = self.engine.nodes.living(&owner.node)?;
        let sql = match prepared.form() {
            Form::OfShape(text) => text.sql.clone(),
            _ => prepared.statement().to_string(),
        };
        let running = self.begin(prepared.text(), deadline);
        let (listed, id) = (Arc::clone(running.listed()), running.entry().id);
        let changes = prepared.changes();
        let mut statement =
            Forwarded { parameters, timeout: deadline.left(), changes, ..self.forwarded(sql) };
        statement.options.sent_as = Some(id);
        let answer = self.engine.elsewhere.run(&node, statement);
        let answer = match changes {
            true => self.engine.until_ended_there((&node, id), deadline, answer).await,
            false => answer.await,
        };
        match answer {
            Ok(Forwarding::Rows(schema, batches)) => {
                let rows = Batches::Elsewhere(batches.fuse());
                Ok(Answer::Rows(RowStream::new(schema, rows, running, Some(deadline.clone()))))
            }
            Ok(Forwarding::Done(completion, version)) => {
                self.engine.see_change(version).await;
                listed.finish();
                Ok(Answer::Done(completion))
            }
            Err(error) => {
                match owner.optional && may_do_better_here(&error) {
                    true => listed.hand_over(),
                    false => listed.fail(&error),
                }
                Err(error)
            }
        }
    }
}

impl Session {
    /// A statement of this session for another node, without parameters and without a deadline.
    pub(super) fn forwarded(&self, sql: String) -> Forwarded {
        let usual = self.engine.default_settings().all();
        let settings = self.setting_values().into_iter().zip(usual);
        let settings = settings.filter(|(own, usual)| own.value != usual.value && own.name != TIMEOUT);
        Forwarded {
            sql,
            parameters: Vec::new(),
            settings: settings.map(|(own, _)| (own.name.to_owned(), own.value)).collect(),
            options: SessionOptions {
                sent_by: Some(self.engine.node.clone()),
                ..self.options().as_ref().clone()
            },
            timeout: None,
            version: self.engine.snapshots.current().snapshot().version,
            changes: false,
            follow: None,
        }
    }
}

impl Engine {
    /// Lets the next statement see a change that another node has made. If this node cannot read the catalog now, it sees the change
    /// later: a client that is told of a failure repeats what is done.
    async fn see_change(&self, version: SnapshotVersion) {
        let reason = match tokio::time::timeout(SEE_WITHIN, self.catch_up(version)).await {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {} seconds", SEE_WITHIN.as_secs()),
        };
        tracing::warn!(%reason, "a change that another node has made is not seen here yet");
    }

    /// The session of a statement that another node has sent.
    ///
    /// # Errors
    /// This node is stopping, or refuses a setting; [`ErrorKind::Changed`] if it does not know the catalog that the statement was planned with.
    pub(super) async fn session_of(self: &Arc<Self>, statement: &Forwarded) -> Result<Arc<Session>> {
        self.check_takes_work()?;
        self.catch_up(statement.version).await?;
        // Set even if the sender does not name itself: it keeps the statement from being forwarded again.
        let sent_by = Some(statement.options.sent_by.clone().unwrap_or_default());
        let session = self.session(SessionOptions { sent_by, ..statement.options.clone() });
        for (name, value) in statement.settings.iter().filter(|(name, _)| name != PARTITIONS) {
            match session.set(name, value) {
                // Each node has resource groups of its own: without this one, the group of the user counts.
                Err(_) if name == GROUP => {}
                set => set?,
            }
        }
        // A statement without a deadline has none here, either, whatever timeout this node is configured with.
        let left = statement.timeout.map_or(0, |left| left.as_millis().max(1));
        session.set(TIMEOUT, &left.to_string())?;
        Ok(session)
    }

    /// Runs a statement that another node has sent.
    ///
    /// # Errors
    /// The statement fails; this node is stopping; [`ErrorKind::Changed`] if it does not know the catalog that the statement was planned
    /// with.
    pub async fn run_forwarded(self: &Arc<Self>, statement: Forwarded) -> Result<Answer> {
        let session = self.session_of(&statement).await?;
        if let Some(follow) = &statement.follow {
            return session.follow_for_another(&statement.sql, follow).await;
        }
        let prepared = session.prepare_text(&statement.sql).await?;
        session.execute(&prepared, statement.parameters).await
    }
}
