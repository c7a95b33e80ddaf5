//! Casts between UUIDs and texts, which DataFusion does not know.

use arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{Cast, Expr, ExprSchemable, cast};

use super::{Meaning, Scope};
use crate::functions::{UUID, Uuids, read_uuid};

/// Reads and writes UUIDs.
#[derive(Debug)]
pub struct UuidTexts;

impl Meaning for UuidTexts {
    fn name(&self) -> &'static str {
        "uuid_texts"
    }

    fn concerns(&self, expr: &Expr) -> bool {
        matches!(expr, Expr::Cast(Cast { field, .. }) if *field.data_type() == UUID || field.data_type().is_string())
    }

    fn rewrite(&self, expr: Expr, scope: &Scope<'_>) -> Result<Transformed<Expr>> {
        let Expr::Cast(Cast { expr: value, field }) = expr else { return Ok(Transformed::no(expr)) };
        let from = value.get_type(scope.schema);
        Ok(match (*value, from, field.data_type()) {
            (Expr::Literal(ScalarValue::Utf8(Some(text)), _), _, to) if *to == UUID => {
                Transformed::yes(Expr::Literal(uuid(&text)?, None))
            }
            (value, Ok(from), to) if *to == UUID && from.is_string() => {
                Transformed::yes(Uuids::of_text(value))
            }
            (value, Ok(UUID), to) if to.is_string() => {
                let text = Uuids::text_of(value);
                Transformed::yes(if *to == DataType::Utf8View { text } else { cast(text, to.clone()) })
            }
            (value, ..) => Transformed::no(Expr::Cast(Cast { expr: Box::new(value), field })),
        })
    }
}

/// The UUID that a text stands for.
pub fn uuid(text: &str) -> std::result::Result<ScalarValue, crate::error::QueryError> {
    Ok(ScalarValue::FixedSizeBinary(16, Some(read_uuid(text)?.to_vec())))
}
