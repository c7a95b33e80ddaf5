//! The views of a snapshot, planned: unchanged ones over unchanged tables are taken over from the snapshot before.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, RwLock};

use arrow::datatypes::{Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{SchemaProvider, Session};
use datafusion::common::{Column, TableReference};
use datafusion::datasource::{TableProvider, TableType};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, SubqueryAlias};
use datafusion::physical_plan::ExecutionPlan;
use nyala_cube::scan::decode_schema;
use nyala_model::{CatalogSnapshot, QualifiedName, TableEntry, TableId, ViewSource};
use nyala_sql::error::{ErrorKind, QueryError, Result};
use nyala_sql::semantics::SharedRows;
use nyala_sql::statement::{Kind, StatementLimits, parse_named};

use super::context::{ContextSource, Schemas, SnapshotContext, state_over};
use super::schema::{OpenedTable, Table};
use super::titles;

/// The catalog in the alias around the plan of a view. There is no such catalog, and an alias in a statement has one part.
const VIEW: &str = "view";

/// A view: a table whose rows are those of a plan.
#[derive(Debug)]
pub struct OpenView {
    entry: Arc<TableEntry>,
    /// The plan with resolved names; types are settled together with the types of the query around it.
    plan: LogicalPlan,
    /// Whether some of its rows are computed once for several places of the plan.
    shares_rows: bool,
    schema: SchemaRef,
}

impl OpenView {
    /// The catalog's entry.
    pub fn entry(&self) -> &Arc<TableEntry> {
        &self.entry
    }
}

#[async_trait]
impl TableProvider for OpenView {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    /// The planner puts this plan in the place of the table. A statement that names the view twice computes it twice.
    fn get_logical_plan(&self) -> Option<Cow<'_, LogicalPlan>> {
        let apart = self.shares_rows.then(|| SharedRows::apart(self.plan.clone()).ok()).flatten();
        Some(apart.map_or(Cow::Borrowed(&self.plan), Cow::Owned))
    }

    fn get_table_definition(&self) -> Option<&str> {
        Some(&self.entry.definition)
    }

    async fn scan(
        &self,
        _state: &dyn Session,
        _projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> datafusion::error::Result<Arc<dyn ExecutionPlan>> {
        Err(QueryError::internal(format!("view `{}` was read as a table", self.entry.name)).into())
    }
}

/// Adds the views of a snapshot to its opened tables, each after those that it reads.
pub async fn open_views(
    snapshot: &Arc<CatalogSnapshot>,
    source: &ContextSource,
    before: Option<&SnapshotContext>,
    tables: &mut HashMap<QualifiedName, OpenedTable>,
) -> Result<()> {
    let mut waiting: Vec<(&Arc<TableEntry>, &ViewSource)> =
        snapshot.tables.values().filter_map(|entry| Some((entry, entry.view()?))).collect();
    if waiting.is_empty() {
        return Ok(());
    }
    let names: HashMap<TableId, &QualifiedName> =
        snapshot.tables.values().map(|entry| (entry.id, &entry.name)).collect();
    let growing = Growing::over(snapshot, tables);
    let state = state_over(growing.schemas(), source, snapshot)?;
    while !waiting.is_empty() {
        let is_open = |id: &TableId| names.get(id).is_none_or(|name| tables.contains_key(*name));
        let (next, later): (Vec<_>, Vec<_>) =
            waiting.into_iter().partition(|(_, view)| view.reads.iter().all(|(_, id)| is_open(id)));
        for (entry, view) in &next {
            let opened = match before.and_then(|before| unchanged(entry, view, &names, tables, before)) {
                Some(kept) => Ok(Table::View(kept)),
                None => open_view(entry, view, &names, &state, &source.limits).await.map(Table::View),
            };
            if let Err(error) = &opened {
                tracing::warn!(view = %entry.name, %error, "view cannot be read");
            }
            growing.add(&entry.name, &opened);
            tables.insert(entry.name.clone(), opened);
        }
        if next.is_empty() {
            return Err(QueryError::internal("views read each other"));
        }
        waiting = later;
    }
    Ok(())
}

/// The view as it was opened before, if neither it nor a table that it reads has changed since.
fn unchanged(
    entry: &Arc<TableEntry>,
    view: &ViewSource,
    names: &HashMap<TableId, &QualifiedName>,
    tables: &HashMap<QualifiedName, OpenedTable>,
    before: &SnapshotContext,
) -> Option<Arc<OpenView>> {
    let Some(Ok(Table::View(kept))) = before.tables.get(&entry.name) else { return None };
    let same = |(_, id): &(QualifiedName, TableId)| {
        let name = names.get(id)?;
        match (tables.get(*name)?, before.tables.get(*name)?) {
            (Ok(now), Ok(then)) => Some(now.is_same(then)),
            _ => None,
        }
    };
    (Arc::ptr_eq(kept.entry(), entry) && view.reads.iter().all(|read| same(read) == Some(true)))
        .then(|| Arc::clone(kept))
}

