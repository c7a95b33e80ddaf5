//! Does what other nodes ask for.

use std::sync::Arc;

use nyala_sql::error::Result;

use super::authorize::Caller;
use super::cubes::jobs;
use super::engine::Engine;
use super::nodes::{Control, ControlAction, ControlAnswer};
use super::options::SessionOptions;
use super::statements::kill;
use super::system;

impl Engine {
    /// Answers a request of another node. Privileges are checked here, because only this node knows whose work it is.
    ///
    /// # Errors
    /// The role may not do it, or there is nothing of that number.
    pub async fn administer(self: &Arc<Self>, asked: Control) -> Result<ControlAnswer> {
        if asked.action == ControlAction::ListQueries {
            return system::queries_here(self).map(ControlAnswer::Rows);
        }
        self.catch_up(asked.version).await?;
        let session = self.session(SessionOptions { identity: asked.identity, ..SessionOptions::default() });
        let settings = session.settings();
        let caller = Caller::of(&session, &settings);
        let check = |allowed: fn(&Caller<'_>, u64) -> Result<()>, number| {
            caller.as_ref().map_or(Ok(()), |caller| allowed(caller, number))
        };
        match asked.action {
            ControlAction::ListQueries => {}
            ControlAction::KillQuery(id) => {
                check(kill::may_kill, id)?;
                self.kill(id)?;
            }
            ControlAction::CancelJob(id) => {
                check(jobs::may_cancel, id.0)?;
                self.cancel_job(id).await?;
            }
        }
        Ok(ControlAnswer::Done)
    }
}
