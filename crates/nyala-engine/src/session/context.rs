//! One catalog snapshot, opened: everything that depends on the snapshot and on no query is done here
//! once, so that a query only copies pointers.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::datatypes::SchemaRef;
use datafusion::catalog::{CatalogProvider, MemoryCatalogProvider, SchemaProvider};
use datafusion::config::ConfigOptions;
use datafusion::execution::SessionState;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::sql::sqlparser::ast::ObjectName;
use nyala_cube::cube::{CubeIndex, Listings, ReadyCube};
use nyala_cube::live::{Changes, LiveProvider, LiveRef, LiveStores, Pins};
use nyala_cube::scan::{ExternalTable, HotCuboids, Stores, TableFiles};
use nyala_model::suggest::nearest;
use nyala_model::{CatalogSnapshot, QualifiedName};
use nyala_sql::error::{ErrorKind, QueryError, Result};
use nyala_sql::statement::{PLAIN, StatementLimits, folded};

use super::DATABASE;
use super::base::BaseState;
use super::cubes::{judge, ready_cube};
use super::extension::SessionExtension;
use super::schema::{OpenedTable, SnapshotSchema, Table};
use super::settings::Settings;
use super::tables::{live_finder, open_tables, schema_of};
use super::views::open_views;

/// The shared parts that snapshots are opened with.
#[derive(Debug)]
pub struct ContextSource {
    pub runtime: Arc<RuntimeEnv>,
    pub stores: Arc<Stores>,
    pub live: Arc<LiveStores>,
    /// The cuboids in memory; none if the configuration keeps none there.
    pub hot: Option<Arc<HotCuboids>>,
    pub extensions: Vec<Arc<dyn SessionExtension>>,
    pub limits: StatementLimits,
    pub base: BaseState,
}

/// An opened snapshot. Immutable; queries share it.
#[derive(Debug)]
pub struct SnapshotContext {
    snapshot: Arc<CatalogSnapshot>,
    state: SessionState,
    /// A state in which live tables have the versions of their rows, and are in [`PLAIN`] without them; none if there
    /// are no live tables.
    versioned: Option<SessionState>,
    pub(super) tables: Arc<HashMap<QualifiedName, OpenedTable>>,
    cubes: CubeIndex,
    listings: Arc<Listings>,
    epoch: u64,
}

/// Contexts opened so far.
static EPOCHS: AtomicU64 = AtomicU64::new(0);

fn next_epoch() -> u64 {
    EPOCHS.fetch_add(1, Ordering::Relaxed)
}

impl SnapshotContext {
    /// Opens `snapshot`. Tables and cubes that did not change since `before` are taken over.
    pub async fn open(
        snapshot: Arc<CatalogSnapshot>,
        source: &ContextSource,
        before: Option<&SnapshotContext>,
    ) -> Result<Self> {
        source.stores.know_disk_stores(&snapshot);
        source.live.follow(&snapshot);
        let mut tables = open_tables(&snapshot, source, source.base.state(), before);
        open_views(&snapshot, source, before, &mut tables).await?;
        let tables = Arc::new(tables);
        let listings = before.map(|before| Arc::clone(&before.listings)).unwrap_or_default();
        let schema = |name: &String| (name.clone(), Arc::new(schema_of(name, &tables)));
        let schemas: BTreeMap<String, Arc<SnapshotSchema>> = snapshot.schemas.iter().map(schema).collect();
        let has_live = snapshot.tables.values().any(|table| table.live().is_some());
        let mut versioned = has_live.then(|| versioned_over(&schemas, source, &snapshot)).transpose()?;
        let mut state = state_over(listed(schemas), source, &snapshot)?;
        for state in [Some(&mut state), versioned.as_mut()].into_iter().flatten() {
            state.register_udtf(Changes::NAME, Arc::new(Changes::new(live_finder(&tables))));
        }
        let mut cubes = Vec::new();
        for entry in snapshot.cubes.values() {
            cubes.push(Arc::new(ready_cube(entry, &snapshot, &state, source, before, &listings).await));
        }
        let (cubes, epoch) = (CubeIndex::new(cubes), next_epoch());
        Ok(Self { snapshot, state, versioned, tables, cubes, listings, epoch })
    }

