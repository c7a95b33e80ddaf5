//! Users, projects, tables and columns. The names of fields are Kylin's, with its spelling; older drivers fail on any other.

use axum::extract::State;
use axum::response::Response;
use nyala_engine::SessionOptions;
use serde_json::{Value, json};

use super::answer::Dialect;
use super::cells::{JdbcType, type_named};
use super::error::KylinError;
use super::parameters::Parameters;
use super::session::{ALL, literal, rows, schema_of, session_in};
use crate::http::{Caller, Shared};

/// The catalog that drivers show.
const CATALOG: &str = "defaultCatalog";
const SYSTEM_SCHEMAS: &str = "('information_schema', 'pg_catalog', 'system')";

/// Describes the user. A request that gets here has passed the login.
pub async fn user(Caller(options): Caller, dialect: Dialect) -> Response {
    let name = if options.user.is_empty() { "owner" } else { &options.user };
    let details = json!({
        "username": name,
        "authorities": [{ "authority": "ROLE_ANALYST" }],
        "disabled": false,
        "locked": false,
    });
    dialect.value(match dialect {
        Dialect::Bare => json!({ "userDetails": details }),
        Dialect::Named | Dialect::Envelope => details,
    })
}

/// All schemas, and one project that is all of them.
pub async fn projects(
    State(shared): State<Shared>,
    Caller(options): Caller,
    dialect: Dialect,
    asked: Parameters,
) -> Result<Response, KylinError> {
    let session = session_in(&shared, options, None)?;
    let sql = format!(
        "SELECT schema_name FROM information_schema.schemata WHERE schema_name NOT IN {SYSTEM_SCHEMAS} ORDER BY 1"
    );
    let schemas = rows(&session, &sql).await?;
    let names = schemas.into_iter().filter_map(|row| row.into_iter().next().flatten());
    let all = std::iter::once(ALL.to_owned()).chain(names).map(|name| json!({ "name": name, "uuid": name }));
    Ok(dialect.list("projects", all.collect(), asked.page(dialect)?))
}

/// A table, and its columns.
struct Table {
    schema: String,
    name: String,
    columns: Vec<Column>,
}

struct Column {
    name: String,
    jdbc: JdbcType,
    source_type: String,
    nullable: bool,
}

/// Tables with columns that the user may see.
async fn tables_of(
    shared: &Shared,
    options: SessionOptions,
    project: Option<&str>,
) -> Result<Vec<Table>, KylinError> {
    let session = session_in(shared, options, None)?;
    let one = schema_of(shared, project).map(|schema| format!("AND table_schema = {}", literal(&schema)));
    let sql = format!(
        "SELECT table_schema, table_name, column_name, data_type, is_nullable, numeric_precision, numeric_scale \
         FROM information_schema.columns WHERE table_schema NOT IN {SYSTEM_SCHEMAS} {} \
         ORDER BY table_schema, table_name, ordinal_position",
        one.unwrap_or_default()
    );
    let mut tables: Vec<Table> = Vec::new();
    for row in rows(&session, &sql).await? {
        let mut cells = row.into_iter();
        let mut next = || cells.next().flatten();
        let (schema, name) = (next().unwrap_or_default(), next().unwrap_or_default());
        let (column, source_type) = (next().unwrap_or_default(), next().unwrap_or_default());
        let nullable = next().as_deref() != Some("NO");
        let mut number = || next().and_then(|text| text.parse().ok());
        let jdbc = type_named(&source_type, number(), number());
        let column = Column { name: column, jdbc, source_type, nullable };
        match tables.last_mut().filter(|last| last.schema == schema && last.name == name) {
            Some(table) => table.columns.push(column),
            None => tables.push(Table { schema, name, columns: vec![column] }),
        }
    }
    Ok(tables)
}

/// Tables and columns, for drivers.
pub async fn tables_and_columns(
    State(shared): State<Shared>,
    Caller(options): Caller,
    dialect: Dialect,
    asked: Parameters,
) -> Result<Response, KylinError> {
    let tables = tables_of(&shared, options, asked.project()).await?;
    Ok(dialect.value(tables.iter().map(Table::described).collect()))
}

/// Tables with comments: of columns, their types.
pub async fn tables(
    State(shared): State<Shared>,
    Caller(options): Caller,
    dialect: Dialect,
    asked: Parameters,
) -> Result<Response, KylinError> {
    let page = asked.page(dialect)?;
    let tables = tables_of(&shared, options, asked.project()).await?;
    let shown = tables.iter().map(|table| {
        let columns = table.columns.iter().enumerate().map(|(at, column)| {
            json!({
                "id": (at + 1).to_string(),
                "name": column.name,
                "datatype": column.source_type,
                "comment": "",
            })
        });
        json!({ "database": table.schema, "name": table.name, "columns": columns.collect::<Vec<_>>() })
    });
    Ok(match dialect {
        // Kyligence 3 does not name this list.
        Dialect::Named => dialect.value(shown.collect()),
        Dialect::Bare | Dialect::Envelope => dialect.list("tables", shown.collect(), page),
    })
}

impl Table {
    fn described(&self) -> Value {
        let columns = self.columns.iter().enumerate().map(|(at, column)| column.described(self, at));
        json!({
            "table_CAT": CATALOG,
            "table_SCHEM": self.schema,
            "table_NAME": self.name,
            "table_TYPE": "TABLE",
            "remarks": null,
            "type_CAT": null,
            "type_SCHEM": null,
            "type_NAME": null,
            "self_REFERENCING_COL_NAME": null,
            "ref_GENERATION": null,
            "columns": columns.collect::<Vec<_>>(),
        })
    }
}

impl Column {
    fn described(&self, table: &Table, at: usize) -> Value {
        json!({
            "table_CAT": CATALOG,
            "table_SCHEM": table.schema,
            "table_NAME": table.name,
            "column_NAME": self.name,
            "data_TYPE": self.jdbc.code,
            "type_NAME": self.jdbc.name,
            "column_SIZE": self.jdbc.precision,
            "buffer_LENGTH": -1,
            "decimal_DIGITS": self.jdbc.scale,
            "num_PREC_RADIX": 10,
            "nullable": i32::from(self.nullable),
            "remarks": null,
            "column_DEF": null,
            "sql_DATA_TYPE": -1,
            "sql_DATETIME_SUB": -1,
            "char_OCTET_LENGTH": self.jdbc.precision,
            "ordinal_POSITION": at + 1,
            "is_NULLABLE": if self.nullable { "YES" } else { "NO" },
            "scope_CATLOG": null,
            "scope_SCHEMA": null,
            "scope_TABLE": null,
            "source_DATA_TYPE": -1,
            "is_AUTOINCREMENT": "",
        })
    }
}

/// Answers calls that have Kylin drop its caches. Here a listing is at most `cubes.check_files_ms` old, and these calls have files checked
/// at once.
pub async fn list_files(
    State(shared): State<Shared>,
    Caller(options): Caller,
    dialect: Dialect,
) -> Result<Response, KylinError> {
    let session = session_in(&shared, options, None)?;
    session.set("nyala.check_files", "on")?;
    rows(&session, "SELECT 1").await?;
    Ok(dialect.value(Value::Null))
}
