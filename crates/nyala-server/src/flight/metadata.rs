//! Databases, schemas, tables and keys, as drivers ask for them.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow_flight::sql::metadata::GetTablesBuilder;
use arrow_flight::sql::{
    CommandGetCatalogs, CommandGetDbSchemas, CommandGetPrimaryKeys, CommandGetTableTypes, CommandGetTables,
};
use nyala_engine::{QueryError, Session};
use nyala_model::QualifiedName;
use tonic::Status;

use super::error::{refused, unwritable};
use super::types::Types;
use crate::rest::formats::type_name;
use crate::small_queries::literal;
pub use crate::small_queries::rows as rows_of;

/// The only database.
pub const DATABASE: &str = "nyala";
/// How types of tables are called by `information_schema`, and by drivers.
const TABLE_TYPES: [(&str, &str); 4] = [
    ("BASE TABLE", "TABLE"),
    ("VIEW", "VIEW"),
    ("LOCAL TEMPORARY", "LOCAL TEMPORARY"),
    ("FOREIGN", "FOREIGN TABLE"),
];

/// Keys of a column's metadata that describe its SQL type where Arrow's type does not.
const TYPE_NAME: &str = "ARROW:FLIGHT:SQL:TYPE_NAME";
const PRECISION: &str = "ARROW:FLIGHT:SQL:PRECISION";
const SCALE: &str = "ARROW:FLIGHT:SQL:SCALE";

pub fn catalogs(command: CommandGetCatalogs) -> Result<RecordBatch, Status> {
    let mut found = command.into_builder();
    found.append(DATABASE);
    found.build().map_err(Status::from)
}

pub async fn schemas(session: &Session, command: CommandGetDbSchemas) -> Result<RecordBatch, Status> {
    let mut found = command.into_builder();
    let sql = "SELECT schema_name FROM information_schema.schemata ORDER BY 1";
    for row in refused(rows_of(session, sql).await)? {
        found.append(DATABASE, row.into_iter().next().flatten().unwrap_or_default());
    }
    found.build().map_err(Status::from)
}

pub fn table_types(command: CommandGetTableTypes) -> Result<RecordBatch, Status> {
    let mut found = command.into_builder();
    for (_, name) in TABLE_TYPES {
        found.append(name);
    }
    found.build().map_err(Status::from)
}

/// Tables, with their columns where the client wants them. As through every door, all roles see what there is.
pub async fn tables(
    session: &Session,
    command: CommandGetTables,
    types: Types,
) -> Result<RecordBatch, Status> {
    // Patterns are compared here, too: the columns of a table are only looked up if it is wanted.
    let like = |column: &str, pattern: &Option<String>| match pattern {
        Some(pattern) => format!("{column} LIKE {}", literal(pattern)),
        None => "TRUE".to_owned(),
    };
    let sql = format!(
        "SELECT table_schema, table_name, table_type FROM information_schema.tables WHERE {} AND {} ORDER BY 1, 2",
        like("table_schema", &command.db_schema_filter_pattern),
        like("table_name", &command.table_name_filter_pattern),
    );
    let wanted = command.table_types.clone();
    let include_schema = command.include_schema;
    let mut found: GetTablesBuilder = command.into_builder();
    for row in refused(rows_of(session, &sql).await)? {
        let mut cells = row.into_iter();
        let mut next = || cells.next().flatten().unwrap_or_default();
        let (schema, table, kind) = (next(), next(), next());
        let kind = TABLE_TYPES.iter().find(|(name, _)| *name == kind).map_or(kind.as_str(), |(_, name)| name);
        if !wanted.is_empty() && !wanted.iter().any(|wanted| wanted == kind) {
            continue;
        }
        let columns = match include_schema {
            true => session.columns_of(&QualifiedName::new(&*schema, &*table)).await,
            false => None,
        };
        // A table that cannot be opened is listed without columns.
        let columns = columns.map_or_else(Schema::empty, |columns| described(types, &columns));
        found.append(DATABASE, schema, table, kind, &columns).map_err(Status::from)?;
    }
    found.build().map_err(Status::from)
}

