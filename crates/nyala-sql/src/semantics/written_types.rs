//! Types as they are written: NUMERIC of any number of digits, and VARCHAR(n).

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::functions::unicode::left;
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::logical_expr::{Cast, Expr, ExprSchemable, cast, lit};
use datafusion::sql::sqlparser::ast::{CharacterLength, DataType as SqlType, ExactNumberInfo};

use super::decimals::exact;
use super::{Meaning, Scope};
use crate::functions::{UUID, digits_of_integer};

/// Metadata of a type in a cast that the meaning below replaces.
const ANY_DIGITS: &str = "nyala.any_digits";
const LENGTH: &str = "nyala.length";

/// Digits after the point of a floating-point number and of a text that become a NUMERIC: a type has one number for all rows.
const SCALE: i8 = 15;

/// Keeps what the planner would forget of a type. Other types are those of another planner, if there is one.
#[derive(Debug, Default)]
pub struct WrittenTypes(pub Option<Arc<dyn TypePlanner>>);

impl TypePlanner for WrittenTypes {
    fn plan_type_field(&self, sql_type: &SqlType) -> Result<Option<FieldRef>> {
        let (data_type, key, value) = match sql_type {
            SqlType::Numeric(ExactNumberInfo::None)
            | SqlType::Decimal(ExactNumberInfo::None)
            | SqlType::Dec(ExactNumberInfo::None) => {
                (DataType::Decimal128(38, 10), ANY_DIGITS, String::new())
            }
            SqlType::Varchar(Some(CharacterLength::IntegerLength { length, .. }))
            | SqlType::CharacterVarying(Some(CharacterLength::IntegerLength { length, .. }))
            | SqlType::CharVarying(Some(CharacterLength::IntegerLength { length, .. })) => {
                (DataType::Utf8View, LENGTH, length.to_string())
            }
            SqlType::Uuid => return Ok(Some(Arc::new(Field::new("", UUID, true)))),
            other => {
                return self.0.as_ref().map_or(Ok(None), |planner| planner.plan_type_field(other));
            }
        };
        let metadata = HashMap::from([(key.to_owned(), value)]);
        Ok(Some(Arc::new(Field::new("", data_type, true).with_metadata(metadata))))
    }
}

impl Meaning for WrittenTypes {
    fn name(&self) -> &'static str {
        "written_types"
    }

    fn concerns(&self, expr: &Expr) -> bool {
        matches!(expr, Expr::Cast(Cast { field, .. })
            if field.metadata().contains_key(ANY_DIGITS) || field.metadata().contains_key(LENGTH))
    }

    fn rewrite(&self, expr: Expr, scope: &Scope<'_>) -> Result<Transformed<Expr>> {
        let Expr::Cast(Cast { expr: value, field }) = expr else { return Ok(Transformed::no(expr)) };
        if let Some(length) = field.metadata().get(LENGTH) {
            let length: i64 = length.parse().unwrap_or(i64::MAX);
            let text = cast(*value, field.data_type().clone());
            return Ok(Transformed::yes(left().call(vec![text, lit(length)])));
        }
        Ok(Transformed::yes(numeric(*value, field.data_type(), scope)))
    }
}

fn numeric(value: Expr, otherwise: &DataType, scope: &Scope<'_>) -> Expr {
    let Ok(data_type) = value.get_type(scope.schema) else { return cast(value, otherwise.clone()) };
    if data_type.is_decimal() {
        return value;
    }
    if let Expr::Literal(literal, _) = &value
        && let Some(Some(text)) = literal.try_as_str()
        && let Some(exact) = exact(text.trim())
    {
        return Expr::Literal(exact, None);
    }
    if let Some(digits) = digits_of_integer(&data_type) {
        return cast(value, DataType::Decimal128(digits, 0));
    }
    match data_type.is_floating() || data_type.is_string() {
        true => cast(value, DataType::Decimal128(38, SCALE)),
        false => cast(value, otherwise.clone()),
    }
}
