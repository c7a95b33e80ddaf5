//! Parameters of a statement: their types, and values in their places.

use std::collections::BTreeMap;

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{ParamValues, ScalarValue};
use datafusion::logical_expr::expr_rewriter::coerce_plan_expr_for_schema;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};
use nyala_sql::error::{ErrorKind, QueryError, Result};
use nyala_sql::functions::UUID;
use nyala_sql::semantics::assign;

use super::exact::integer;
use super::logical::Unoptimized;

/// Types of the parameters, `$1` first.
pub fn parameter_types(plan: &LogicalPlan) -> Result<Vec<Option<DataType>>> {
    let mut types = BTreeMap::new();
    for (name, data_type) in plan.get_parameter_types()? {
        let number = name.trim_start_matches('$').parse::<usize>().ok().filter(|n| (1..=65_535).contains(n));
        let number = number.ok_or_else(|| {
            QueryError::new(ErrorKind::Syntax, format!("parameter `{name}` is not a number"))
                .hint("write parameters as `$1`, `$2`, …")
        })?;
        types.insert(number, data_type);
    }
    for (number, data_type) in list_types(plan)? {
        types.entry(number).and_modify(|known| *known = known.take().or(Some(data_type)));
    }
    Ok(in_order(types))
}

/// The number of a parameter.
fn number_of(expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Placeholder(parameter) => parameter.id.strip_prefix('$')?.parse().ok(),
        _ => None,
    }
}

