//! The columns, the key and the defaults of a live table that is about to be made.

use std::collections::BTreeMap;

use arrow::datatypes::{DataType, Field, Schema};
use datafusion::logical_expr::CreateMemoryTable;
use datafusion::sql::sqlparser::ast::{
    ColumnOption, CreateTable as Create, Expr, Ident, IndexColumn, TableConstraint,
};
use nyala_cube::live::{ROW_NUMBER, ROW_VERSION};
use nyala_model::QualifiedName;
use nyala_sql::error::{ErrorKind, QueryError, Result};
use nyala_sql::statement::folded;

/// The zone of columns with moments.
const UTC: &str = "UTC";

/// The columns of a query, the first ones by the names that the statement gives them.
pub fn renamed(given: Option<&Schema>, names: &[Ident], table: &QualifiedName) -> Result<Schema> {
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

/// Refuses the names of columns that live tables have besides those of their statements.
pub fn check_name(name: &str) -> Result<()> {
    if name == ROW_VERSION || name == ROW_NUMBER {
        let message = format!("`{name}` is a column of its own in live tables");
        return Err(QueryError::new(ErrorKind::InvalidDefinition, message).hint("choose another name"));
    }
    Ok(())
}

/// The columns without the metadata of a query. Key columns are never null.
pub fn columns(schema: &Schema, key: &[String], table: &QualifiedName) -> Result<Schema> {
    if let Some(missing) = key.iter().find(|name| schema.index_of(name).is_err()) {
        let message = format!("key column `{missing}` is not a column of table `{table}`");
        return Err(QueryError::new(ErrorKind::InvalidDefinition, message));
    }
    let mut fields: Vec<Field> = Vec::new();
    for field in schema.fields() {
        let name = field.name();
        check_name(name)?;
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
pub fn without_key(create: &Create, name: &QualifiedName) -> Result<(Create, Option<Vec<String>>)> {
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

pub fn check_constraints(planned: &CreateMemoryTable) -> Result<()> {
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

pub fn defaults(create: &Create) -> Result<BTreeMap<String, String>> {
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
