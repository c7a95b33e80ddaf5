//! `CREATE LIVE TABLE`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::logical_expr::{CreateMemoryTable, DdlStatement, LogicalPlan};
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    ColumnOption, CreateTable as Create, Expr, Ident, IndexColumn, OnCommit, Query,
    Statement as SqlStatement, TableConstraint,
};
use futures::FutureExt;
use futures::future::BoxFuture;
use nyala_catalog::{CatalogError, Change, NewTable};
use nyala_cube::live::{OpenStore, ROW_NUMBER, ROW_VERSION, durability, row_number, shown};
use nyala_cube::scan::encode_schema;
use nyala_model::{LiveSource, QualifiedName, Step, TableId, TableSource};
use nyala_sql::error::{ErrorKind, QueryError, Result};
use nyala_sql::statement::{
    IfExists, LiveStatement, Statement, StatementOption, Width, folded, parse_width, query_statement,
};
use nyala_storage::oplog::{DiskStore, LiveTable, OplogError, TableSpec};

use super::dual_write::{Asked, dual_write};
use super::insert::insert;
use super::{blocking, collect, stores, temporary};
use crate::query::answer::{Answer, Completion};
use crate::query::authorize::Caller;
use crate::query::command::Command;
use crate::query::deadline::Deadline;
use crate::query::engine::Engine;
use crate::query::execution::Execution;
use crate::query::names::name_of;
use crate::query::plan::logical::{Planned, logical_plan};
use crate::session::Settings;

const TAG: &str = "CREATE TABLE";
/// The zone of columns with moments.
const UTC: &str = "UTC";
/// Default number of buckets of a table.
const BUCKETS: u32 = 16;

/// The options in `WITH (…)`.
struct Options {
    store: Option<String>,
    buckets: u32,
    durability: nyala_storage::oplog::Durability,
    ttl_ms: Option<u64>,
}

/// `CREATE LIVE TABLE`.
pub struct CreateTable<'s> {
    pub create: &'s Create,
    /// Names of the first columns, for a table that is made of a query.
    pub names: &'s [Ident],
    /// Whether the table gets the rows of its query.
    pub filled: bool,
    pub options: &'s [StatementOption],
}

impl CreateTable<'_> {
    /// The statement, for people.
    fn definition(&self) -> String {
        LiveStatement::CreateTable {
            create: Box::new(self.create.clone()),
            names: self.names.to_vec(),
            filled: self.filled,
            options: self.options.to_vec(),
        }
        .to_string()
    }
}

impl Command for CreateTable<'_> {
    fn authorize(&self, caller: &Caller<'_>) -> Result<()> {
        match self.create.temporary {
            true => Ok(()),
            false => caller.may_create(caller.name(&self.create.name)?),
        }
    }

    fn query(&self) -> Option<DfStatement> {
        let query = self.create.query.clone()?;
        Some(query_statement(query.clone()).unwrap_or_else(|_| Statement::query(query)))
    }

    fn run<'a>(&'a self, execution: Execution<'a>) -> BoxFuture<'a, Result<Answer>> {
        run(self, execution).boxed()
    }
}

