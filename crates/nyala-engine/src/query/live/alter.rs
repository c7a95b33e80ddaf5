//! `ALTER TABLE` of a live table.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use datafusion::logical_expr::{DdlStatement, LogicalPlan};
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    AlterTable as Alter, AlterTableOperation, ColumnDef, ColumnOption, Ident, Statement as SqlStatement,
};
use futures::FutureExt;
use futures::future::BoxFuture;
use nyala_catalog::Change;
use nyala_cube::live::{LiveRef, shown};
use nyala_cube::scan::{decode_schema, encode_schema};
use nyala_model::QualifiedName;
use nyala_sql::error::{ErrorKind, QueryError, Result};
use nyala_sql::statement::folded;
use nyala_storage::oplog::{Alteration, LiveTable};

use super::blocking;
use super::dual_write::{Asked, dual_write};
use super::table_columns::check_name;
use crate::query::answer::{Answer, Completion};
use crate::query::authorize::Caller;
use crate::query::command::Command;
use crate::query::engine::Engine;
use crate::query::execution::Execution;
use crate::query::plan::logical::logical_plan;
use crate::session::Settings;

const TAG: &str = "ALTER TABLE";

/// `ALTER TABLE` of a live table.
pub struct AlterTable<'s>(pub &'s Alter);

impl Command for AlterTable<'_> {
    fn authorize(&self, caller: &Caller<'_>) -> Result<()> {
        caller.may_create(caller.name(&self.0.name)?)
    }

    fn run<'a>(&'a self, execution: Execution<'a>) -> BoxFuture<'a, Result<Answer>> {
        run(self.0, execution).boxed()
    }
}

/// Changes columns: one by one in the store, then all together in the catalog.
async fn run(alter: &Alter, execution: Execution<'_>) -> Result<Answer> {
    let (engine, name) = (execution.engine(), execution.name(&alter.name)?);
    if alter.if_exists && !engine.snapshots.current().snapshot().tables.contains_key(&name) {
        return Ok(Completion::of(TAG));
    }
    // Only this statement waits for a store that is not open yet, and not the next one in the queue of changes.
    super::find(engine, &name)?.opened().await?;
    let (own, alter, settings) = (Arc::clone(engine), alter.clone(), execution.settings.clone());
    let work = move |asked| async move { change(&own, &name, &alter, &settings, asked).await };
    dual_write(&execution, work).await?;
    Ok(Completion::of(TAG))
}

async fn change(
    engine: &Engine,
    name: &QualifiedName,
    alter: &Alter,
    settings: &Settings,
    asked: Asked,
) -> Result<()> {
    let _one_at_a_time = engine.store_changes.one_at_a_time.lock().await;
    asked.check()?;
    engine.snapshots.refresh().await?;
    if alter.if_exists && !engine.snapshots.current().snapshot().tables.contains_key(name) {
        return Ok(());
    }
    // The catalog is reconciled before the check for nothing to do: a client may repeat an ALTER that was cut off.
    let mut table = super::find(engine, name)?;
    let live = table.opened().await?;
    if reconcile(engine, &table, &live).await? {
        table = super::find(engine, name)?;
    }
    let (mut changes, mut schema) = (Vec::new(), shown(&live.schema(), table.source()));
    let key = table.source().key.clone();
    for operation in &alter.operations {
        for change in alterations(engine, operation, (&schema, &key), settings).await? {
            schema = altered(&schema, &change);
            changes.push(change);
        }
    }
    if changes.is_empty() {
        return Ok(());
    }
    check_unread(engine, name, changes.iter().all(|change| matches!(change, Alteration::AddColumn(_))))?;
    asked.begin().await?;
    let altered = live.clone();
    let (made, outcome) = blocking(move || Ok(make(&altered, changes))).await?;
    if !made.is_empty() {
        // Recorded also after a failure: the catalog must list the columns that the table now has.
        let mut defaults = table.source().defaults.clone();
        made.iter().for_each(|change| follow(&mut defaults, change));
        let definition = format!("{}; {alter}", table.entry().definition);
        record(engine, &table, &shown(&live.schema(), table.source()), defaults, definition).await?;
    }
    outcome
}

/// The columns after a change: each operation of a statement sees those before it.
fn altered(schema: &Schema, change: &Alteration) -> Schema {
    let mut fields: Vec<Field> = schema.fields().iter().map(|field| field.as_ref().clone()).collect();
    match change {
        Alteration::AddColumn(field) => fields.push(field.clone()),
        Alteration::DropColumn(name) => fields.retain(|field| field.name() != name),
        Alteration::RenameColumn { from, to } => {
            fields.iter_mut().filter(|field| field.name() == from).for_each(|field| field.set_name(to));
        }
    }
    Schema::new(fields)
}

