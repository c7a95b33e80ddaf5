//! Rows given as literals or parameters: `INSERT INTO t VALUES (1, $1)`. They need no plan, which would take
//! longer than the write, and no substitution of parameters, which builds the whole plan anew.

use std::sync::Arc;

use arrow::array::timezone::Tz;
use arrow::array::{ArrayRef, new_empty_array};
use arrow::datatypes::DataType;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::{Cast, Expr, LogicalPlan, Projection, Values};
use nyala_sql::error::Result;
use nyala_sql::functions::{NAMED_CAST, timestamp_of};
use nyala_sql::semantics::{assign, assign_column, check_assignment, written_value};

use crate::query::plan::logical::Unoptimized;
use crate::query::plan::parameters::{bind_input, cast_values};

/// The rows of an INSERT.
pub enum Rows {
    /// Given as literals or parameters.
    Given(RecordBatch),
    /// Returned by a query.
    Planned(Unoptimized),
}

impl Rows {
    /// The rows of an INSERT of `input`, with the values and the inferred types of its parameters.
    pub fn of(
        input: &LogicalPlan,
        types: &[Option<DataType>],
        parameters: &[ScalarValue],
        zone: &str,
    ) -> Result<Self> {
        let given = Given { parameters: &cast_values(types, parameters)?, zone };
        if let Some(rows) = literal_rows(input, given)? {
            return Ok(Self::Given(rows));
        }
        let bound = bind_input(input, parameters)?;
        Ok(match literal_rows(bound.logical(), Given { parameters: &[], zone })? {
            Some(rows) => Self::Given(rows),
            None => Self::Planned(bound),
        })
    }
}

/// The values of parameters, and the zone in which a text without a zone is a moment.
#[derive(Clone, Copy)]
struct Given<'a> {
    parameters: &'a [ScalarValue],
    zone: &'a str,
}

impl Given<'_> {
    /// The value as one of a type.
    fn assigned(self, value: &ScalarValue, to: &DataType) -> Result<ScalarValue> {
        let shown = match value.data_type() {
            DataType::Timestamp(_, None) | DataType::Date32 => value.cast_to(&DataType::Utf8)?,
            _ => value.clone(),
        };
        if let (Some(Some(text)), DataType::Timestamp(_, Some(_))) = (shown.try_as_str(), to)
            && let Ok(zone) = self.zone.parse::<Tz>()
            && let Some(micros) = timestamp_of(text, Some(&zone))
        {
            let moment = ScalarValue::TimestampMicrosecond(Some(micros), Some("UTC".into()));
            return Ok(moment.cast_to(to)?);
        }
        check_assignment(&value.data_type(), to)?;
        assign(value, to)
    }
}

/// The rows of an INSERT of literals and of parameters, which have the inferred types. None if it must be
/// planned, or if the type of a parameter depends on its context: then its value must be substituted first.
fn literal_rows(input: &LogicalPlan, parameters: Given<'_>) -> Result<Option<RecordBatch>> {
    let LogicalPlan::Projection(Projection { expr, input, schema, .. }) = input else { return Ok(None) };
    let LogicalPlan::Values(values) = input.as_ref() else { return Ok(None) };
    let Some(given) = columns(values, parameters)? else { return Ok(None) };
    let mut projected = Vec::with_capacity(expr.len());
    for expression in expr {
        match column(expression, values, &given)? {
            Some(column) => {
                let wanted = schema.field(projected.len()).data_type();
                projected.push(if column.data_type() == wanted {
                    column
                } else {
                    assign_column(&column, wanted)?
                });
            }
            None => return Ok(None),
        }
    }
    let options = RecordBatchOptions::new().with_row_count(Some(values.values.len()));
    let fields: Vec<_> =
        schema.as_arrow().fields().iter().map(|field| field.as_ref().clone().with_nullable(true)).collect();
    let schema = Arc::new(arrow::datatypes::Schema::new(fields));
    Ok(Some(RecordBatch::try_new_with_options(schema, projected, &options)?))
}

/// The columns of VALUES, if all of them are literals or parameters.
fn columns(values: &Values, parameters: Given<'_>) -> Result<Option<Vec<ArrayRef>>> {
    let mut columns = Vec::new();
    for (at, field) in values.schema.fields().iter().enumerate() {
        let mut scalars = Vec::with_capacity(values.values.len());
        for row in &values.values {
            match row.get(at).and_then(|cell| literal(cell, parameters)).transpose()? {
                Some(value) => scalars.push(value),
                None => return Ok(None),
            }
        }
        // A number of any digits may become a text, which shows them.
        let own = field.data_type().is_decimal().then(|| digits_of(&scalars)).flatten();
        let data_type = own.unwrap_or_else(|| field.data_type().clone());
        let scalars = scalars.iter().map(|value| parameters.assigned(value, &data_type));
        let scalars = scalars.collect::<Result<Vec<_>>>()?;
        columns.push(match scalars.is_empty() {
            true => new_empty_array(&data_type),
            false => ScalarValue::iter_to_array(scalars)?,
        });
    }
    Ok(Some(columns))
}

/// The type with room for all digits of exact numbers, which a NUMERIC keeps; none of other values.
fn digits_of(values: &[ScalarValue]) -> Option<DataType> {
    let (mut before, mut behind) = (0, None);
    for value in values.iter().filter(|value| !value.is_null()) {
        let DataType::Decimal128(precision, scale) = value.data_type() else { return None };
        before = before.max(i16::from(precision) - i16::from(scale));
        behind = behind.max(Some(scale));
    }
    let behind = behind?;
    (before + i16::from(behind) <= 38).then_some(DataType::Decimal128(38, behind))
}

