//! `CREATE VIEW`, `DROP TABLE`, `DROP VIEW`, and names of tables and views that change.

use std::collections::{BTreeSet, HashSet};

use arrow::datatypes::{DataType, Field, Schema};
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::ObjectName;
use futures::FutureExt;
use futures::future::BoxFuture;
use nyala_catalog::{CatalogError, Change, NewTable};
use nyala_cube::scan::{decode_schema, encode_schema};
use nyala_model::{CatalogSnapshot, QualifiedName, TableSource, ViewSource};
use nyala_sql::error::{ErrorKind, QueryError, Result};
use nyala_sql::statement::{
    CreateView, DropRelations, Kind, NewName, RelationStatement, RenameRelation, Statement, folded,
    name_with_schemas, parse,
};

use crate::query::answer::{Answer, Completion};
use crate::query::authorize::Caller;
use crate::query::command::Command;
use crate::query::execution::Execution;
use crate::query::live::{forget_leftovers, temporary};
use crate::query::names::name_of;
use crate::query::plan::logical::{Planned, logical_plan};
use crate::session::TEMPORARY_SCHEMA;

/// A statement about views, or about names.
pub struct Relation<'s>(pub &'s RelationStatement);

impl Command for Relation<'_> {
    fn authorize(&self, caller: &Caller<'_>) -> Result<()> {
        match self.0 {
            RelationStatement::CreateView(view) if view.temporary => Ok(()),
            RelationStatement::CreateView(view) => caller.may_create(caller.name(&view.name)?),
            RelationStatement::Drop(drop) => {
                drop.names.iter().try_for_each(|name| caller.may_create(caller.name(name)?))
            }
            RelationStatement::Rename(rename) => {
                let name = caller.name(&rename.name)?;
                caller.may_create(new_name(&name, &rename.to))?;
                // Users who may read the new schema can read the table's rows there, and the caller may be one of them.
                if matches!(rename.to, NewName::Schema(_)) {
                    caller.may_select(std::slice::from_ref(&name))?;
                }
                caller.may_create(name)
            }
        }
    }

    fn query(&self) -> Option<DfStatement> {
        match self.0 {
            RelationStatement::CreateView(view) => Some(Statement::query(view.query.clone())),
            _ => None,
        }
    }

    fn run<'a>(&'a self, execution: Execution<'a>) -> BoxFuture<'a, Result<Answer>> {
        match self.0 {
            RelationStatement::CreateView(view) => create(view, execution).boxed(),
            RelationStatement::Drop(statement) => drop(statement, execution).boxed(),
            RelationStatement::Rename(statement) => rename(statement, execution).boxed(),
        }
    }
}

async fn create(view: &CreateView, execution: Execution<'_>) -> Result<Answer> {
    const TAG: &str = "CREATE VIEW";
    let engine = execution.engine();
    let name = match view.temporary {
        true => temporary::name_for(&execution, &view.name).await?,
        false => name_of(&view.name, execution.settings.schema())?,
    };
    let context = engine.snapshots.current();
    let snapshot = context.snapshot();
    let before = snapshot.tables.get(&name);
    match before {
        Some(table) if view.if_not_exists && table.view().is_some() => return Ok(Completion::of(TAG)),
        Some(table) if !view.or_replace => {
            return Err(CatalogError::AlreadyExists { what: table.kind(), name: name.to_string() }.into());
        }
        _ => {}
    }
    let (query, reads) = named_query(view, &execution, snapshot);
    if let Some((table, _)) =
        reads.iter().find(|(table, _)| execution.settings.is_temporary(table) && !view.temporary)
    {
        let message = format!("view `{name}` would outlive the temporary table `{}`", table.name);
        return Err(
            QueryError::new(ErrorKind::InvalidDefinition, message).hint("write CREATE TEMPORARY VIEW")
        );
    }
    let limits = engine.snapshots.limits();
    let Some(Kind::DataFusion(statement)) = parse(&query, limits)?.pop().map(|statement| statement.kind)
    else {
        return Err(QueryError::internal("the query of a view is a statement of another kind"));
    };
    let planned =
        engine.runtime.threads.plan(logical_plan(*statement, context.state(&execution.settings))).await;
    let planned = planned.map_err(|error| context.explain_missing(error))?;
    let given = query_schema(&planned)?;
    let schema = columns(&given, view, &name)?;
    if let Some(before) = before.filter(|table| table.view().is_some()) {
        check_replaces(&decode_schema(before)?, &schema, &name)?;
    }
    let columns = given.fields().iter().map(|field| field.name().clone()).collect();
    let (temporary, made) = (view.temporary, name.clone());
    let view = NewTable {
        name,
        source: TableSource::View(ViewSource { query, reads, columns }),
        schema_ipc: encode_schema(&schema),
        definition: view.to_string(),
    };
    let change = match before {
        Some(_) => Change::ReplaceView { view },
        None => Change::CreateTable { table: view, if_not_exists: false },
    };
    let done = execution.commit(change, TAG).await?;
    if temporary {
        execution.session.add_temporary(&made);
    }
    Ok(done)
}

/// The query of a view with the schemas of its tables, and these tables.
fn named_query(
    view: &CreateView,
    execution: &Execution<'_>,
    snapshot: &CatalogSnapshot,
) -> (String, Vec<(QualifiedName, nyala_model::TableId)>) {
    let mut query = view.query.clone();
    let find =
        |name: &ObjectName| execution.name(name).ok().filter(|name| snapshot.tables.contains_key(name));
    let found: BTreeSet<QualifiedName> = name_with_schemas(&mut query, &find).into_iter().collect();
    let reads = found.into_iter().filter_map(|name| {
        let id = snapshot.tables.get(&name)?.id;
        Some((name, id))
    });
    (query.to_string(), reads.collect())
}

