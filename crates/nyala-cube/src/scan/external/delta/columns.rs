//! The columns of a Delta table.

use std::sync::Arc;

use arrow::datatypes::{Field, FieldRef, Schema};
use delta_kernel::engine::arrow_conversion::TryIntoArrow;
use delta_kernel::scan::Scan;
use delta_kernel::schema::{DataType, SchemaRef};
use delta_kernel::table_features::ColumnMappingMode;
use nyala_sql::error::{ErrorKind, QueryError, Result};

use crate::scan::parquet_files::by_values;

/// The columns of a version.
#[derive(Debug, Clone)]
pub struct DeltaColumns {
    /// All columns, in the order of the log.
    pub all: Vec<FieldRef>,
    /// Names of the columns that are not in the files.
    pub partitions: Vec<String>,
}

impl DeltaColumns {
    /// The columns that a scan of all columns has.
    pub(super) fn of(scan: &Scan) -> Result<Self> {
        let (table, files) = (scan.logical_schema(), scan.physical_schema());
        let names =
            |schema: &SchemaRef| schema.fields().map(|field| field.name().clone()).collect::<Vec<_>>();
        let in_files = names(files);
        // The mode is checked, and not the names: they may differ within structs only, or two columns may have swapped their names.
        let mapping = scan.snapshot().table_properties().column_mapping_mode;
        if mapping.is_some_and(|mode| mode != ColumnMappingMode::None) {
            let message =
                "the table has column mapping, so that columns of its files have other names".to_owned();
            return Err(unsupported(message).hint(
                "Nyala reads tables whose files have the columns' names: write it without `delta.columnMapping.mode`",
            ));
        }
        for field in table.fields() {
            check_type(field.name(), field.data_type())?;
        }
        let schema: Schema = table
            .as_ref()
            .try_into_arrow()
            .map_err(|error| unsupported(format!("the columns of the table cannot be read: {error}")))?;
        let column = |field: &FieldRef| {
            Arc::new(Field::new(field.name(), by_values(field.data_type()), field.is_nullable()))
        };
        let partitions = names(table).into_iter().filter(|name| !in_files.contains(name)).collect();
        Ok(Self { all: schema.fields().iter().map(column).collect(), partitions })
    }
}

/// Checks that a version has the columns that the table had when it was created, with their types.
pub fn check_columns(created: &[FieldRef], now: &[FieldRef]) -> Result<()> {
    for column in created {
        let found = now.iter().find(|other| other.name() == column.name());
        if found.is_some_and(|found| found.data_type() == column.data_type()) {
            continue;
        }
        let name = column.name();
        let message = match found {
            Some(found) => {
                format!("column `{name}` is {} by now, and was {}", found.data_type(), column.data_type())
            }
            None => format!("column `{name}` is gone"),
        };
        return Err(QueryError::new(
            ErrorKind::InvalidDefinition,
            format!("the Delta table has changed: {message}"),
        )
        .hint("drop the table and create it again"));
    }
    Ok(())
}

fn check_type(name: &str, data_type: &DataType) -> Result<()> {
    match data_type {
        DataType::Array(array) => check_type(name, array.element_type()),
        DataType::Map(map) => {
            check_type(name, map.key_type())?;
            check_type(name, map.value_type())
        }
        DataType::Struct(parts) => parts.fields().try_for_each(|part| check_type(name, part.data_type())),
        DataType::Primitive(_) => Ok(()),
        other => Err(unsupported(format!("column `{name}` is {other}, which is not supported"))),
    }
}

fn unsupported(message: String) -> QueryError {
    QueryError::new(ErrorKind::Unsupported, message)
}
