//! Types as they are written: NUMERIC of any number of digits, VARCHAR(n), FLOAT(n) and JSON.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Result, ScalarValue};
use datafusion::functions::unicode::left;
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::logical_expr::{Cast, Expr, ExprSchemable, cast, lit};
use datafusion::sql::sqlparser::ast::{CharacterLength, DataType as SqlType, ExactNumberInfo, ObjectName};

use super::decimals::exact;
use super::{Meaning, Scope};
use crate::functions::{UUID, checked, checked_json, digits_of_integer};

/// Metadata of a type in a cast that the meaning below replaces.
const ANY_DIGITS: &str = "nyala.any_digits";
const LENGTH: &str = "nyala.length";
const JSON: &str = "nyala.json";

/// Digits after the point of a floating-point number and of a text that become a NUMERIC: a type has one number for all rows.
const SCALE: i8 = 15;

/// Keeps the parts of a type that the planner would forget. Other types are left to another planner, if there is one.
#[derive(Debug, Default)]
pub struct WrittenTypes(pub Option<Arc<dyn TypePlanner>>);

impl TypePlanner for WrittenTypes {
    fn plan_type_field(&self, sql_type: &SqlType) -> Result<Option<FieldRef>> {
        let plain = |data_type| Ok(Some(Arc::new(Field::new("", data_type, true))));
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
            SqlType::Char(length) | SqlType::Character(length) => {
                let length = match length {
                    Some(CharacterLength::IntegerLength { length, .. }) => *length,
                    _ => 1,
                };
                (DataType::Utf8View, LENGTH, length.to_string())
            }
            SqlType::JSON => (DataType::Utf8View, JSON, "json".to_owned()),
            SqlType::JSONB => (DataType::Utf8View, JSON, "jsonb".to_owned()),
            SqlType::Uuid => return plain(UUID),
            SqlType::Custom(name, _) if is_text_type(name) => return plain(DataType::Utf8View),
            // FLOAT(n) has at least n bits; DataFusion always makes a single of it.
            SqlType::Float(ExactNumberInfo::None) => return plain(DataType::Float64),
            SqlType::Float(ExactNumberInfo::Precision(bits)) if *bits > 24 => {
                return plain(DataType::Float64);
            }
            other => {
                return self.0.as_ref().map_or(Ok(None), |planner| planner.plan_type_field(other));
            }
        };
        let metadata = HashMap::from([(key.to_owned(), value)]);
        Ok(Some(Arc::new(Field::new("", data_type, true).with_metadata(metadata))))
    }
}

/// Types of names and letters, whose values are texts.
fn is_text_type(name: &ObjectName) -> bool {
    let last = name.0.last().and_then(|part| part.as_ident());
    last.is_some_and(|last| match last.quote_style {
        Some(_) => matches!(last.value.as_str(), "name" | "char"),
        None => last.value.eq_ignore_ascii_case("name"),
    })
}

impl Meaning for WrittenTypes {
    fn name(&self) -> &'static str {
        "written_types"
    }

    fn concerns(&self, expr: &Expr) -> bool {
        matches!(expr, Expr::Cast(Cast { field, .. })
            if [ANY_DIGITS, LENGTH, JSON].iter().any(|key| field.metadata().contains_key(*key)))
    }

    fn rewrite(&self, expr: Expr, scope: &Scope<'_>) -> Result<Transformed<Expr>> {
        let Expr::Cast(Cast { expr: value, field }) = expr else { return Ok(Transformed::no(expr)) };
        if let Some(length) = field.metadata().get(LENGTH) {
            let length: i64 = length.parse().unwrap_or(i64::MAX);
            let text = cast(*value, field.data_type().clone());
            return Ok(Transformed::yes(left().call(vec![text, lit(length)])));
        }
        if let Some(name) = field.metadata().get(JSON) {
            let text = cast(*value, field.data_type().clone());
            return Ok(Transformed::yes(checked_json(text, name == "jsonb")));
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

/// The value cast to a type with metadata of these; none for a type that Arrow has.
pub fn written_value(value: &ScalarValue, field: &Field) -> Option<crate::error::Result<ScalarValue>> {
    let text = || value.try_as_str().flatten();
    if value.is_null() {
        return None;
    }
    if field.metadata().contains_key(ANY_DIGITS) {
        if value.data_type().is_decimal() {
            return Some(Ok(value.clone()));
        }
        return text().and_then(|text| exact(text.trim())).map(Ok);
    }
    if let Some(length) = field.metadata().get(LENGTH) {
        let length = length.parse().unwrap_or(usize::MAX);
        let cut = |text: &str| text.chars().take(length).collect::<String>();
        return text().map(|text| Ok(ScalarValue::Utf8View(Some(cut(text)))));
    }
    let normal = field.metadata().get(JSON)? == "jsonb";
    text().map(|text| Ok(ScalarValue::Utf8View(Some(checked(text, normal)?))))
}