fn literal(expression: &Expr, parameters: Given<'_>) -> Option<Result<ScalarValue>> {
    match expression {
        Expr::Literal(value, _) => Some(Ok(value.clone())),
        Expr::Placeholder(Placeholder { id, field: Some(_) }) => {
            let at = id.strip_prefix('$')?.parse::<usize>().ok()?.checked_sub(1)?;
            Some(Ok(parameters.parameters.get(at)?.clone()))
        }
        Expr::Cast(Cast { expr, field }) => {
            let inner = literal(expr, parameters)?;
            Some(inner.and_then(|value| match written_value(&value, field) {
                Some(written) => written,
                None => parameters.assigned(&value, field.data_type()),
            }))
        }
        Expr::ScalarFunction(call) if call.name() == NAMED_CAST => literal(call.args.first()?, parameters),
        Expr::Negative(inner) => {
            Some(literal(inner, parameters)?.and_then(|value| Ok(value.arithmetic_negate()?)))
        }
        Expr::Alias(alias) => literal(&alias.expr, parameters),
        _ => None,
    }
}

/// A column of the table: one of the columns of VALUES, as it is or cast, or one literal for every row.
fn column(expression: &Expr, values: &Values, given: &[ArrayRef]) -> Result<Option<ArrayRef>> {
    match expression {
        Expr::Alias(alias) => column(&alias.expr, values, given),
        Expr::Column(name) => {
            let at = values.schema.maybe_index_of_column(name);
            Ok(at.and_then(|at| given.get(at)).cloned())
        }
        Expr::Cast(Cast { expr, field }) => match column(expr, values, given)? {
            // Texts of moments are read in the zone of the session.
            Some(inner)
                if inner.data_type().is_string()
                    && matches!(field.data_type(), DataType::Timestamp(_, Some(_))) =>
            {
                Ok(None)
            }
            Some(inner) => {
                check_assignment(inner.data_type(), field.data_type())?;
                Ok(Some(assign_column(&inner, field.data_type())?))
            }
            None => Ok(None),
        },
        Expr::Literal(value, _) => Ok(Some(value.to_array_of_size(values.values.len())?)),
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use arrow::array::{Date32Array, Int64Array, RecordBatch, StringArray};
    use arrow::datatypes::{Field, Schema};
    use datafusion::datasource::MemTable;
    use datafusion::prelude::SessionContext;

    use super::*;

    /// The input of an INSERT into a table with a number, a text and a day.
    async fn input(sql: &str) -> LogicalPlan {
        let field = |name: &str, data_type| Field::new(name, data_type, true);
        let fields = vec![
            field("number", DataType::Int64),
            field("text", DataType::Utf8),
            field("day", DataType::Date32),
        ];
        let table = MemTable::try_new(Arc::new(Schema::new(fields)), vec![Vec::new()]).unwrap();
        let context = SessionContext::new();
        context.register_table("t", Arc::new(table)).unwrap();
        match context.state().create_logical_plan(sql).await.unwrap() {
            LogicalPlan::Dml(dml) => dml.input.as_ref().clone(),
            other => panic!("{other}"),
        }
    }

    fn batch(number: &[Option<i64>], text: &[Option<&str>], day: &[Option<i32>]) -> RecordBatch {
        let columns: [(&str, ArrayRef, bool); 3] = [
            ("number", Arc::new(Int64Array::from(number.to_vec())), true),
            ("text", Arc::new(StringArray::from(text.to_vec())), true),
            ("day", Arc::new(Date32Array::from(day.to_vec())), true),
        ];
        RecordBatch::try_from_iter_with_nullable(columns).unwrap()
    }

    #[tokio::test]
    async fn rows_of_literals_and_parameters_need_no_plan() {
        let values = [
            ScalarValue::Int64(Some(5)),
            ScalarValue::Utf8(Some("x".to_owned())),
            ScalarValue::Date32(None),
            ScalarValue::Date32(Some(19_000)),
        ];
        for (sql, expected) in [
            ("VALUES ($1, $2, $3)", batch(&[Some(5)], &[Some("x")], &[None])),
            (
                "VALUES ($1, 'a', $4), (-7, $2, '1970-01-11')",
                batch(&[Some(5), Some(-7)], &[Some("a"), Some("x")], &[Some(19_000), Some(10)]),
            ),
            (
                "(day, number) VALUES ($4, 1), ($3, NULL)",
                batch(&[Some(1), None], &[None, None], &[Some(19_000), None]),
            ),
        ] {
            let given = Given { parameters: &values, zone: "UTC" };
            let found = literal_rows(&input(&format!("INSERT INTO t {sql}")).await, given).unwrap();
            assert_eq!(found.unwrap(), expected, "{sql}");
        }
    }

    #[tokio::test]
    async fn what_is_computed_is_planned_and_untyped_parameters_are_put_in_their_place_first() {
        let five = [ScalarValue::Int64(Some(5))];
        for sql in ["VALUES ($1 + 1)", "SELECT $1", "VALUES ($1), ($2)"] {
            let given = Given { parameters: &five, zone: "UTC" };
            let found = literal_rows(&input(&format!("INSERT INTO t (number) {sql}")).await, given).unwrap();
            assert!(found.is_none(), "{sql}");
        }
        for (sql, text) in [("VALUES ($1::text)", "5"), ("VALUES (CAST($1 AS DOUBLE))", "5")] {
            let input = input(&format!("INSERT INTO t (text) {sql}")).await;
            let given = Given { parameters: &five, zone: "UTC" };
            assert!(literal_rows(&input, given).unwrap().is_none(), "{sql}");
            let Rows::Given(rows) = Rows::of(&input, &[None], &five, "UTC").unwrap() else {
                panic!("{sql} is planned")
            };
            assert_eq!(rows, batch(&[None], &[Some(text)], &[None]), "{sql}");
        }
    }
}
