//! Texts that stand for bytes.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Cast, Expr, LogicalPlan, TryCast};
use datafusion::optimizer::AnalyzerRule;

use crate::error::{ErrorKind, QueryError};

/// What PostgreSQL writes before the digits of bytes.
const HEX: &str = r"\x";

/// Takes a constant text that begins with `\x` for hexadecimal digits where bytes are wanted, as PostgreSQL's clients write
/// them. A cast takes the bytes of the text itself.
#[derive(Debug)]
pub(super) struct BytesOfText;

impl AnalyzerRule for BytesOfText {
    fn name(&self) -> &str {
        "bytes_of_text"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let read = plan.transform_up_with_subqueries(|node| {
            let names = NamePreserver::new(&node);
            let read = node.map_expressions(|expr| {
                let name = names.save(&expr);
                Ok(expr.transform_up(bytes_of)?.update_data(|expr| name.restore(expr)))
            })?;
            if read.transformed { read.map_data(LogicalPlan::recompute_schema) } else { Ok(read) }
        })?;
        Ok(read.data)
    }
}

fn bytes_of(expr: Expr) -> Result<Transformed<Expr>> {
    let (text, data_type) = match &expr {
        Expr::Cast(Cast { expr, field }) | Expr::TryCast(TryCast { expr, field }) => {
            (expr, field.data_type())
        }
        _ => return Ok(Transformed::no(expr)),
    };
    let Expr::Literal(text, _) = text.as_ref() else { return Ok(Transformed::no(expr)) };
    let bytes = match (bytes_of_text(text, data_type), &expr) {
        (None, _) => return Ok(Transformed::no(expr)),
        (Some(Ok(bytes)), _) => bytes,
        (Some(Err(_)), Expr::TryCast(_)) => ScalarValue::try_new_null(data_type)?,
        (Some(Err(error)), _) => return Err(error.into()),
    };
    Ok(Transformed::yes(Expr::Literal(bytes, None)))
}

/// The bytes that `value` stands for, if it is a text that begins with `\x` and `data_type` is one of bytes.
pub(crate) fn bytes_of_text(
    value: &ScalarValue,
    data_type: &DataType,
) -> Option<std::result::Result<ScalarValue, QueryError>> {
    let bytes: fn(Option<Vec<u8>>) -> ScalarValue = match data_type {
        DataType::Binary => ScalarValue::Binary,
        DataType::LargeBinary => ScalarValue::LargeBinary,
        DataType::BinaryView => ScalarValue::BinaryView,
        _ => return None,
    };
    let digits = value.try_as_str().flatten()?.strip_prefix(HEX)?;
    Some(hex::decode(digits).map(|decoded| bytes(Some(decoded))).map_err(|error| {
        let message = format!("`{HEX}{digits}` does not stand for bytes: {error}");
        QueryError::new(ErrorKind::Data, message)
            .hint(r"write two hexadecimal digits for each byte, as in '\x00ff'")
    }))
}