/// The columns of a table with their types in SQL, which drivers show.
fn described(types: Types, columns: &Schema) -> Schema {
    let sent = types.of_table(columns);
    let fields = sent.fields().iter().zip(columns.fields()).map(|(sent, computed)| {
        let mut field = sent.as_ref().clone();
        match computed.data_type() {
            DataType::Decimal32(precision, scale)
            | DataType::Decimal64(precision, scale)
            | DataType::Decimal128(precision, scale)
            | DataType::Decimal256(precision, scale) => field.metadata_mut().extend([
                (TYPE_NAME.to_owned(), "numeric".to_owned()),
                (PRECISION.to_owned(), precision.to_string()),
                (SCALE.to_owned(), scale.to_string()),
            ]),
            other => field.metadata_mut().extend([(TYPE_NAME.to_owned(), type_name(other))]),
        }
        field
    });
    Schema::new(fields.collect::<Vec<_>>())
}

/// The primary key of a table.
pub async fn primary_keys(session: &Session, command: &CommandGetPrimaryKeys) -> Result<RecordBatch, Status> {
    let schema = command.db_schema.as_deref().filter(|schema| !schema.is_empty());
    let schema = schema.map(|schema| format!("AND table_schema = {}", literal(schema))).unwrap_or_default();
    let sql = format!(
        "SELECT table_schema, table_name, column_name, ordinal_position, constraint_name \
         FROM information_schema.key_column_usage WHERE table_name = {} {schema} ORDER BY 1, 2, 4",
        literal(&command.table)
    );
    let rows = refused(rows_of(session, &sql).await)?;
    refused(keys(&rows))
        .and_then(|columns| RecordBatch::try_new(primary_key_columns(), columns).map_err(unwritable))
}

fn keys(rows: &[Vec<Option<String>>]) -> Result<Vec<ArrayRef>, QueryError> {
    let texts = |at: usize| -> ArrayRef {
        Arc::new(rows.iter().map(|row| row.get(at).and_then(Option::as_deref)).collect::<StringArray>())
    };
    let numbers = rows.iter().map(|row| row.get(3)?.as_ref()?.parse().ok());
    let catalogs: ArrayRef = Arc::new(StringArray::from(vec![DATABASE; rows.len()]));
    Ok(vec![catalogs, texts(0), texts(1), texts(2), texts(4), Arc::new(numbers.collect::<Int32Array>())])
}

/// The columns of primary keys, as the protocol has them.
pub fn primary_key_columns() -> SchemaRef {
    let text = |name: &str, nullable| Field::new(name, DataType::Utf8, nullable);
    Arc::new(Schema::new(vec![
        text("catalog_name", true),
        text("db_schema_name", true),
        text("table_name", false),
        text("column_name", false),
        text("key_name", true),
        Field::new("key_sequence", DataType::Int32, false),
    ]))
}

/// The columns of foreign keys, of which there are none.
pub fn foreign_key_columns() -> SchemaRef {
    let text = |name: &str, nullable| Field::new(name, DataType::Utf8, nullable);
    Arc::new(Schema::new(vec![
        text("pk_catalog_name", true),
        text("pk_db_schema_name", true),
        text("pk_table_name", false),
        text("pk_column_name", false),
        text("fk_catalog_name", true),
        text("fk_db_schema_name", true),
        text("fk_table_name", false),
        text("fk_column_name", false),
        Field::new("key_sequence", DataType::Int32, false),
        text("fk_key_name", true),
        text("pk_key_name", true),
        Field::new("update_rule", DataType::UInt8, false),
        Field::new("delete_rule", DataType::UInt8, false),
    ]))
}

pub fn foreign_keys() -> RecordBatch {
    RecordBatch::new_empty(foreign_key_columns())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_tables_have_their_types_in_sql() {
        let columns = Schema::new(vec![
            Field::new("name", DataType::Utf8View, false),
            Field::new("price", DataType::Decimal128(10, 2), true),
        ]);
        let described = described(Types::Common, &columns);
        let told = |at: usize, key: &str| described.field(at).metadata().get(key).cloned();
        assert_eq!(described.field(0).data_type(), &DataType::Utf8);
        assert!(!described.field(0).is_nullable());
        assert_eq!((told(0, TYPE_NAME).as_deref(), told(0, PRECISION)), (Some("text"), None));
        assert_eq!(told(1, TYPE_NAME).as_deref(), Some("numeric"));
        assert_eq!((told(1, PRECISION).as_deref(), told(1, SCALE).as_deref()), (Some("10"), Some("2")));
    }
}
