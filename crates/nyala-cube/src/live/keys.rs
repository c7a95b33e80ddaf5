//! Conditions that name keys: `id = 7`, `id IN (7, 8)`, and the same for each column of a composite key.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Schema};
use arrow::record_batch::RecordBatch;
use datafusion::common::ScalarValue;
use datafusion::common::utils::normalize_float_zero_scalar;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};

/// With more keys than this, a scan is no slower than looking the keys up one by one.
const MAX_KEYS: usize = 4096;

/// The keys of all rows that can fulfil the conditions; none if the conditions leave them open.
pub fn keys_of(conditions: &[Expr], key: &Schema) -> Option<RecordBatch> {
    let mut allowed: HashMap<&str, Vec<ScalarValue>> = HashMap::new();
    for field in key.fields() {
        let found = conditions.iter().find_map(|c| values(c, field.name(), field.data_type()))?;
        allowed.insert(field.name(), found);
    }
    let mut keys: Vec<Vec<ScalarValue>> = vec![Vec::new()];
    for field in key.fields() {
        let values = allowed.get(field.name().as_str())?;
        if keys.len().saturating_mul(values.len()) > MAX_KEYS {
            return None;
        }
        keys = keys.iter().flat_map(|start| values.iter().map(|value| with(start, value))).collect();
    }
    let column = |at: usize| -> Option<ArrayRef> {
        let values = keys.iter().filter_map(|key| key.get(at).cloned());
        match keys.is_empty() {
            true => Some(arrow::array::new_empty_array(key.fields().get(at)?.data_type())),
            false => ScalarValue::iter_to_array(values).ok(),
        }
    };
    let columns: Vec<ArrayRef> = (0..key.fields().len()).map(column).collect::<Option<_>>()?;
    RecordBatch::try_new(Arc::new(key.clone()), columns).ok()
}

fn with(start: &[ScalarValue], value: &ScalarValue) -> Vec<ScalarValue> {
    start.iter().chain([value]).cloned().collect()
}

/// The values that a column can have if the condition holds, each once and without null; none if the condition leaves them open.
fn values(condition: &Expr, column: &str, data_type: &DataType) -> Option<Vec<ScalarValue>> {
    let mut found = Vec::new();
    collect(condition, column, data_type, &mut found)?;
    let mut known: HashSet<ScalarValue> = HashSet::with_capacity(found.len());
    found.retain(|value| !value.is_null() && known.insert(one_of_equals(value)));
    Some(found)
}

/// One value for all equal ones: a float has two zeros and many NaN, which are one key.
fn one_of_equals(value: &ScalarValue) -> ScalarValue {
    match value {
        ScalarValue::Float64(Some(number)) if number.is_nan() => ScalarValue::Float64(Some(f64::NAN)),
        ScalarValue::Float32(Some(number)) if number.is_nan() => ScalarValue::Float32(Some(f32::NAN)),
        other => normalize_float_zero_scalar(other.clone()),
    }
}

fn collect(condition: &Expr, column: &str, data_type: &DataType, found: &mut Vec<ScalarValue>) -> Option<()> {
    match condition {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            collect(left, column, data_type, found)?;
            collect(right, column, data_type, found)
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => {
            let value = match (is_column(left, column), is_column(right, column)) {
                (true, false) => right,
                (false, true) => left,
                _ => return None,
            };
            found.push(literal(value, data_type)?);
            Some(())
        }
        Expr::InList(InList { expr, list, negated: false }) if is_column(expr, column) => {
            if found.len() + list.len() > MAX_KEYS {
                return None;
            }
            for value in list {
                found.push(literal(value, data_type)?);
            }
            Some(())
        }
        _ => None,
    }
}

fn is_column(expression: &Expr, name: &str) -> bool {
    matches!(expression, Expr::Column(column) if column.name == name)
}

/// A literal as a value of the type. Only texts are cast, which cannot change the keys that they equal.
fn literal(expression: &Expr, data_type: &DataType) -> Option<ScalarValue> {
    let Expr::Literal(value, _) = expression else { return None };
    if value.data_type() == *data_type {
        return Some(value.clone());
    }
    let is_text =
        |data_type: &DataType| matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    (is_text(&value.data_type()) && is_text(data_type)).then(|| value.cast_to(data_type).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::Field;
    use datafusion::prelude::{col, lit};

    use super::*;

    fn key(columns: &[&str]) -> Schema {
        Schema::new(columns.iter().map(|name| Field::new(*name, DataType::Int64, false)).collect::<Vec<_>>())
    }

    fn check(conditions: &[Expr], columns: &[&str], expected: Option<usize>) {
        let found = keys_of(conditions, &key(columns)).map(|keys| keys.num_rows());
        assert_eq!(found, expected, "{conditions:?}");
    }

    #[test]
    fn equal_floats_are_one_key() {
        let key = Schema::new(vec![Field::new("x", DataType::Float64, false)]);
        let listed = [0.0, -0.0, f64::NAN, -f64::NAN, 1.0].map(lit).to_vec();
        let found = keys_of(&[col("x").in_list(listed, false)], &key);
        assert_eq!(found.map(|keys| keys.num_rows()), Some(3));
    }

    #[test]
    fn keys_are_known_if_every_column_is_bound() {
        check(&[col("a").eq(lit(7_i64))], &["a"], Some(1));
        check(&[lit(7_i64).eq(col("a"))], &["a"], Some(1));
        check(&[col("a").in_list(vec![lit(1_i64), lit(2_i64), lit(1_i64)], false)], &["a"], Some(2));
        check(&[col("a").in_list(vec![lit(1_i64)], true)], &["a"], None);
        check(&[col("a").eq(lit(1_i64)).or(col("a").eq(lit(2_i64)))], &["a"], Some(2));
        check(&[col("a").eq(lit(1_i64)).or(col("b").eq(lit(2_i64)))], &["a"], None);
        check(&[col("a").gt(lit(7_i64))], &["a"], None);
        check(&[col("a").eq(lit(7_i32))], &["a"], None);
        check(&[col("a").eq(lit(ScalarValue::Int64(None)))], &["a"], Some(0));
        check(&[col("a").eq(lit(7_i64))], &["a", "b"], None);
        let both = [
            col("b").in_list(vec![lit(1_i64), lit(2_i64)], false),
            col("a").in_list(vec![lit(3_i64), lit(4_i64)], false),
        ];
        check(&both, &["a", "b"], Some(4));
        let many: Vec<Expr> = (0..65_i64).map(lit).collect();
        let both = [col("a").in_list(many.clone(), false), col("b").in_list(many, false)];
        check(&both, &["a", "b"], None);
    }
}