/// Makes changes until one fails. Returns the changes made, and the outcome.
fn make(table: &LiveTable, changes: Vec<Alteration>) -> (Vec<Alteration>, Result<()>) {
    let mut made = Vec::new();
    for change in changes {
        if let Err(error) = table.alter(change.clone()) {
            return (made, Err(error.into()));
        }
        made.push(change);
    }
    (made, Ok(()))
}

/// A default follows its column. A new column has none, even if an older column of its name had one.
fn follow(defaults: &mut BTreeMap<String, String>, change: &Alteration) {
    match change {
        Alteration::AddColumn(field) => {
            defaults.remove(field.name());
        }
        Alteration::DropColumn(name) => {
            defaults.remove(name);
        }
        Alteration::RenameColumn { from, to } => {
            let own = defaults.remove(from);
            defaults.remove(to);
            defaults.extend(own.map(|value| (to.clone(), value)));
        }
    }
}

/// Runs [`reconcile`] for all tables of an open store.
pub async fn reconcile_all(engine: &Engine, store: &str) -> Result<()> {
    let _one_at_a_time = engine.store_changes.one_at_a_time.lock().await;
    engine.snapshots.refresh().await?;
    let context = engine.snapshots.current();
    let mut names = Vec::new();
    for entry in context.snapshot().tables.values() {
        if entry.live().is_some_and(|live| live.store == store) {
            names.push(entry.name.clone());
        }
    }
    for name in names {
        let Some(Ok(table)) = context.live_table(&name) else { continue };
        // Skips a table that its store does not have: statements on it get the error.
        let Ok(live) = table.opened().await else { continue };
        reconcile(engine, &table, &live).await?;
    }
    Ok(())
}

/// Writes the columns of a table to the catalog if they differ there: then an ALTER was cut off after its
/// change of the store, by the end of the process or by a failed write of the catalog. Returns whether it
/// wrote.
async fn reconcile(engine: &Engine, table: &LiveRef, live: &LiveTable) -> Result<bool> {
    let (known, there) = (decode_schema(table.entry())?, shown(&live.schema(), table.source()));
    // The damage may be in an alteration of the table.
    if known.fields() == there.fields() || !live.version().damage().is_empty() {
        return Ok(false);
    }
    tracing::warn!(table = %table.entry().name, "an alteration of a table was cut off and is completed");
    let mut defaults = table.source().defaults.clone();
    for change in renamed(&known, &there) {
        follow(&mut defaults, &change);
    }
    record(engine, table, &there, defaults, table.entry().definition.clone()).await?;
    Ok(true)
}

/// The columns renamed between two schemas, as far as these show it: a column keeps its place and its type.
fn renamed(before: &Schema, after: &Schema) -> Vec<Alteration> {
    if after.fields().len() < before.fields().len() {
        return Vec::new();
    }
    let mut renamed = Vec::new();
    for (old, new) in before.fields().iter().zip(after.fields()) {
        let gone = after.index_of(old.name()).is_err() && before.index_of(new.name()).is_err();
        if gone && old.data_type() == new.data_type() && old.is_nullable() == new.is_nullable() {
            renamed.push(Alteration::RenameColumn { from: old.name().clone(), to: new.name().clone() });
        }
    }
    renamed
}

/// Fails if a cube or a view reads the table. Both keep to the columns that they had, so added columns do not affect them,
/// except in a natural join: that joins by all columns of one name.
fn check_unread(engine: &Engine, name: &QualifiedName, only_added: bool) -> Result<()> {
    let snapshot = engine.snapshots.current();
    let is_indifferent = |select: &str| only_added && !select.contains("NATURAL");
    let mut cubes = snapshot.snapshot().cubes.values().map(|cube| (cube, &cube.definition));
    let reads = cubes
        .find(|(_, definition)| definition.sources.contains(name) && !is_indifferent(&definition.select));
    if let Some((cube, _)) = reads {
        let message = format!("table `{name}` is used by cube `{}`", cube.name);
        return Err(QueryError::new(ErrorKind::InUse, message).hint("drop the cube first"));
    }
    let id = snapshot.snapshot().tables.get(name).map(|table| table.id);
    let mut views = snapshot.snapshot().tables.values();
    let view = views.find(|table| {
        table.view().is_some_and(|view| {
            view.reads.iter().any(|(_, read)| Some(*read) == id) && !is_indifferent(&view.query)
        })
    });
    match view {
        Some(view) => {
            let message = format!("table `{name}` is read by view `{}`", view.name);
            Err(QueryError::new(ErrorKind::Needed, message).hint("drop the view first"))
        }
        None => Ok(()),
    }
}

