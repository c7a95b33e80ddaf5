//! Values of parameters for one run of a ready plan.

use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;

/// The values of parameters.
///
/// Most conditions compare a column with parameters. Rows are found with the values themselves, because making expressions
/// with the values in them takes several times as long.
pub trait Values {
    /// The value of a parameter; none if `expr` is no parameter, or one without a value.
    fn value_of(&self, expr: &dyn PhysicalExpr) -> Option<&ScalarValue>;

    /// The expression with values in the place of parameters.
    ///
    /// # Errors
    /// A parameter without a value.
    fn put_into(&self, expr: &Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>>;
}

/// No values, for expressions without parameters.
pub struct NoValues;

impl Values for NoValues {
    fn value_of(&self, _expr: &dyn PhysicalExpr) -> Option<&ScalarValue> {
        None
    }

    fn put_into(&self, expr: &Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(Arc::clone(expr))
    }
}
