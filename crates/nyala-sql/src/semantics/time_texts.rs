//! Texts of values that DataFusion's casts write differently.

use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::{Cast, Expr, ExprSchemable, TryCast, cast};

use super::rounding::Of;
use super::{Meaning, Scope};
use crate::functions::{TimeText, ValueText, is_bytes, is_plain};

/// Casts of timestamps, intervals and lists to text write them as PostgreSQL's protocol shows them.
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
                let text = ValueText::udf().call(vec![time.as_ref().clone()]);
                Transformed::yes(match field.data_type() {
                    DataType::Utf8View => text,
                    other => cast(text, other.clone()),
                })
            }
            _ => Transformed::no(expr),
        })
    }
}

/// Casts of floating-point numbers and dates to text write them as PostgreSQL's protocol shows them. Casts of
/// columns stay until operators are chosen, because cubes are recognised by them.
#[derive(Debug)]
pub struct PlainTexts {
    pub of: Of,
}

impl Meaning for PlainTexts {
    fn name(&self) -> &'static str {
        "plain_texts"
    }

    fn concerns(&self, expr: &Expr) -> bool {
        is_text_cast(expr)
    }

    fn rewrite(&self, expr: Expr, scope: &Scope<'_>) -> Result<Transformed<Expr>> {
        written(expr, |value| {
            value.get_type(scope.schema).is_ok_and(|of| is_plain(&of)) && self.of.has(value)
        })
    }
}

/// Casts of bytes to text write hexadecimal digits: DataFusion takes the bytes for text. Functions of texts
/// still take bytes as arguments for text.
#[derive(Debug)]
pub struct BytesTexts;

impl Meaning for BytesTexts {
    fn name(&self) -> &'static str {
        "bytes_texts"
    }

    fn concerns(&self, expr: &Expr) -> bool {
        is_text_cast(expr)
    }

    fn rewrite(&self, expr: Expr, scope: &Scope<'_>) -> Result<Transformed<Expr>> {
        written(expr, |value| value.get_type(scope.schema).is_ok_and(|of| is_bytes(&of)))
    }
}

fn is_text_cast(expr: &Expr) -> bool {
    matches!(expr, Expr::Cast(Cast { field, .. }) | Expr::TryCast(TryCast { field, .. })
        if field.data_type().is_string())
}

/// The cast replaced by our own function, if `is_such` holds for its operand.
fn written(expr: Expr, is_such: impl Fn(&Expr) -> bool) -> Result<Transformed<Expr>> {
    match expr {
        Expr::Cast(Cast { expr: value, field }) | Expr::TryCast(TryCast { expr: value, field })
            if is_such(&value) =>
        {
            let text = ValueText::udf().call(vec![*value]);
            Ok(Transformed::yes(match field.data_type() {
                DataType::Utf8View => text,
                other => cast(text, other.clone()),
            }))
        }
        other => Ok(Transformed::no(other)),
    }
}
