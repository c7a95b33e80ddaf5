//! `pg_catalog`: the system tables and functions that PostgreSQL tools look things up in.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, PoisonError, RwLock, Weak};

use arrow::array::{Array, ArrayRef, new_null_array};
use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow::ipc::writer::FileWriter;
use arrow::record_batch::RecordBatch;
use arrow_pg::datatypes::PG_CHAR_KEY;
use async_trait::async_trait;
use datafusion::catalog::{CatalogProviderList, SchemaProvider};
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::{TableProvider, TableType};
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::SessionContext;
use datafusion_pg_catalog::pg_catalog::catalog_info::CatalogInfo;
use datafusion_pg_catalog::pg_catalog::context::{PgCatalogContextProvider, Role};
use datafusion_pg_catalog::pg_catalog::oid_type_planner::PgOidTypePlanner;
use datafusion_pg_catalog::pg_catalog::{
    self, ArrowTable, PG_CATALOG_TABLES, PgCatalogSchemaProvider, PgCatalogStaticTables, array_bounds_udf,
    format_type, generate_series_arg_coercion::CoerceIntArgsToBigInt, pg_get_expr_udf, quote_ident_udf,
};
use nyala_engine::SessionExtension;
use nyala_sql::semantics::WrittenTypes;

use super::functions;

const SCHEMA: &str = "pg_catalog";

/// Adds the schema `pg_catalog` and PostgreSQL's system functions to every session.
///
/// One instance serves all catalog snapshots, so that a table keeps its OID from one to the next: tools
/// ask for an OID in one query and use it in the following ones.
#[derive(Debug, Default)]
pub struct PgCatalog {
    current: CurrentCatalog,
    shared: OnceLock<std::result::Result<Shared, String>>,
}

type SystemSchema = PgCatalogSchemaProvider<CurrentCatalog, Roles>;

/// System tables, read once and never changed.
#[derive(Debug)]
struct Shared {
    tables: Arc<PgCatalogStaticTables>,
    schema: Arc<SystemSchema>,
}

impl PgCatalog {
    /// An extension that loads its tables when it is first asked for them.
    pub fn new() -> Self {
        Self::default()
    }

    fn shared(&self) -> Result<&Shared> {
        let shared = self.shared.get_or_init(|| self.load().map_err(|error| error.to_string()));
        shared.as_ref().map_err(|message| DataFusionError::Execution(message.clone()))
    }

    fn load(&self) -> Result<Shared> {
        let mut tables = PgCatalogStaticTables::try_new()?;
        tables.pg_type = Arc::new(with_letters(&tables.pg_type, "typtype")?);
        // It was copied from a server with its passwords.
        tables.pg_authid = Arc::new(with_nulls(&tables.pg_authid, "rolpassword")?);
        let tables = Arc::new(tables);
        let schema = PgCatalogSchemaProvider::try_new(self.current.clone(), Arc::clone(&tables), Roles)?;
        Ok(Shared { tables, schema: Arc::new(schema) })
    }
}

/// The table with a column of the type `"char"`: asyncpg compares the kinds of types as bytes, which it reads of that one.
fn with_letters(table: &ArrowTable, column: &str) -> Result<ArrowTable> {
    let schema = table.schema();
    let fields = schema.fields().iter().map(|field| {
        let metadata = match field.name() == column {
            true => HashMap::from([(PG_CHAR_KEY.to_owned(), "char".to_owned())]),
            false => field.metadata().clone(),
        };
        field.as_ref().clone().with_metadata(metadata)
    });
    table_of(Arc::new(Schema::new(fields.collect::<Vec<_>>())), table, |_, values| Arc::clone(values))
}

/// The table with no value in a column.
fn with_nulls(table: &ArrowTable, column: &str) -> Result<ArrowTable> {
    let schema = table.schema();
    let fields = schema.fields().iter().map(|field| {
        let nullable = field.is_nullable() || field.name() == column;
        field.as_ref().clone().with_nullable(nullable)
    });
    table_of(Arc::new(Schema::new(fields.collect::<Vec<_>>())), table, |field, values| {
        match field.name() == column {
            true => new_null_array(values.data_type(), values.len()),
            false => Arc::clone(values),
        }
    })
}