/// Types of parameters in `x = ANY($1)` and in `LIMIT $1`, which DataFusion does not infer: lists of the type of `x`, and numbers of rows.
fn list_types(plan: &LogicalPlan) -> Result<BTreeMap<usize, DataType>> {
    let mut types = BTreeMap::new();
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Limit(limit) = node {
            let counts = limit.skip.iter().chain(&limit.fetch);
            types.extend(counts.filter_map(|count| Some((number_of(count)?, DataType::Int64))));
        }
        let schema = merge_schema(&node.inputs());
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                let Expr::ScalarFunction(call) = expr else { return Ok(TreeNodeRecursion::Continue) };
                if let ("array_has", [list, value]) = (call.name(), call.args.as_slice())
                    && let Some(number) = number_of(list)
                    && let Some(item) = value.get_type(&schema).ok().and_then(item_type)
                {
                    types.insert(number, DataType::new_list(item, true));
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(types)
}

/// The element type of a list that is compared with values of a type; none if drivers do not send such lists.
fn item_type(value: DataType) -> Option<DataType> {
    Some(match value {
        DataType::Utf8View | DataType::LargeUtf8 => DataType::Utf8,
        DataType::Dictionary(_, value) => item_type(*value)?,
        DataType::Int8 | DataType::UInt8 => DataType::Int16,
        DataType::UInt16 => DataType::Int32,
        DataType::UInt32 => DataType::Int64,
        DataType::Utf8 | DataType::Boolean | DataType::Date32 => value,
        DataType::Int16 | DataType::Int32 | DataType::Int64 => value,
        DataType::Float32 | DataType::Float64 => value,
        DataType::Timestamp(_, zone) => DataType::Timestamp(TimeUnit::Microsecond, zone),
        uuid if uuid == UUID => uuid,
        DataType::Decimal128(..) | DataType::Decimal256(..) | DataType::Interval(_) => value,
        DataType::Time32(_) | DataType::Time64(_) => DataType::Time64(TimeUnit::Microsecond),
        _ => return None,
    })
}

/// The types of `$1`, `$2`, … in order. A number that is not used has no type.
fn in_order(types: BTreeMap<usize, Option<DataType>>) -> Vec<Option<DataType>> {
    let count = types.keys().max().copied().unwrap_or(0);
    (1..=count).map(|number| types.get(&number).cloned().flatten()).collect()
}

/// Types of the parameters of two plans of one statement.
pub fn either_types(one: Vec<Option<DataType>>, other: Vec<Option<DataType>>) -> Vec<Option<DataType>> {
    let (mut one, mut other) = (one.into_iter(), other.into_iter());
    std::iter::from_fn(|| match (one.next(), other.next()) {
        (None, None) => None,
        (left, right) => Some(left.flatten().or(right.flatten())),
    })
    .collect()
}

/// Puts values in the place of parameters.
pub fn bind(query: Unoptimized, values: &[ScalarValue]) -> Result<Unoptimized> {
    let Unoptimized::Resolved(plan) = query else {
        return Ok(query);
    };
    let (bound, inexact) = bind_plan(&plan, values)?;
    match inexact {
        // Clients have been told the types of the columns, and decode rows by them.
        Some(inexact) if column_types(&bound) != column_types(&plan) => Err(inexact),
        _ => Ok(Unoptimized::Resolved(bound)),
    }
}

/// Puts values in the place of parameters. Also returns an error for the case that a value has another type than its parameter was planned
/// with; the caller decides whether the difference shows.
fn bind_plan(plan: &LogicalPlan, values: &[ScalarValue]) -> Result<(LogicalPlan, Option<QueryError>)> {
    let types = parameter_types(plan)?;
    if types.is_empty() {
        return Ok((plan.clone(), None));
    }
    check_count(&types, values)?;
    let (mut bound, mut inexact) = (Vec::with_capacity(types.len()), None);
    for (number, (value, data_type)) in values.iter().zip(&types).enumerate() {
        let exact = exact_value(value, data_type.as_ref());
        bound.push(match (exact, data_type) {
            (Some(exact), _) => exact,
            // Compared with a column, the value follows the coercion rules of two types, like a literal in the text.
            (None, Some(wanted)) if is_measurable(&value.data_type()) && is_measurable(wanted) => {
                inexact = Some(unreadable(number, value, wanted));
                value.clone()
            }
            (None, wanted) => {
                return Err(unreadable(number, value, wanted.as_ref().unwrap_or(&DataType::Null)));
            }
        });
    }
    let bound = bound.into_iter().map(Into::into).collect();
    Ok((plan.clone().with_param_values(ParamValues::List(bound))?, inexact))
}

fn column_types(plan: &LogicalPlan) -> Vec<DataType> {
    plan.schema().fields().iter().map(|field| field.data_type().clone()).collect()
}

/// As [`bind`], for rows that are to be written. Their columns keep the types they were planned with, which are the
/// table's: the result type of a function may depend on the bound values.
pub fn bind_input(input: &LogicalPlan, values: &[ScalarValue]) -> Result<Unoptimized> {
    let (bound, _) = bind_plan(input, values)?;
    if column_types(&bound) == column_types(input) {
        return Ok(Unoptimized::Resolved(bound));
    }
    Ok(Unoptimized::Resolved(coerce_plan_expr_for_schema(bound, input.schema())?))
}

/// Casts values to `types`, the types of the columns they are written to; none stands for an unknown type. A value that
/// does not fit exactly is rounded, as by any assignment.
pub fn cast_values(types: &[Option<DataType>], values: &[ScalarValue]) -> Result<Vec<ScalarValue>> {
    check_count(types, values)?;
    let values = values.iter().zip(types).enumerate();
    let cast = values.map(|(number, (value, data_type))| match data_type {
        Some(wanted) if value.data_type() != *wanted => {
            assign(value, wanted).map_err(|_| unreadable(number, value, wanted))
        }
        _ => Ok(value.clone()),
    });
    cast.collect()
}

/// Casts values that are compared; none if a cast would change one of them.
pub fn exact_values(types: &[Option<DataType>], values: &[ScalarValue]) -> Result<Option<Vec<ScalarValue>>> {
    check_count(types, values)?;
    Ok(values.iter().zip(types).map(|(value, wanted)| exact_value(value, wanted.as_ref())).collect())
}

/// The value cast to `wanted`, if the cast is exact: no fraction is lost, and no time of a day.
fn exact_value(value: &ScalarValue, wanted: Option<&DataType>) -> Option<ScalarValue> {
    let own = value.data_type();
    let Some(wanted) = wanted.filter(|wanted| **wanted != own) else { return Some(value.clone()) };
    if let Some(whole) = whole_number(value).and_then(|number| integer(number, wanted)) {
        return Some(whole);
    }
    if value.is_null() {
        return ScalarValue::try_new_null(wanted).ok();
    }
    let cast = value.cast_to(wanted).ok()?;
    let measured = is_measurable(&own) && is_measurable(wanted);
    (!measured || cast.cast_to(&own).is_ok_and(|again| again == *value)).then_some(cast)
}

fn whole_number(value: &ScalarValue) -> Option<i64> {
    match *value {
        ScalarValue::Int16(value) => value.map(i64::from),
        ScalarValue::Int32(value) => value.map(i64::from),
        ScalarValue::Int64(value) => value,
        _ => None,
    }
}

/// Numbers and times: values of one type may not fit another.
fn is_measurable(data_type: &DataType) -> bool {
    data_type.is_numeric() || data_type.is_temporal()
}

fn check_count(types: &[Option<DataType>], values: &[ScalarValue]) -> Result<()> {
    if types.len() <= values.len() {
        return Ok(());
    }
    let message = format!("statement has {} parameters, but {} values were given", types.len(), values.len());
    Err(QueryError::new(ErrorKind::InvalidParameter, message))
}

fn unreadable(number: usize, value: &ScalarValue, wanted: &DataType) -> QueryError {
    let number = number + 1;
    let message = format!("parameter `${number}` cannot be read as {wanted}: `{value}`");
    let hint = format!("say what it is, as in `CAST(${number} AS DOUBLE)`");
    QueryError::new(ErrorKind::InvalidParameter, message).hint(hint)
}