    /// This snapshot, with its cubes judged by newer listings.
    pub fn with_listings(&self, listings: Listings) -> Self {
        let judged = self.cubes.iter().map(|cube| {
            let compiled = cube.compiled.clone();
            let coverage = judge(&cube.entry, &compiled, &listings);
            Arc::new(ReadyCube { entry: Arc::clone(&cube.entry), compiled, coverage })
        });
        Self {
            snapshot: Arc::clone(&self.snapshot),
            state: self.state.clone(),
            versioned: self.versioned.clone(),
            tables: Arc::clone(&self.tables),
            cubes: CubeIndex::new(judged.collect::<Vec<_>>()),
            listings: Arc::new(listings),
            epoch: next_epoch(),
        }
    }

    /// The newest listings of the tables' folders.
    pub fn listings(&self) -> &Arc<Listings> {
        &self.listings
    }

    /// Lists the files in the folder of a table now. `statistics` asks for statistics of its columns too.
    pub async fn list(&self, table: &QualifiedName, statistics: bool) -> Result<TableFiles> {
        TableFiles::list(self.external(table)?, &self.state, statistics).await
    }

    /// A table of files.
    pub fn external(&self, table: &QualifiedName) -> Result<&Arc<ExternalTable>> {
        match self.tables.get(table) {
            Some(Ok(Table::External(table))) => Ok(table),
            Some(Ok(Table::Live(_) | Table::View(_))) => Err(QueryError::new(
                ErrorKind::Unsupported,
                format!("table `{table}` is not external: it has no files"),
            )),
            Some(Err(error)) => Err(error.clone()),
            None => {
                Err(QueryError::new(ErrorKind::UndefinedTable, format!("table `{table}` does not exist")))
            }
        }
    }

    /// The snapshot this was opened from.
    pub fn snapshot(&self) -> &Arc<CatalogSnapshot> {
        &self.snapshot
    }

    /// The cubes, by fact table.
    pub fn cubes(&self) -> &CubeIndex {
        &self.cubes
    }

    /// The options of a new session.
    pub fn default_options(&self) -> Arc<ConfigOptions> {
        Arc::clone(self.state.config_options())
    }

    /// A number that no other context of this process has.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Adds a suggestion to an error about a missing table.
    pub fn explain_missing(&self, error: QueryError) -> QueryError {
        if error.kind != ErrorKind::UndefinedTable || error.hint.is_some() {
            return error;
        }
        let wanted = error.message.split('`').nth(1).unwrap_or_default().to_owned();
        if let Some(cube) = self.snapshot.cubes.keys().find(|cube| cube.to_string() == wanted) {
            return QueryError::new(ErrorKind::UndefinedTable, format!("`{cube}` is a cube, not a table"))
                .hint("query the cube's tables; it is used by itself where it fits (see EXPLAIN)");
        }
        let (schema, name) = wanted.split_once('.').unwrap_or(("", &wanted));
        let here = self.snapshot.tables.keys().filter(|table| table.schema == schema);
        match nearest(name, here.map(|table| table.name.as_str())) {
            Some(near) => error.hint(format!("did you mean `{near}`?")),
            None => error.hint("`SHOW TABLES` lists the tables"),
        }
    }

    /// A live table.
    pub fn live_table(&self, name: &QualifiedName) -> Option<Result<Arc<LiveRef>>> {
        match self.tables.get(name)? {
            Ok(Table::Live(table)) => Some(Ok(Arc::clone(table.table()))),
            Ok(Table::External(_) | Table::View(_)) => None,
            Err(error) => Some(Err(error.clone())),
        }
    }

