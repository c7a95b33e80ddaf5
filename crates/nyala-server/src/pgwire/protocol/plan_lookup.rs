//! Statements that the engine has a plan for, and this door's data about each, shared by all sessions.

use std::sync::OnceLock;

use nyala_engine::Prepared;
use nyala_pg::translation::rewrite::mentions_system;

use super::connection::Connection;
use crate::pgwire::values::encode::Layouts;

/// This door's data about a statement.
#[derive(Debug, Default)]
pub struct Kept {
    pub layouts: Layouts,
    /// Whether it is rewritten for clients of PostgreSQL.
    rewritten: OnceLock<bool>,
}

impl Connection {
    /// The statement of a text that the engine has a plan for. None for a text that is rewritten here: its plan
    /// differs from that of the same text at other doors.
    pub fn recall(&self, sql: &str) -> Option<Prepared> {
        let prepared = self.session.recall(sql)?;
        let kept = prepared.kept::<Kept>()?;
        // Asked of the statement's shape, so only once for all values.
        let mentions = || mentions_system(&prepared.statement().to_string());
        (!*kept.rewritten.get_or_init(mentions)).then_some(prepared)
    }
}