/// Makes a live table; with `AS SELECT …` its first rows too.
async fn run(statement: &CreateTable<'_>, execution: Execution<'_>) -> Result<Answer> {
    let (create, engine, settings) = (statement.create, execution.engine(), &execution.settings);
    let name = match create.temporary {
        true => temporary::name_for(&execution, &create.name).await?,
        false => name_of(&create.name, settings.schema())?,
    };
    check_on_commit(create)?;
    if create.if_not_exists && engine.snapshots.current().snapshot().tables.contains_key(&name) {
        return Ok(Completion::already(TAG, &name));
    }
    let given = Options::parse(statement.options)?;
    let (plain, key) = without_key(create, &name)?;
    let (schema, rows) = match &plain.query {
        Some(query) => {
            let planned = plan_query(engine, query.clone(), settings).await?;
            let schema = renamed(planned.schema.as_deref(), statement.names, &name)?;
            (schema, Some(planned.plan))
        }
        None => {
            let planned = plan(engine, &plain, settings).await?;
            check_constraints(&planned)?;
            (planned.input.schema().as_arrow().clone(), None)
        }
    };
    let parts = Parts {
        schema: columns(&schema, key.as_deref().unwrap_or_default(), &name)?,
        name,
        key,
        defaults: defaults(create)?,
        definition: statement.definition(),
        options: given,
        if_not_exists: create.if_not_exists,
    };
    let (first_rows, made_as) = (rows.filter(|_| statement.filled), parts.name.clone());
    let store = stores::find_or_make(&execution, parts.options.store.as_deref()).await?;
    store.opened().await?;
    // The query runs first: if it fails or is cancelled, it leaves no table.
    let (rows, execution) = match first_rows {
        Some(input) => {
            check_free(engine, &parts.name)?;
            let (rows, execution) = collect::run(input, execution).await?;
            (Some(parts.as_columns(&rows)?), execution)
        }
        None => (None, execution),
    };
    let own = Arc::clone(engine);
    let work = move |asked: Asked| async move { parts.make_filled(&own, &store, rows, asked).await };
    let made = dual_write(&execution, work).await?;
    if create.temporary {
        execution.session.add_temporary(&made_as);
    }
    Ok(match made {
        Some(rows) => Answer::Done(Completion { tag: "SELECT".to_owned(), rows: Some(rows), notice: None }),
        None => Completion::of(TAG),
    })
}

fn check_on_commit(create: &Create) -> Result<()> {
    match &create.on_commit {
        None | Some(OnCommit::PreserveRows) => Ok(()),
        Some(other) => {
            let message = format!("ON COMMIT {other:?} is not supported: each statement is a transaction");
            Err(QueryError::new(ErrorKind::Unsupported, message)
                .hint("a temporary table keeps its rows until the session ends"))
        }
    }
}

/// Fails before the query if the name is taken. The catalog would fail only after it.
fn check_free(engine: &Engine, name: &QualifiedName) -> Result<()> {
    let context = engine.snapshots.current();
    let snapshot = context.snapshot();
    let what = match (snapshot.tables.contains_key(name), snapshot.cubes.contains_key(name)) {
        (true, _) => "table",
        (_, true) => "cube",
        (false, false) => return Ok(()),
    };
    Err(CatalogError::AlreadyExists { what, name: name.to_string() }.into())
}

/// Plans the query that gives a table its columns and its first rows.
async fn plan_query(engine: &Engine, query: Box<Query>, settings: &Settings) -> Result<Planned> {
    let context = engine.snapshots.current();
    let planned = logical_plan(query_statement(query)?, context.state(settings));
    let planned =
        engine.runtime.threads.plan(planned).await.map_err(|error| context.explain_missing(error))?;
    match planned.plan.logical().get_parameter_names()?.into_iter().min() {
        Some(parameter) => {
            let message = format!("{parameter} has no value: CREATE TABLE takes no parameters");
            Err(QueryError::new(ErrorKind::Unsupported, message).hint("write the value in the query"))
        }
        None => Ok(planned),
    }
}

/// The columns of a query, the first ones by the names that the statement gives them.
fn renamed(given: Option<&Schema>, names: &[Ident], table: &QualifiedName) -> Result<Schema> {
    let given = given.ok_or_else(|| QueryError::internal("a query has no columns"))?;
    if names.len() > given.fields().len() {
        let message = format!(
            "table `{table}` names {} columns, but its query has {}",
            names.len(),
            given.fields().len()
        );
        return Err(QueryError::new(ErrorKind::Syntax, message));
    }
    let names = names.iter().map(Some).chain(std::iter::repeat(None));
    let named = given.fields().iter().zip(names).map(|(field, name)| match name {
        Some(name) => field.as_ref().clone().with_name(identifier(name)),
        None => field.as_ref().clone(),
    });
    Ok(Schema::new(named.collect::<Vec<_>>()))
}

