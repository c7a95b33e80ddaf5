//! One execution of a statement.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use datafusion::sql::sqlparser::ast::ObjectName;
use nyala_catalog::Change;
use nyala_model::{CatalogSnapshot, QualifiedName};
use nyala_sql::error::Result;

use super::activity::Running;
use super::answer::{Answer, Completion};
use super::columns;
use super::deadline::Deadline;
use super::engine::Engine;
use super::names::name_in;
use super::session::Session;
use crate::session::Settings;

/// A statement from its dispatch to its answer.
pub struct Execution<'a> {
    pub session: &'a Session,
    /// The session's settings when the statement began.
    pub settings: Settings,
    pub deadline: Deadline,
    /// Its place among the running statements. An answer with rows takes it along.
    pub running: Running,
    /// Whether the statement must not be sent to another node that could do it, too.
    pub only_here: bool,
}

impl<'a> Execution<'a> {
    pub fn engine(&self) -> &'a Arc<Engine> {
        &self.session.engine
    }

    /// A name in the statement; bare names are of the session's schema.
    pub fn name(&self, name: &ObjectName) -> Result<QualifiedName> {
        name_in(name, &self.settings)
    }

    /// Makes a change of the catalog, also if the statement ends meanwhile, and opens the snapshot that has the change.
    pub async fn commit(&self, change: Change, tag: &str) -> Result<Answer> {
        let snapshots = &self.engine().snapshots;
        let notice = skipped(&change, &snapshots.catalog().snapshot());
        let made = async {
            snapshots.catalog().commit(change).await?;
            snapshots.refresh().await
        };
        self.deadline.hand_over(made).await?;
        Ok(Answer::Done(Completion { tag: tag.to_owned(), rows: None, notice }))
    }

    /// An answer of one batch.
    pub fn rows(self, batch: RecordBatch) -> Answer {
        Answer::ready(batch.schema(), vec![batch], self.running, None)
    }

    /// An answer of these columns.
    pub fn columns(self, schema: SchemaRef, columns: Vec<ArrayRef>) -> Result<Answer> {
        Ok(self.rows(columns::batch(schema, columns)?))
    }
}

/// What IF EXISTS and IF NOT EXISTS leave out, for the client; none if something is done.
fn skipped(change: &Change, catalog: &CatalogSnapshot) -> Option<String> {
    match change {
        Change::CreateSchema { name, if_not_exists: true } if catalog.schemas.contains(name) => {
            Some(format!("schema `{name}` already exists, skipping"))
        }
        Change::DropSchema { name, if_exists: true, .. } if !catalog.schemas.contains(name) => {
            Some(format!("schema `{name}` does not exist, skipping"))
        }
        Change::DropTables { names, views, if_exists: true, .. } => {
            let missing = names.iter().find(|name| !catalog.tables.contains_key(*name))?;
            let what = if *views { "view" } else { "table" };
            Some(format!("{what} `{}` does not exist, skipping", missing.name))
        }
        _ => None,
    }
}