    /// The columns of a table or view, also of the system; none if there is none of this name, or it cannot be opened.
    pub async fn columns_of(&self, name: &QualifiedName) -> Option<SchemaRef> {
        if let Some(table) = self.tables.get(name) {
            return table.as_ref().ok().map(|table| table.provider().schema());
        }
        let schema = self.state.catalog_list().catalog(DATABASE)?.schema(&name.schema)?;
        let table = schema.table(&name.name).await.ok().flatten()?;
        Some(table.schema())
    }

    /// The full name of the live table that `name` in a statement means.
    pub fn live_named(&self, name: &ObjectName, settings: &Settings) -> Option<QualifiedName> {
        let parts: Option<Vec<String>> = name.0.iter().map(|part| part.as_ident().map(folded)).collect();
        let parts = parts?;
        let own: &str = settings.schema();
        let name = match parts.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            [name] => QualifiedName::new(own, name),
            [schema, name] | [DATABASE, schema, name] => QualifiedName::new(schema, name),
            _ => return None,
        };
        self.live_table(&name).map(|_| name)
    }

    /// The live table that `name` in a statement means.
    pub fn live_table_named(&self, name: &ObjectName, settings: &Settings) -> Option<&LiveProvider> {
        match self.tables.get(&self.live_named(name, settings)?)? {
            Ok(Table::Live(table)) => Some(table),
            _ => None,
        }
    }

    /// The state to plan one statement with.
    pub fn state(&self, settings: &Settings) -> SessionState {
        begin(self.state.clone(), settings)
    }

    /// The state to plan a statement with that reads or writes the versions of rows.
    pub fn versioned_state(&self, settings: &Settings) -> SessionState {
        begin(self.versioned.as_ref().unwrap_or(&self.state).clone(), settings)
    }
}

fn begin(mut state: SessionState, settings: &Settings) -> SessionState {
    let config = state.config_mut();
    config.set_extension(Arc::new(Pins::default()));
    config.set_extension(Arc::new(settings.clone()));
    let options = config.options_mut();
    *options = settings.options().clone();
    options.catalog.default_schema = settings.schema().to_string();
    state.mark_start_execution();
    state
}

/// Schemas by name.
pub type Schemas = BTreeMap<String, Arc<dyn SchemaProvider>>;

/// Schemas that are found by name, but not listed: a listing of tables has each table once.
#[derive(Debug)]
struct Unlisted(Schemas);

impl CatalogProvider for Unlisted {
    fn schema_names(&self) -> Vec<String> {
        Vec::new()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        self.0.get(name).cloned()
    }
}

/// A state as [`state_over`] makes it, with the versions of rows.
fn versioned_over(
    schemas: &BTreeMap<String, Arc<SnapshotSchema>>,
    source: &ContextSource,
    snapshot: &Arc<CatalogSnapshot>,
) -> Result<SessionState> {
    let versioned = schemas.iter().map(|(name, schema)| (name.clone(), Arc::new(schema.with_versions())));
    let state = state_over(listed(versioned.collect()), source, snapshot)?;
    let plain = Arc::new(Unlisted(listed(schemas.clone())));
    state.catalog_list().register_catalog(PLAIN.to_owned(), plain);
    Ok(state)
}

fn listed(schemas: BTreeMap<String, Arc<SnapshotSchema>>) -> Schemas {
    schemas.into_iter().map(|(name, schema)| (name, schema as Arc<dyn SchemaProvider>)).collect()
}

/// A state with these schemas in its database, and the schemas of the extensions.
pub fn state_over(
    schemas: Schemas,
    source: &ContextSource,
    snapshot: &Arc<CatalogSnapshot>,
) -> Result<SessionState> {
    let context = source.base.begin();
    let database = Arc::new(MemoryCatalogProvider::new());
    for (name, schema) in schemas {
        database.register_schema(&name, schema)?;
    }
    context.register_catalog(DATABASE, database);
    for extension in &source.extensions {
        extension.install(&context, snapshot)?;
    }
    Ok(context.state())
}