/// Has DataFusion plan types and constraints.
async fn plan(engine: &Engine, create: &Create, settings: &Settings) -> Result<CreateMemoryTable> {
    let context = engine.snapshots.current();
    let statement = DfStatement::Statement(Box::new(SqlStatement::CreateTable(create.clone())));
    let planned = engine.runtime.threads.plan(logical_plan(statement, context.state(settings))).await;
    let planned = planned.map_err(|error| context.explain_missing(error))?;
    match planned.plan.logical() {
        LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(create)) if !create.or_replace => Ok(create.clone()),
        _ => Err(QueryError::new(ErrorKind::Unsupported, "CREATE OR REPLACE TABLE is not supported")),
    }
}

/// The columns without the metadata of a query. Key columns are never null.
fn columns(schema: &Schema, key: &[String], table: &QualifiedName) -> Result<Schema> {
    if let Some(missing) = key.iter().find(|name| schema.index_of(name).is_err()) {
        let message = format!("key column `{missing}` is not a column of table `{table}`");
        return Err(QueryError::new(ErrorKind::InvalidDefinition, message));
    }
    let mut fields: Vec<Field> = Vec::new();
    for field in schema.fields() {
        let name = field.name();
        if name == ROW_VERSION || name == ROW_NUMBER {
            let message = format!("`{name}` is a column of its own in live tables");
            return Err(QueryError::new(ErrorKind::InvalidDefinition, message).hint("choose another name"));
        }
        if fields.iter().any(|other| other.name() == name) {
            let message = format!("column `{name}` is there twice");
            return Err(QueryError::new(ErrorKind::DuplicateColumn, message));
        }
        let data_type = match field.data_type() {
            // A column of unknown type takes texts, as in PostgreSQL.
            DataType::Null => DataType::Utf8View,
            // A query gives moments in the zone of its session, which the table outlives.
            DataType::Timestamp(unit, Some(_)) => DataType::Timestamp(*unit, Some(UTC.into())),
            other => other.clone(),
        };
        fields.push(Field::new(name, data_type, field.is_nullable() && !key.contains(name)));
    }
    Ok(Schema::new(fields))
}

/// The statement without its primary key, which DataFusion does not find in the columns of a query; and the
/// key columns, if it has a key.
fn without_key(create: &Create, name: &QualifiedName) -> Result<(Create, Option<Vec<String>>)> {
    let mut plain = create.clone();
    (plain.temporary, plain.on_commit) = (false, None);
    let mut keys: Vec<Vec<String>> = Vec::new();
    plain.constraints.retain(|constraint| match constraint {
        TableConstraint::PrimaryKey(key) => {
            let column = |column: &IndexColumn| match &column.column.expr {
                Expr::Identifier(name) => identifier(name),
                other => other.to_string(),
            };
            keys.push(key.columns.iter().map(column).collect());
            false
        }
        _ => true,
    });
    for column in &mut plain.columns {
        let before = column.options.len();
        column.options.retain(|option| !matches!(option.option, ColumnOption::PrimaryKey(_)));
        if column.options.len() < before {
            keys.push(vec![identifier(&column.name)]);
        }
    }
    let key = keys.pop();
    if !keys.is_empty() {
        let message = format!("table `{name}` has two primary keys");
        return Err(QueryError::new(ErrorKind::InvalidDefinition, message)
            .hint("write PRIMARY KEY (a, b) for one of two columns"));
    }
    Ok((plain, key))
}

fn check_constraints(planned: &CreateMemoryTable) -> Result<()> {
    match planned.constraints.iter().next() {
        Some(_) => {
            let message = "UNIQUE is not supported: only the primary key of a live table is unique";
            Err(QueryError::new(ErrorKind::Unsupported, message))
        }
        None => Ok(()),
    }
}

fn identifier(name: &Ident) -> String {
    folded(name)
}

/// The parts of a table that does not exist yet.
struct Parts {
    name: QualifiedName,
    schema: Schema,
    /// None for a table whose rows have numbers instead.
    key: Option<Vec<String>>,
    defaults: BTreeMap<String, String>,
    definition: String,
    options: Options,
    if_not_exists: bool,
}

