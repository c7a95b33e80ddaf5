//! Columns of a table from those of one file, which may have other types, or lack some.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_expr_adapter::{
    DefaultPhysicalExprAdapter, PhysicalExprAdapter, PhysicalExprAdapterFactory,
};
use nyala_sql::error::{ErrorKind, QueryError};

use super::intervals::{INTERVAL_BYTES, interval_of_bytes};
use crate::scan::merge::{refusal, twice};

/// Makes adapters for the files of one table.
#[derive(Debug)]
pub struct FileColumns;

impl PhysicalExprAdapterFactory for FileColumns {
    fn create(&self, table: SchemaRef, file: SchemaRef) -> Result<Arc<dyn PhysicalExprAdapter>> {
        Ok(Arc::new(Adapter { table, file }))
    }
}

#[derive(Debug)]
struct Adapter {
    table: SchemaRef,
    file: SchemaRef,
}

impl PhysicalExprAdapter for Adapter {
    fn rewrite(&self, expr: Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        let expr = expr.transform_up(|expr| self.with_months(expr)).data()?;
        DefaultPhysicalExprAdapter::new(self.with_bytes(), Arc::clone(&self.file)).rewrite(expr)
    }
}

impl Adapter {
    /// Checks each column, and reads intervals from their bytes.
    fn with_months(&self, expr: Arc<dyn PhysicalExpr>) -> Result<Transformed<Arc<dyn PhysicalExpr>>> {
        let Some(column) = expr.downcast_ref::<Column>() else { return Ok(Transformed::no(expr)) };
        let Some((table, file)) = self.pair(column.name())? else { return Ok(Transformed::no(expr)) };
        if !is_bytes_of_interval(table, file) {
            return Ok(Transformed::no(expr));
        }
        let options = Arc::new(ConfigOptions::default());
        let call = ScalarFunctionExpr::new(
            interval_of_bytes().name(),
            interval_of_bytes(),
            vec![Arc::clone(&expr)],
            Arc::new(Field::new(table.name(), table.data_type().clone(), true)),
            options,
        );
        Ok(Transformed::yes(Arc::new(call)))
    }

    /// The column in the table and in the file; none if the file lacks it.
    fn pair(&self, name: &str) -> Result<Option<(&Field, &Field)>> {
        let Ok(table) = self.table.field_with_name(name) else { return Ok(None) };
        let Ok(file) = self.file.field_with_name(name) else { return Ok(None) };
        if self.file.fields().iter().filter(|field| field.name() == name).count() > 1 {
            return Err(twice(name).into());
        }
        match refusal(name, file.data_type(), table.data_type()) {
            Some(message) => Err(QueryError::new(ErrorKind::InvalidDefinition, message)
                .hint("list the columns with types that hold all values of the files")
                .into()),
            None => Ok(Some((table, file))),
        }
    }

    /// The table's columns, with bytes for intervals that are read from bytes.
    fn with_bytes(&self) -> SchemaRef {
        let read = |field: &FieldRef| match self.file.field_with_name(field.name()) {
            Ok(file) if is_bytes_of_interval(field, file) => Arc::new(file.clone()),
            _ => Arc::clone(field),
        };
        Arc::new(Schema::new(self.table.fields().iter().map(read).collect::<Vec<FieldRef>>()))
    }
}

fn is_bytes_of_interval(table: &Field, file: &Field) -> bool {
    matches!(table.data_type(), DataType::Interval(_))
        && matches!(file.data_type(), DataType::FixedSizeBinary(INTERVAL_BYTES))
}