async fn open_view(
    entry: &Arc<TableEntry>,
    view: &ViewSource,
    names: &HashMap<TableId, &QualifiedName>,
    state: &SessionState,
    limits: &StatementLimits,
) -> Result<Arc<OpenView>> {
    let renamed = view.reads.iter().filter_map(|(then, id)| {
        let now = names.get(id).filter(|now| **now != then)?;
        Some((then.clone(), (*now).clone()))
    });
    let renamed: BTreeMap<_, _> = renamed.collect();
    let Kind::DataFusion(statement) = parse_named(&view.query, &renamed, limits)?.kind else {
        return Err(QueryError::internal("the query of a view is a statement of another kind"));
    };
    let unfit = |error: QueryError| QueryError {
        message: format!("view `{}` no longer fits its tables: {}", entry.name, error.message),
        ..error
    };
    let plan = titles::plan(*statement, state).await.map_err(unfit)?;
    let schema = Arc::new(decode_schema(entry)?);
    let plan = with_columns(plan, &schema, &view.columns).map_err(unfit)?;
    let plan = within_view(plan, &entry.name)?;
    let shares_rows = SharedRows::are_in(&plan)?;
    Ok(Arc::new(OpenView { entry: Arc::clone(entry), plan, shares_rows, schema }))
}

/// The columns that the view had when it was made. Its tables may have got more since, which a `*` gives too.
fn with_columns(plan: LogicalPlan, schema: &Schema, columns: &[String]) -> Result<LogicalPlan> {
    let given = plan.schema().columns();
    let as_made = given.len() == columns.len();
    let column = |(position, name): (usize, &String)| -> Result<Column> {
        let found = match as_made {
            true => given.get(position),
            false => given.iter().find(|column| column.name == *name),
        };
        found.cloned().ok_or_else(|| {
            QueryError::new(ErrorKind::UndefinedColumn, format!("column `{name}` does not exist"))
                .hint("CREATE OR REPLACE VIEW gives the view another query")
        })
    };
    let columns = columns.iter().enumerate().map(column).collect::<Result<Vec<_>>>()?;
    let named = columns
        .into_iter()
        .zip(schema.fields())
        .map(|(column, field)| Expr::Column(column).alias(field.name()));
    let named = named.collect();
    Ok(LogicalPlan::Projection(Projection::try_new(named, Arc::new(plan))?))
}

/// The plan of a view in an alias by which [`view_of`] knows it, wherever it is planned into a statement. A view may read no table: its name is
/// nowhere else in the plan of a statement that gives it another one.
fn within_view(plan: LogicalPlan, view: &QualifiedName) -> Result<LogicalPlan> {
    let alias = TableReference::full(VIEW, view.schema.as_str(), view.name.as_str());
    Ok(LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(Arc::new(plan), alias)?))
}

/// The view whose plan is in this alias. The right to read the view is enough for all that is below.
pub fn view_of(alias: &SubqueryAlias) -> Option<QualifiedName> {
    match &alias.alias {
        TableReference::Full { catalog, schema, table } if catalog.as_ref() == VIEW => {
            Some(QualifiedName::new(schema.as_ref(), table.as_ref()))
        }
        _ => None,
    }
}

/// Schemas that views are added to while they are opened.
struct Growing(HashMap<String, Arc<GrowingSchema>>);

impl Growing {
    fn over(snapshot: &CatalogSnapshot, tables: &HashMap<QualifiedName, OpenedTable>) -> Self {
        let schemas = snapshot.schemas.iter().map(|name| (name.clone(), Arc::default())).collect();
        let growing = Self(schemas);
        tables.iter().for_each(|(name, table)| growing.add(name, table));
        growing
    }

    fn add(&self, name: &QualifiedName, table: &OpenedTable) {
        if let Some(schema) = self.0.get(&name.schema)
            && let Ok(mut tables) = schema.0.write()
        {
            tables.insert(name.name.clone(), table.clone());
        }
    }

    fn schemas(&self) -> Schemas {
        let schemas = self.0.iter();
        schemas.map(|(name, schema)| (name.clone(), Arc::clone(schema) as Arc<dyn SchemaProvider>)).collect()
    }
}

#[derive(Debug, Default)]
struct GrowingSchema(RwLock<BTreeMap<String, OpenedTable>>);

#[async_trait]
impl SchemaProvider for GrowingSchema {
    fn table_names(&self) -> Vec<String> {
        self.0.read().map(|tables| tables.keys().cloned().collect()).unwrap_or_default()
    }

    async fn table(&self, name: &str) -> datafusion::error::Result<Option<Arc<dyn TableProvider>>> {
        match self.0.read().ok().and_then(|tables| tables.get(name).cloned()) {
            Some(table) => Ok(Some(table.map_err(datafusion::error::DataFusionError::from)?.provider())),
            None => Ok(None),
        }
    }

    fn table_exist(&self, name: &str) -> bool {
        self.0.read().is_ok_and(|tables| tables.contains_key(name))
    }
}
