//! `pg_catalog` and `information_schema`: the system tables and functions that PostgreSQL tools look things up in.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use arrow::array::ArrayRef;
use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow::ipc::writer::FileWriter;
use arrow::record_batch::RecordBatch;
use arrow_pg::datatypes::PG_CHAR_KEY;
use async_trait::async_trait;
use datafusion::catalog::SchemaProvider;
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::TableProvider;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::SessionContext;
use datafusion_pg_catalog::pg_catalog::context::{PgCatalogContextProvider, Role};
use datafusion_pg_catalog::pg_catalog::oid_type_planner::PgOidTypePlanner;
use datafusion_pg_catalog::pg_catalog::{
    self, ArrowTable, PgCatalogSchemaProvider, PgCatalogStaticTables, array_bounds_udf,
    generate_series_arg_coercion::CoerceIntArgsToBigInt, quote_ident_udf,
};
use nyala_engine::{MadeTable, SessionExtension};
use nyala_model::CatalogSnapshot;
use nyala_sql::semantics::WrittenTypes;

use super::activity::{self, Activity};
use super::call::Current;
use super::database::Database;
use super::information_schema::{self, InformationSchema};
use super::no_catalogs::NoCatalogs;
use super::tables::{CatalogTable, DEFINITIONS, is_known};
use super::{descriptions, functions, object_names, privileges};

const SCHEMA: &str = "pg_catalog";

/// Adds the schemas `pg_catalog` and `information_schema` and PostgreSQL's system functions to every session.
#[derive(Debug, Default)]
pub struct PgCatalog {
    current: Current,
    shared: OnceLock<std::result::Result<Shared, String>>,
}

type StaticSchema = PgCatalogSchemaProvider<NoCatalogs, Roles>;

/// System tables about PostgreSQL's own types, functions and the like: read once and never changed.
#[derive(Debug)]
struct Shared {
    tables: Arc<PgCatalogStaticTables>,
    schema: Arc<StaticSchema>,
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
        tables.pg_type = Arc::new(with_letters(&tables.pg_type)?);
        self.current.names.fill(&tables.pg_type, &tables.pg_proc);
        let tables = Arc::new(tables);
        let schema = PgCatalogSchemaProvider::try_new(NoCatalogs, Arc::clone(&tables), Roles)?;
        Ok(Shared { tables, schema: Arc::new(schema) })
    }
}

/// The columns of `pg_type` that have the type `"char"`.
const LETTERS: [&str; 5] = ["typtype", "typcategory", "typdelim", "typalign", "typstorage"];

/// The table with columns of the type `"char"`: asyncpg compares the kinds of types as bytes.
fn with_letters(table: &ArrowTable) -> Result<ArrowTable> {
    let schema = table.schema();
    let fields = schema.fields().iter().map(|field| {
        let metadata = match LETTERS.contains(&field.name().as_str()) {
            true => HashMap::from([(PG_CHAR_KEY.to_owned(), "char".to_owned())]),
            false => field.metadata().clone(),
        };
        field.as_ref().clone().with_metadata(metadata)
    });
    table_of(Arc::new(Schema::new(fields.collect::<Vec<_>>())), table, |_, values| Arc::clone(values))
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
    fn configure(&self, builder: SessionStateBuilder) -> Result<SessionStateBuilder> {
        let mut builder = builder;
        // DataFusion's `information_schema` is left out: PostgreSQL's takes its place.
        if let Some(config) = builder.config() {
            *config = std::mem::take(config).with_information_schema(false);
        }
        Ok(builder)
    }

    fn prepare(&self, context: &SessionContext) -> Result<()> {
        let shared = self.shared()?;
        let database = context.state_ref().read().config_options().catalog.default_catalog.clone();
        accept_type_names(context);
        register_functions(context, &shared.tables, &database);
        functions::register(context);
        descriptions::register(context, &self.current);
        object_names::register(context, &self.current);
        privileges::register(context, &self.current);
        CoerceIntArgsToBigInt::widen(context);
        Ok(())
    }

    fn install(&self, context: &SessionContext, snapshot: &Arc<CatalogSnapshot>) -> Result<()> {
        let shared = self.shared()?;
        let state = context.state();
        let name = state.config_options().catalog.default_catalog.clone();
        let catalogs = state.catalog_list();
        let catalog = catalogs.catalog(&name).ok_or_else(|| {
            DataFusionError::Configuration(format!("catalog `{name}` is missing from the session"))
        })?;
        let database = Arc::new(Database::new(Arc::clone(snapshot), catalogs));
        let system = SystemSchema { own: Arc::clone(&database), others: Arc::clone(&shared.schema) };
        catalog.register_schema(SCHEMA, Arc::new(system))?;
        let standard =
            InformationSchema { database: Arc::clone(&database), catalogs: Arc::downgrade(catalogs) };
        catalog.register_schema(information_schema::SCHEMA, Arc::new(standard))?;
        self.current.set(database);
        Ok(())
    }
}

/// Finds the system tables but does not list them: users list tables to look for their own.
#[derive(Debug)]
struct SystemSchema {
    own: Arc<Database>,
    others: Arc<StaticSchema>,
}

#[async_trait]
impl SchemaProvider for SystemSchema {
    fn table_names(&self) -> Vec<String> {
        Vec::new()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if name == activity::NAME {
            return Ok(Some(Arc::new(MadeTable(Activity::new(Arc::clone(&self.own))))));
        }
        match DEFINITIONS.iter().find(|definition| definition.name == name) {
            Some(definition) => Ok(Some(CatalogTable::provider(definition, &self.own))),
            None => self.others.table(name).await,
        }
    }

    fn table_exist(&self, name: &str) -> bool {
        is_known(name)
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
        pg_catalog::create_pg_get_partkeydef_udf(),
        pg_catalog::create_pg_relation_is_publishable_udf(),
        pg_catalog::create_pg_get_statisticsobjdef_columns_udf(),
        pg_catalog::create_pg_encoding_to_char_udf(),
        pg_catalog::create_pg_stat_get_numscans(),
        pg_catalog::create_pg_get_partition_ancestors_udf(),
        quote_ident_udf::create_parse_ident_udf(),
        array_bounds_udf::create_array_upper_udf(),
        array_bounds_udf::create_array_lower_udf(),
    ] {
        context.register_udf(function);
    }
    context.register_udtf("pg_get_keywords", Arc::clone(&tables.pg_get_keywords) as _);
}

/// Gives the library no roles: its own table of them is not used.
#[derive(Debug, Clone)]
struct Roles;

#[async_trait]
impl PgCatalogContextProvider for Roles {
    async fn roles(&self) -> Vec<String> {
        Vec::new()
    }

    async fn role(&self, _: &str) -> Option<Role> {
        None
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
        extension.install(&context, &Arc::new(CatalogSnapshot::default())).unwrap();
        context
    }

    async fn value(context: &SessionContext, sql: &str) -> String {
        let batches = context.sql(sql).await.unwrap().collect().await.unwrap();
        let batch = batches.iter().find(|batch| batch.num_rows() > 0).unwrap();
        array_value_to_string(batch.column(0), 0).unwrap()
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
        assert_eq!(value(&context, "SELECT has_table_privilege('pg_class', 'SELECT')").await, "true");
        assert_eq!(
            value(&context, "SELECT nyala_regclass_name(nyala_regclass('pg_class'))").await,
            "pg_class"
        );
        assert_eq!(value(&context, "SELECT obj_description(1, 'pg_class') IS NULL").await, "true");
    }
}
