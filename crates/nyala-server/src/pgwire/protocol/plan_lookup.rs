//! Statements that the engine knows already, and what this door keeps with them for everybody who runs them.

use std::sync::OnceLock;

use nyala_engine::Prepared;
use nyala_pg::translation::rewrite::mentions_system;

use super::connection::Connection;
use crate::pgwire::values::encode::Layouts;

/// What is kept with a statement.
#[derive(Debug, Default)]
pub struct Kept {
    pub layouts: Layouts,
    /// Whether it is rewritten for clients of PostgreSQL.
    rewritten: OnceLock<bool>,
}

impl Connection {
    /// The statement of a text that the engine has a plan for. None for what is rewritten here: its plan is another one than the
    /// same text has at other doors.
    pub fn recall(&self, sql: &str) -> Option<Prepared> {
        let prepared = self.session.recall(sql)?;
        let kept = prepared.kept::<Kept>()?;
        // Of the shape, so that it is asked once for all values.
        let mentions = || mentions_system(&prepared.statement().to_string());
        (!*kept.rewritten.get_or_init(mentions)).then_some(prepared)
    }
}
