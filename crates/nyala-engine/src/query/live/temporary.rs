//! Temporary tables and views: live tables in a schema of the session, dropped with it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::sql::sqlparser::ast::{ObjectName, ObjectNamePart};
use nyala_catalog::Change;
use nyala_model::QualifiedName;
use nyala_sql::error::{ErrorKind, QueryError, Result};
use nyala_sql::statement::folded;

use super::forget_dropped;
use crate::query::engine::Engine;
use crate::query::execution::Execution;
use crate::query::session::Session;
use crate::session::{TEMPORARY_SCHEMA, Temporary};

/// Sessions with temporary tables so far.
static SCHEMAS: AtomicU64 = AtomicU64::new(1);

/// The name of a temporary table that is about to be made. Its schema is made if this is the first one of the session.
pub async fn name_for(execution: &Execution<'_>, name: &ObjectName) -> Result<QualifiedName> {
    let [.., ObjectNamePart::Identifier(last)] = name.0.as_slice() else {
        return Err(QueryError::new(ErrorKind::Syntax, format!("`{name}` is not the name of a table")));
    };
    if let [ObjectNamePart::Identifier(schema), _] = name.0.as_slice()
        && folded(schema) != "pg_temp"
    {
        let message = format!("temporary table `{name}` cannot be in a schema of the database");
        return Err(QueryError::new(ErrorKind::InvalidTableDefinition, message).hint("leave the schema out"));
    }
    let schema = match execution.session.settings().temporary() {
        Some(temporary) => Arc::clone(temporary.schema()),
        None => {
            let number = SCHEMAS.fetch_add(1, Ordering::Relaxed);
            let schema: Arc<str> = format!("{}{number}", prefix(execution.engine())).into();
            let change = Change::CreateSchema { name: schema.to_string(), if_not_exists: true };
            execution.commit(change, "CREATE SCHEMA").await?;
            execution.session.set_temporary(Temporary::new(Arc::clone(&schema)));
            schema
        }
    };
    Ok(QualifiedName::new(&*schema, folded(last)))
}

impl Session {
    /// Lets the names of the session mean one more temporary table.
    pub(crate) fn add_temporary(&self, table: &QualifiedName) {
        if let Some(temporary) = self.settings().temporary() {
            self.set_temporary(temporary.clone().with(&table.name));
        }
    }

    /// Takes back the meaning of names whose tables are gone.
    pub(crate) fn forget_temporary(&self) {
        let Some(temporary) = self.settings().temporary().cloned() else { return };
        let snapshot = self.engine.snapshots.catalog().snapshot();
        self.set_temporary(temporary.only(|table| snapshot.tables.contains_key(table)));
    }

    /// Drops all temporary tables, as DISCARD TEMP does.
    pub fn discard_temporary(&self) {
        let Some(temporary) = self.settings().temporary().cloned() else { return };
        self.clear_temporary();
        let (engine, schema) = (Arc::clone(&self.engine), temporary.schema().to_string());
        self.engine.runtime.background.finish(async move { drop_schema(&engine, schema).await });
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.discard_temporary();
    }
}

/// How the names of temporary schemas of this node begin.
fn prefix(engine: &Engine) -> String {
    match engine.catalog().is_shared() {
        true => format!("{TEMPORARY_SCHEMA}{}_", engine.node),
        false => TEMPORARY_SCHEMA.to_owned(),
    }
}

async fn drop_schema(engine: &Arc<Engine>, schema: String) {
    let snapshot = engine.snapshots.catalog().snapshot();
    let tables = snapshot.tables.values().filter(|table| table.name.schema == schema);
    let stores = tables.filter_map(|table| Some(table.live()?.store.clone())).collect();
    let change = Change::DropSchema { name: schema.clone(), if_exists: true, cascade: true };
    let dropped = engine.snapshots.catalog().commit(change).await;
    if let Err(error) = &dropped {
        tracing::warn!(%schema, %error, "temporary tables of a session that ended are left until the next start");
        return;
    }
    if let Err(error) = engine.snapshots.refresh().await {
        tracing::warn!(%error, "the catalog was not opened anew after a session ended");
    }
    forget_dropped(engine, stores).await;
}

/// Drops the temporary tables of sessions that ended with the process before.
pub async fn drop_left_over(engine: &Arc<Engine>) {
    let snapshot = engine.snapshots.catalog().snapshot();
    let left: Vec<String> =
        snapshot.schemas.iter().filter(|schema| schema.starts_with(&prefix(engine))).cloned().collect();
    for schema in left {
        drop_schema(engine, schema).await;
    }
}