/// The table with its columns replaced.
fn table_of(
    schema: SchemaRef,
    table: &ArrowTable,
    column: impl Fn(&Field, &ArrayRef) -> ArrayRef,
) -> Result<ArrowTable> {
    // Such a table can only be made from the bytes of an IPC file.
    let mut file = FileWriter::try_new(Vec::new(), &schema)?;
    for batch in table.data() {
        let columns =
            schema.fields().iter().zip(batch.columns()).map(|(field, values)| column(field, values));
        file.write(&RecordBatch::try_new(Arc::clone(&schema), columns.collect())?)?;
    }
    ArrowTable::from_ipc_data(file.into_inner()?)
}

impl SessionExtension for PgCatalog {
    fn prepare(&self, context: &SessionContext) -> Result<()> {
        let shared = self.shared()?;
        let database = context.state_ref().read().config_options().catalog.default_catalog.clone();
        accept_type_names(context);
        register_functions(context, &shared.tables, &database);
        functions::register(context, &shared.tables.pg_type);
        CoerceIntArgsToBigInt::widen(context);
        Ok(())
    }

    fn install(&self, context: &SessionContext) -> Result<()> {
        let shared = self.shared()?;
        let state = context.state();
        let name = state.config_options().catalog.default_catalog.clone();
        let catalog = state.catalog_list().catalog(&name).ok_or_else(|| {
            DataFusionError::Configuration(format!("catalog `{name}` is missing from the session"))
        })?;
        self.current.set(state.catalog_list());
        catalog.register_schema(SCHEMA, Arc::new(Unlisted(Arc::clone(&shared.schema))))?;
        Ok(())
    }
}

/// Finds its tables but does not list them: users list tables to look for their own.
#[derive(Debug)]
struct Unlisted(Arc<SystemSchema>);

#[async_trait]
impl SchemaProvider for Unlisted {
    fn table_names(&self) -> Vec<String> {
        Vec::new()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        self.0.table(name).await
    }

    fn table_exist(&self, name: &str) -> bool {
        self.0.table_exist(name)
    }
}

/// Lets `regclass`, `oid` and `pg_catalog.text` be planned as types.
fn accept_type_names(context: &SessionContext) {
    let state = context.state_ref();
    let planner = Arc::new(WrittenTypes(Some(Arc::new(PgOidTypePlanner))));
    let extended = SessionStateBuilder::new_from_existing(context.state()).with_type_planner(planner).build();
    *state.write() = extended;
}

fn register_functions(context: &SessionContext, tables: &PgCatalogStaticTables, database: &str) {
    for function in [
        pg_catalog::create_current_database_udf(database),
        pg_catalog::create_current_schema_udf(),
        pg_catalog::create_current_schemas_udf(),
        pg_catalog::create_pg_table_is_visible(),
        pg_catalog::create_pg_get_partkeydef_udf(),
        pg_catalog::create_pg_relation_is_publishable_udf(),
        pg_catalog::create_pg_get_statisticsobjdef_columns_udf(),
        pg_catalog::create_pg_encoding_to_char_udf(),
        pg_catalog::create_pg_stat_get_numscans(),
        pg_catalog::create_pg_get_constraintdef(),
        pg_catalog::create_pg_get_partition_ancestors_udf(),
        format_type::create_format_type_udf(),
        pg_get_expr_udf::create_pg_get_expr_udf(),
        quote_ident_udf::create_quote_ident_udf(),
        quote_ident_udf::create_parse_ident_udf(),
        array_bounds_udf::create_array_upper_udf(),
        array_bounds_udf::create_array_lower_udf(),
    ] {
        context.register_udf(function);
    }
    context.register_udtf("pg_get_keywords", Arc::clone(&tables.pg_get_keywords) as _);
}

/// The one role that tools see: without authentication everyone is the owner of everything.
#[derive(Debug, Clone)]
struct Roles;

#[async_trait]
impl PgCatalogContextProvider for Roles {
    async fn roles(&self) -> Vec<String> {
        vec![functions::OWNER.to_owned()]
    }

    async fn role(&self, name: &str) -> Option<Role> {
        (name == functions::OWNER).then(|| Role {
            name: name.to_owned(),
            is_superuser: false,
            can_login: true,
            can_create_db: false,
            can_create_role: false,
            can_create_user: false,
            can_replication: false,
            grants: Vec::new(),
            inherited_roles: Vec::new(),
        })
    }
}

/// The catalog of the newest snapshot, held weakly: the snapshot holds this schema, and a circle would
/// keep every old one in memory.
#[derive(Debug, Clone, Default)]
struct CurrentCatalog(Arc<RwLock<Option<Weak<dyn CatalogProviderList>>>>);