fn query_schema(planned: &Planned) -> Result<Schema> {
    if let Some(parameter) = planned.plan.logical().get_parameter_names()?.into_iter().min() {
        let message = format!("there is no parameter {parameter}: a view has none");
        return Err(QueryError::new(ErrorKind::InvalidDefinition, message));
    }
    let schema = planned.schema.as_ref();
    schema.map(|schema| schema.as_ref().clone()).ok_or_else(|| QueryError::internal("a query has no columns"))
}

/// The columns of the view: those of the query, the first ones by the names that the view gives them.
fn columns(given: &Schema, view: &CreateView, name: &QualifiedName) -> Result<Schema> {
    if view.columns.len() > given.fields().len() {
        let message = format!(
            "view `{name}` names {} columns, but its query has {}",
            view.columns.len(),
            given.fields().len()
        );
        return Err(QueryError::new(ErrorKind::Syntax, message));
    }
    let names = view.columns.iter().map(|name| Some(folded(name))).chain(std::iter::repeat(None));
    let mut known = HashSet::new();
    let mut fields = Vec::new();
    for (field, name) in given.fields().iter().zip(names) {
        let name = name.unwrap_or_else(|| field.name().clone());
        if !known.insert(name.clone()) {
            let message = format!("column `{name}` is there twice");
            return Err(QueryError::new(ErrorKind::DuplicateColumn, message)
                .hint("give the columns of the view different names"));
        }
        // A column of unknown type is one of texts, as in PostgreSQL.
        let data_type = match field.data_type() {
            DataType::Null => DataType::Utf8View,
            other => other.clone(),
        };
        fields.push(Field::new(name, data_type, true));
    }
    Ok(Schema::new(fields))
}

/// Queries that read the view must go on working: its columns stay, and new ones come last.
fn check_replaces(before: &Schema, after: &Schema, view: &QualifiedName) -> Result<()> {
    let kept = before.fields().iter().zip(after.fields());
    let mut changed =
        kept.filter(|(old, new)| old.name() != new.name() || old.data_type() != new.data_type());
    if before.fields().len() <= after.fields().len() && changed.next().is_none() {
        return Ok(());
    }
    let message = format!("the columns of view `{view}` cannot change their names, types or places");
    Err(QueryError::new(ErrorKind::InvalidTableDefinition, message)
        .hint("add columns after those that are there, or drop the view first"))
}

async fn drop(statement: &DropRelations, execution: Execution<'_>) -> Result<Answer> {
    let DropRelations { views, if_exists, names, cascade } = statement;
    let names = names.iter().map(|name| execution.name(name)).collect::<Result<Vec<_>>>()?;
    let snapshot = execution.engine().snapshots.catalog().snapshot();
    let live = names.iter().filter_map(|name| snapshot.tables.get(name)?.live());
    let stores: BTreeSet<String> = live.map(|live| live.store.clone()).collect();
    let change = Change::DropTables { names, views: *views, if_exists: *if_exists, cascade: *cascade };
    let done = execution.commit(change, if *views { "DROP VIEW" } else { "DROP TABLE" }).await;
    // Forgets the temporary names of all tables that are gone: a refused DROP drops none, and CASCADE drops more than it names.
    execution.session.forget_temporary();
    let done = done?;
    forget_leftovers(&execution, stores).await;
    Ok(done)
}

async fn rename(statement: &RenameRelation, execution: Execution<'_>) -> Result<Answer> {
    let RenameRelation { view, if_exists, name, to } = statement;
    let name = execution.name(name)?;
    let snapshot = execution.engine().snapshots.catalog().snapshot();
    if let Some(table) = snapshot.tables.get(&name)
        && *view
        && table.view().is_none()
    {
        let name = name.to_string();
        return Err(CatalogError::WrongKind { name, is: table.kind(), wanted: "view" }.into());
    }
    let to = new_name(&name, to);
    check_schemas(&name, &to)?;
    let tag = if *view { "ALTER VIEW" } else { "ALTER TABLE" };
    let text = RelationStatement::Rename(statement.clone()).to_string();
    let (is_temporary, made) = (execution.settings.is_temporary(&name), to.clone());
    let change = Change::RenameTable { name, to, if_exists: *if_exists, statement: text };
    let done = execution.commit(change, tag).await?;
    if is_temporary {
        execution.session.forget_temporary();
        if execution.engine().snapshots.catalog().snapshot().tables.contains_key(&made) {
            execution.session.add_temporary(&made);
        }
    }
    Ok(done)
}

/// Fails if a table would leave the schema of a session, or come into one: it would outlive the session, or end with it.
fn check_schemas(name: &QualifiedName, to: &QualifiedName) -> Result<()> {
    let is_of_session = |name: &QualifiedName| name.schema.starts_with(TEMPORARY_SCHEMA);
    if name.schema == to.schema || !(is_of_session(name) || is_of_session(to)) {
        return Ok(());
    }
    let message = format!("`{name}` cannot become `{to}`: nothing moves into or out of temporary schemas");
    Err(QueryError::new(ErrorKind::Unsupported, message).hint("copy the rows with CREATE TABLE … AS"))
}

fn new_name(name: &QualifiedName, to: &NewName) -> QualifiedName {
    match to {
        NewName::Name(to) => QualifiedName::new(&name.schema, folded(to)),
        NewName::Schema(to) => QualifiedName::new(folded(to), &name.name),
    }
}