impl Parts {
    /// Rows of the query under the names and types of the table.
    fn as_columns(&self, rows: &[RecordBatch]) -> Result<Vec<RecordBatch>> {
        let fields = self.schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let of_table = |batch: &RecordBatch| -> Result<RecordBatch> {
            let columns = batch.columns().iter().zip(schema.fields());
            let columns = columns.map(|(column, field)| Ok(cast(column, field.data_type())?));
            let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
            let columns = columns.collect::<Result<Vec<_>>>()?;
            Ok(RecordBatch::try_new_with_options(Arc::clone(&schema), columns, &options)?)
        };
        rows.iter().map(of_table).collect()
    }

    /// The columns and the key as the store has them.
    fn stored(&self) -> (Schema, Vec<String>) {
        match &self.key {
            Some(key) => (self.schema.clone(), key.clone()),
            None => {
                let number = Arc::new(row_number());
                let fields = self.schema.fields().iter().cloned().chain([number]).collect::<Vec<_>>();
                (Schema::new(fields), vec![ROW_NUMBER.to_owned()])
            }
        }
    }

    /// Makes the table and writes its first rows. Returns their number, if the table comes from a query and
    /// is new. If the write fails the table is dropped.
    async fn make_filled(
        &self,
        engine: &Engine,
        store: &OpenStore,
        rows: Option<Vec<RecordBatch>>,
        asked: Asked,
    ) -> Result<Option<u64>> {
        let made = self.make(engine, store, asked).await?;
        let (Some(table), Some(rows)) = (made, rows) else { return Ok(None) };
        let filled = self.fill(engine, rows).await;
        if filled.is_err()
            && let Err(error) = self.unmake(engine, table, store).await
        {
            tracing::warn!(table = %self.name, %error, "a table is there without the rows that it was made for");
        }
        filled.map(Some)
    }

    /// Makes the table in its store, then in the catalog. None if there is one of this name already.
    async fn make(&self, engine: &Engine, store: &OpenStore, asked: Asked) -> Result<Option<TableId>> {
        let open = store.opened().await?;
        // Until the catalog has the table, clean-up must not take it for one that a crash left behind.
        let _one_at_a_time = engine.store_changes.one_at_a_time.lock().await;
        asked.begin().await?;
        let snapshot = engine.snapshots.catalog().snapshot();
        let entry = snapshot.disk_stores.get(store.name());
        let left_over = entry.map(|entry| entry.leftovers.clone()).unwrap_or_default();
        let (schema, key) = self.stored();
        let spec = TableSpec {
            name: String::new(),
            schema: Arc::new(schema),
            key: key.clone(),
            buckets: self.options.buckets,
            durability: self.options.durability,
            ttl_ms: self.options.ttl_ms,
        };
        let wanted = self.name.to_string();
        let made = blocking(move || make_in(&open, &wanted, &left_over, spec)).await?;
        let source = LiveSource {
            store: store.name().to_owned(),
            stored_as: made.name(),
            key,
            numbered: self.key.is_none(),
            defaults: self.defaults.clone(),
        };
        // The columns as the store has them: it supports fewer types.
        let schema_ipc = encode_schema(&shown(&made.schema(), &source));
        let table = NewTable {
            name: self.name.clone(),
            source: TableSource::Live(source),
            schema_ipc,
            definition: self.definition.clone(),
        };
        let change = Change::CreateTable { table, if_not_exists: self.if_not_exists };
        let catalog = engine.snapshots.catalog();
        let committed = catalog.commit(change).await;
        // A commit that failed may have taken effect all the same. A table that the catalog has must stay; one of
        // which that is not known stays until the next start, which removes it if the catalog does not have it.
        let known = match &committed {
            Ok(done) => Arc::clone(&done.snapshot),
            Err(_) => catalog.refresh().await?,
        };
        let entry = known.tables.get(&self.name).filter(|entry| {
            entry.live().is_some_and(|live| live.store == store.name() && live.stored_as == made.name())
        });
        let Some(id) = entry.map(|entry| entry.id) else {
            // No statement has seen the table, and it is empty.
            blocking(move || Ok(made.drop_table()?)).await?;
            return committed.map(|_| None).map_err(Into::into);
        };
        engine.snapshots.refresh().await?;
        Ok(Some(id))
    }

    async fn fill(&self, engine: &Engine, rows: Vec<RecordBatch>) -> Result<u64> {
        let table = super::find(engine, &self.name)?;
        Ok(insert(&table, rows, IfExists::Replace, None, &Deadline::never()).await?.rows)
    }