impl CurrentCatalog {
    fn set(&self, catalogs: &Arc<dyn CatalogProviderList>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::downgrade(catalogs));
    }

    fn get(&self) -> Option<Arc<dyn CatalogProviderList>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).as_ref()?.upgrade()
    }

    fn schema(&self, catalog: &str, schema: &str) -> Option<Arc<dyn SchemaProvider>> {
        self.get()?.catalog(catalog)?.schema(schema)
    }
}

/// Names come sorted, so that OIDs are dealt out in the same order every time.
fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort_unstable();
    names
}

#[async_trait]
impl CatalogInfo for CurrentCatalog {
    async fn catalog_names(&self) -> Result<Vec<String>> {
        Ok(self
            .get()
            .map(|catalogs| sorted(CatalogProviderList::catalog_names(catalogs.as_ref())))
            .unwrap_or_default())
    }

    async fn schema_names(&self, catalog: &str) -> Result<Option<Vec<String>>> {
        let catalog = self.get().and_then(|catalogs| catalogs.catalog(catalog));
        Ok(catalog.map(|catalog| sorted(catalog.schema_names())))
    }

    async fn table_names(&self, catalog: &str, schema: &str) -> Result<Option<Vec<String>>> {
        if schema == SCHEMA {
            return Ok(Some(PG_CATALOG_TABLES.iter().map(|name| (*name).to_owned()).collect()));
        }
        Ok(self.schema(catalog, schema).map(|schema| sorted(schema.table_names())))
    }

    async fn table_schema(&self, catalog: &str, schema: &str, table: &str) -> Result<Option<SchemaRef>> {
        let Some(schema) = self.schema(catalog, schema) else {
            return Ok(None);
        };
        // One table that cannot be opened must not hide all others.
        Ok(schema.table(table).await.ok().flatten().map(|table| table.schema()))
    }

    async fn table_type(&self, catalog: &str, schema: &str, table: &str) -> Result<Option<TableType>> {
        match self.schema(catalog, schema) {
            Some(schema) => Ok(schema.table_type(table).await.ok().flatten()),
            None => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]
    use datafusion::arrow::util::display::array_value_to_string;
    use datafusion::prelude::SessionConfig;

    use super::*;

    async fn context(extension: &PgCatalog, tables: &[&str]) -> SessionContext {
        let config = SessionConfig::new().with_default_catalog_and_schema("nyala", "public");
        let context = SessionContext::new_with_config(config);
        for table in tables {
            let sql = format!("CREATE TABLE {table} (a INT NOT NULL, b TEXT)");
            context.sql(&sql).await.unwrap().collect().await.unwrap();
        }
        extension.prepare(&context).unwrap();
        extension.install(&context).unwrap();
        context
    }

    async fn value(context: &SessionContext, sql: &str) -> String {
        let batches = context.sql(sql).await.unwrap().collect().await.unwrap();
        let batch = batches.iter().find(|batch| batch.num_rows() > 0).unwrap();
        array_value_to_string(batch.column(0), 0).unwrap()
    }

    #[tokio::test]
    async fn a_table_keeps_its_oid_over_snapshots() {
        let extension = PgCatalog::new();
        let oid = "SELECT oid FROM pg_catalog.pg_class WHERE relname = 'm'";
        let first = context(&extension, &["m"]).await;
        let before = value(&first, oid).await;
        let second = context(&extension, &["a", "m"]).await;
        assert_eq!(value(&second, oid).await, before);
    }

    #[tokio::test]
    async fn an_old_snapshot_is_not_kept_alive() {
        let extension = PgCatalog::new();
        let old = context(&extension, &["t"]).await;
        let catalogs = Arc::downgrade(old.state().catalog_list());
        drop(old);
        assert!(catalogs.upgrade().is_none());
    }

    #[tokio::test]
    async fn system_functions_answer() {
        let context = context(&PgCatalog::new(), &[]).await;
        assert!(value(&context, "SELECT version()").await.starts_with("PostgreSQL 15.0 (Nyala "));
        assert_eq!(value(&context, "SELECT current_database()").await, "nyala");
        assert_eq!(value(&context, "SELECT to_regtype('integer')").await, "23");
        assert_eq!(value(&context, "SELECT to_regtype('hstore') IS NULL").await, "true");
        assert_eq!(value(&context, "SELECT has_table_privilege(1, 'SELECT')").await, "true");
        assert_eq!(value(&context, "SELECT obj_description(1, 'pg_class') IS NULL").await, "true");
    }
}
