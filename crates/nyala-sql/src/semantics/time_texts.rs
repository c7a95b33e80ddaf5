//! The texts of timestamps, intervals and lists.

use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::{Cast, Expr, ExprSchemable, TryCast, cast};

use super::{Meaning, Scope};
use crate::functions::{ListText, TimeText};

/// Casts of timestamps, intervals and lists to text write them as the wire shows them.
#[derive(Debug)]
pub struct TimeTexts;

impl Meaning for TimeTexts {
    fn name(&self) -> &'static str {
        "time_texts"
    }

    fn concerns(&self, expr: &Expr) -> bool {
        matches!(expr, Expr::Cast(Cast { field, .. }) | Expr::TryCast(TryCast { field, .. })
            if field.data_type().is_string())
    }

    fn rewrite(&self, expr: Expr, scope: &Scope<'_>) -> Result<Transformed<Expr>> {
        let (Expr::Cast(Cast { expr: time, field }) | Expr::TryCast(TryCast { expr: time, field })) = &expr
        else {
            return Ok(Transformed::no(expr));
        };
        Ok(match time.get_type(scope.schema) {
            Ok(DataType::Timestamp(..) | DataType::Interval(_) | DataType::Duration(_)) => {
                let text = TimeText::udf().call(vec![time.as_ref().clone()]);
                Transformed::yes(match field.data_type() {
                    DataType::Utf8View => text,
                    other => cast(text, other.clone()),
                })
            }
            Ok(DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..)) => {
                let text = ListText::udf().call(vec![time.as_ref().clone()]);
                Transformed::yes(match field.data_type() {
                    DataType::Utf8View => text,
                    other => cast(text, other.clone()),
                })
            }
            _ => Transformed::no(expr),
        })
    }
}
