//! An expression that fails once its statement must end.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef, Schema};
use arrow::record_batch::RecordBatch;
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;

use super::yielding::check_statement;

/// Has the value of its argument. For operators that evaluate an expression again and again within one poll.
#[derive(Debug, Clone, Eq)]
pub struct InterruptibleExpr {
    argument: Arc<dyn PhysicalExpr>,
}

impl InterruptibleExpr {
    pub fn new(argument: Arc<dyn PhysicalExpr>) -> Self {
        Self { argument }
    }

    pub fn argument(&self) -> &Arc<dyn PhysicalExpr> {
        &self.argument
    }
}

// A derived `eq` would move the argument out.
impl PartialEq for InterruptibleExpr {
    fn eq(&self, other: &Self) -> bool {
        self.argument.eq(&other.argument)
    }
}

impl Hash for InterruptibleExpr {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.argument.hash(state);
    }
}

impl fmt::Display for InterruptibleExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.argument.fmt(f)
    }
}

impl PhysicalExpr for InterruptibleExpr {
    fn data_type(&self, schema: &Schema) -> Result<DataType> {
        self.argument.data_type(schema)
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        self.argument.nullable(schema)
    }

    fn return_field(&self, schema: &Schema) -> Result<FieldRef> {
        self.argument.return_field(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        check_statement()?;
        self.argument.evaluate(batch)
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.argument]
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        match children.as_slice() {
            [argument] => Ok(Arc::new(Self::new(Arc::clone(argument)))),
            _ => internal_err!("it has one argument, not {}", children.len()),
        }
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.argument.fmt_sql(f)
    }
}