async fn record(
    engine: &Engine,
    table: &LiveRef,
    schema: &Schema,
    mut defaults: BTreeMap<String, String>,
    definition: String,
) -> Result<()> {
    defaults.retain(|column, _| schema.index_of(column).is_ok());
    let (table, schema_ipc) = (table.entry().id, encode_schema(schema));
    let change = Change::AlterTable { table, schema_ipc, defaults, definition };
    engine.snapshots.catalog().commit(change).await?;
    engine.snapshots.refresh().await
}

async fn alterations(
    engine: &Engine,
    operation: &AlterTableOperation,
    (schema, key): (&Schema, &[String]),
    settings: &Settings,
) -> Result<Vec<Alteration>> {
    let exists = |name: &str| schema.index_of(name).is_ok();
    match operation {
        AlterTableOperation::AddColumn { if_not_exists, column_def, column_position: None, .. } => {
            let name = column_name(&column_def.name);
            match (exists(&name), if_not_exists) {
                (true, true) => Ok(Vec::new()),
                (true, false) => {
                    let message = format!("column `{name}` already exists");
                    Err(QueryError::new(ErrorKind::DuplicateColumn, message))
                }
                (false, _) => {
                    check_name(&name)?;
                    let data_type = column_type(engine, column_def, settings).await?;
                    Ok(vec![Alteration::AddColumn(Field::new(name, data_type, true))])
                }
            }
        }
        AlterTableOperation::DropColumn { column_names, if_exists, .. } => {
            let names = column_names.iter().map(column_name);
            let kept = names.filter(|name| !if_exists || exists(name));
            kept.map(|name| known(&name, exists(&name)).map(|()| Alteration::DropColumn(name))).collect()
        }
        AlterTableOperation::RenameColumn { old_column_name, new_column_name } => {
            let (from, to) = (column_name(old_column_name), column_name(new_column_name));
            known(&from, exists(&from))?;
            check_name(&to)?;
            if key.contains(&from) {
                let message = format!("column `{from}` is part of the primary key and cannot be renamed");
                return Err(QueryError::new(ErrorKind::Unsupported, message));
            }
            Ok(vec![Alteration::RenameColumn { from, to }])
        }
        other => {
            Err(QueryError::new(ErrorKind::Unsupported, format!("`ALTER TABLE … {other}` is not supported"))
                .hint("columns can be added, dropped and renamed"))
        }
    }
}

fn known(name: &str, exists: bool) -> Result<()> {
    match exists {
        true => Ok(()),
        false => {
            let message = format!("column `{name}` does not exist");
            Err(QueryError::new(ErrorKind::UndefinedColumn, message))
        }
    }
}

fn column_name(name: &Ident) -> String {
    folded(name)
}

/// The type of a new column, as DataFusion plans it for a table with this column only.
async fn column_type(engine: &Engine, column: &ColumnDef, settings: &Settings) -> Result<DataType> {
    let refused = column.options.iter().find(|option| !matches!(option.option, ColumnOption::Null));
    if let Some(option) = refused {
        let message = format!("`{}` of a new column is not supported", option.option);
        return Err(QueryError::new(ErrorKind::Unsupported, message)
            .hint("rows that are there have null in a new column"));
    }
    let mut create = datafusion::sql::sqlparser::ast::helpers::stmt_create_table::CreateTableBuilder::new(
        vec![Ident::new("t")].into(),
    )
    .columns(vec![column.clone()])
    .build();
    create.if_not_exists = false;
    let statement = DfStatement::Statement(Box::new(SqlStatement::CreateTable(create)));
    let state = engine.snapshots.current().state(settings);
    let planned = engine.runtime.threads.plan(logical_plan(statement, state)).await?;
    let field = match planned.plan.logical() {
        LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(create)) => {
            create.input.schema().as_arrow().fields().first().cloned()
        }
        _ => None,
    };
    let field = field.ok_or_else(|| QueryError::internal("a column has no type"))?;
    Ok(field.data_type().clone())
}
