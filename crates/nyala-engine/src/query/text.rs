//! A client's text: a query with a cached plan, or statements to prepare.

use std::time::Instant;

use nyala_sql::error::{ErrorKind, QueryError, Result};
use nyala_sql::statement::{Statement, parse, unparsed_without_secrets};

use super::answer::Answer;
use super::prepared::Prepared;
use super::session::Session;

/// A text that was read.
#[derive(Debug)]
pub enum Text {
    /// One query with a cached plan, which may run at once.
    Ready(Prepared),
    /// Its statements, to be prepared; none if it is empty.
    Statements(Vec<Statement>),
}

impl Session {
    /// Finds the cached plan of a text, or splits it into statements after checking its size and shape.
    pub fn read(&self, sql: &str) -> Result<Text> {
        match self.recall(sql) {
            Some(prepared) => Ok(Text::Ready(prepared)),
            None => self.parse(sql).map(Text::Statements),
        }
    }

    /// Prepares a text of exactly one statement.
    pub async fn prepare_text(&self, sql: &str) -> Result<Prepared> {
        match self.read(sql)? {
            Text::Ready(prepared) => Ok(prepared),
            Text::Statements(statements) => self.prepare(only(statements)?).await,
        }
    }

    /// Prepares a text of exactly one statement and runs it without parameters.
    pub async fn query(&self, sql: &str) -> Result<Answer> {
        let prepared = self.prepare_text(sql).await?;
        self.execute(&prepared, Vec::new()).await
    }

    /// Splits a text into statements after checking its size and shape. An empty text has none.
    pub(crate) fn parse(&self, sql: &str) -> Result<Vec<Statement>> {
        let begun = Instant::now();
        let mut parsed = parse(sql, self.engine.snapshots.limits());
        let took = begun.elapsed();
        self.engine.observed.registry.phases().parsed(took);
        match parsed.as_deref_mut() {
            Ok([statement]) => statement.parsed_within(took),
            Ok(_) => {}
            Err(error) => self.log_failed(&unparsed_without_secrets(sql), error),
        }
        parsed
    }
}

/// The statement of a text that has no other.
pub fn only(mut statements: Vec<Statement>) -> Result<Statement> {
    match (statements.pop(), statements.is_empty()) {
        (Some(statement), true) => Ok(statement),
        (None, _) => Err(QueryError::new(ErrorKind::Syntax, "statement is empty")),
        (Some(_), false) => Err(QueryError::new(ErrorKind::Syntax, "text has more than one statement")
            .hint("send one statement at a time")),
    }
}