    /// Drops the table, unless other statements have written rows to it or made another one of its name.
    async fn unmake(&self, engine: &Engine, table: TableId, store: &OpenStore) -> Result<()> {
        {
            let _one_at_a_time = engine.store_changes.one_at_a_time.lock().await;
            let found = super::find(engine, &self.name)?;
            if found.entry().id != table || found.opened().await?.version().rows() > 0 {
                return Ok(());
            }
            let names = vec![self.name.clone()];
            let change = Change::DropTables { names, views: false, if_exists: true, cascade: false };
            engine.snapshots.catalog().commit(change).await?;
            engine.snapshots.refresh().await?;
        }
        stores::forget_in(engine, store, &store.opened().await?).await;
        Ok(())
    }
}

/// Makes a table under a name that the store does not have. Dropped tables may still have their names there.
/// Names of leftovers are not used either, or else clean-up would remove the rows of this table.
fn make_in(
    store: &DiskStore,
    wanted: &str,
    left_over: &BTreeSet<String>,
    spec: TableSpec,
) -> Result<LiveTable> {
    let mut attempt = 0_u32;
    loop {
        let name = if attempt == 0 { wanted.to_owned() } else { format!("{wanted}~{attempt}") };
        attempt += 1;
        if left_over.contains(&name) {
            continue;
        }
        match store.create_table(TableSpec { name, ..spec.clone() }) {
            Ok(made) => return Ok(made),
            Err(OplogError::TableExists { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn defaults(create: &Create) -> Result<BTreeMap<String, String>> {
    let mut defaults = BTreeMap::new();
    for column in &create.columns {
        for option in &column.options {
            match &option.option {
                ColumnOption::Default(value) => {
                    defaults.insert(identifier(&column.name), value.to_string());
                }
                ColumnOption::Null
                | ColumnOption::NotNull
                | ColumnOption::PrimaryKey(_)
                | ColumnOption::Comment(_) => {}
                other => {
                    let message = format!("`{other}` of column `{}` is not supported", column.name);
                    return Err(QueryError::new(ErrorKind::Unsupported, message));
                }
            }
        }
    }
    Ok(defaults)
}

impl Options {
    fn parse(given: &[StatementOption]) -> Result<Self> {
        let mut options =
            Self { store: None, buckets: BUCKETS, durability: Default::default(), ttl_ms: None };
        for StatementOption { name, value } in given {
            match name.as_str() {
                "disk_store" => options.store = Some(value.clone()),
                "buckets" => options.buckets = value.parse().map_err(|_| bad(name, value, "1 to 4096"))?,
                "sync" => options.durability = durability(value)?,
                "ttl" => options.ttl_ms = ttl(name, value)?,
                _ => {
                    let message = format!("a live table has no option `{name}`");
                    let error = QueryError::new(ErrorKind::InvalidDefinition, message);
                    return Err(error.hint("there are disk_store, buckets, sync and ttl"));
                }
            }
        }
        Ok(options)
    }
}

fn bad(name: &str, value: &str, range: &str) -> QueryError {
    let message = format!("`{value}` is not a value for option `{name}` of a live table");
    QueryError::new(ErrorKind::InvalidDefinition, message).hint(format!("use {range}"))
}

/// How long rows live: a number of milliseconds, or an interval such as `'30 days'`.
fn ttl(name: &str, value: &str) -> Result<Option<u64>> {
    let refused = || bad(name, value, "a whole number of milliseconds, or an interval such as '30 days'");
    if let Ok(ms) = value.parse::<u64>() {
        return Ok(Some(ms).filter(|ms| *ms > 0));
    }
    let seconds = match parse_width(value) {
        Some(Width::Seconds(seconds)) => seconds,
        Some(Width::Step(Step::Days(days))) => days.checked_mul(86_400).ok_or_else(refused)?,
        _ => return Err(refused()),
    };
    u64::try_from(seconds)
        .ok()
        .and_then(|s| s.checked_mul(1000))
        .filter(|ms| *ms > 0)
        .map(Some)
        .ok_or_else(refused)
}
