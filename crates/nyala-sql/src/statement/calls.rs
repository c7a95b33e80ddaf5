//! Writes calls, operators and constants in forms that DataFusion's planner knows.

use arrow::compute::kernels::cast_utils::parse_interval_month_day_nano;
use datafusion::sql::sqlparser::ast::{
    AccessExpr, BinaryOperator, DataType, DateTimeField, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentClause, FunctionArguments, Ident, Subscript, UnaryOperator, Value, ValueWithSpan,
};

use super::snippets::parse_expr;
use crate::error::Result;

/// Writes `text ^@ start` and `list && list` as calls.
pub fn called(left: &Expr, op: &BinaryOperator, right: &Expr) -> Result<Expr> {
    let function = if *op == BinaryOperator::PGStartsWith { "starts_with" } else { "array_has_any" };
    // A text in quotes takes the type of the list on the other side.
    let typed = |side: &Expr, other: &Expr| match other {
        Expr::Cast { data_type, .. } if literal_text(side).is_some() => {
            format!("CAST({side} AS {data_type})")
        }
        _ => side.to_string(),
    };
    parse_expr(&format!("{function}({}, {})", typed(left, right), typed(right, left)))
}

/// Writes a prefix operator that the planner does not know in a form that it knows; none for other operators.
/// A sign before the call keeps the column without a name.
pub fn before_operand(op: UnaryOperator, operand: &Expr) -> Result<Option<Expr>> {
    let text = match op {
        UnaryOperator::BitwiseNot => format!("(({operand}) # -1)"),
        UnaryOperator::PGAbs => format!("(+ abs({operand}))"),
        UnaryOperator::PGSquareRoot => format!("(+ sqrt(CAST({operand} AS DOUBLE PRECISION)))"),
        UnaryOperator::PGCubeRoot => format!("(+ cbrt(CAST({operand} AS DOUBLE PRECISION)))"),
        _ => return Ok(None),
    };
    parse_expr(&text).map(Some)
}

pub fn literal_text(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) => Some(text),
        _ => None,
    }
}

/// The expression for `DATE 'today'` and its kin, whose value depends on when it is computed; none for other texts.
pub fn moment_of_word(text: &str, data_type: &DataType) -> Option<String> {
    if !matches!(data_type, DataType::Date | DataType::Timestamp(..)) {
        return None;
    }
    let moment = match text.trim().to_ascii_lowercase().as_str() {
        "now" => "now()",
        "today" => "current_date",
        "tomorrow" => "(current_date + 1)",
        "yesterday" => "(current_date - 1)",
        _ => return None,
    };
    Some(format!("CAST({moment} AS {data_type})"))
}

/// Writes calls with arguments that DataFusion's functions do not take in other words.
pub fn with_fewer_arguments(function: &Function) -> Option<String> {
    let FunctionArguments::List(list) = &function.args else { return None };
    let name = function.name.to_string().to_ascii_lowercase();
    match (name.as_str(), list.args.as_slice()) {
        ("date_trunc", [unit, time, zone]) => {
            Some(format!("timezone({zone}, date_trunc({unit}, timezone({zone}, {time})))"))
        }
        ("age", [time]) => Some(format!("age(current_date, {time})")),
        ("make_interval", arguments) => interval_of_parts(arguments),
        _ => None,
    }
}

/// Puts a number in the ORDER BY of an aggregate into brackets. It is a constant there, but DataFusion's
/// planner takes it for the position of a column unless it is in brackets.
pub fn constants_in_order(function: &mut Function) {
    let clauses = match &mut function.args {
        FunctionArguments::List(list) => list.clauses.as_mut_slice(),
        _ => Default::default(),
    };
    let orders = clauses.iter_mut().filter_map(|clause| match clause {
        FunctionArgumentClause::OrderBy(orders) => Some(orders),
        _ => None,
    });
    for order in orders.flatten().chain(&mut function.within_group) {
        if matches!(order.expr, Expr::Value(_)) {
            let constant = std::mem::replace(&mut order.expr, Expr::Identifier(Ident::new("")));
            order.expr = Expr::Nested(Box::new(constant));
        }
    }
}

/// `make_interval(years, months, weeks, days, hours, mins, secs)`, by position or by name.
fn interval_of_parts(arguments: &[FunctionArg]) -> Option<String> {
    const PARTS: [(&str, &str); 7] = [
        ("years", "1 year"),
        ("months", "1 month"),
        ("weeks", "7 days"),
        ("days", "1 day"),
        ("hours", "1 hour"),
        ("mins", "1 minute"),
        ("secs", "1 second"),
    ];
    let mut text = "INTERVAL '0 seconds'".to_owned();
    for (position, argument) in arguments.iter().enumerate() {
        let (unit, value) = match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => (PARTS.get(position)?.1, value),
            FunctionArg::Named { name, arg: FunctionArgExpr::Expr(value), .. } => {
                (PARTS.iter().find(|(part, _)| name.value.eq_ignore_ascii_case(part))?.1, value)
            }
            FunctionArg::ExprNamed { name, arg: FunctionArgExpr::Expr(value), .. } => {
                (PARTS.iter().find(|(part, _)| name.to_string().eq_ignore_ascii_case(part))?.1, value)
            }
            _ => return None,
        };
        text.push_str(&format!(" + ({value}) * INTERVAL '{unit}'"));
    }
    Some(format!("({text})"))
}

/// Replaces a negative subscript by 0: there is no element before the first.
pub fn no_element(access: &mut AccessExpr) {
    if let AccessExpr::Subscript(Subscript::Index { index }) = access
        && matches!(index, Expr::UnaryOp { op: UnaryOperator::Minus, expr } if matches!(expr.as_ref(), Expr::Value(_)))
    {
        *index = Expr::Value(Value::Number("0".to_owned(), false).into());
    }
}

/// Writes an interval that DataFusion's planner does not read as a cast of a text.
pub fn of_interval(expr: &mut Expr) -> Result<()> {
    let Expr::Interval(interval) = expr else { return Ok(()) };
    spell_months(&mut interval.value);
    let Some(text) = literal_text(&interval.value) else { return Ok(()) };
    let to_seconds = interval.last_field == Some(DateTimeField::Second)
        && interval.leading_field == Some(DateTimeField::Minute)
        && text.matches(':').count() == 1;
    let text = if to_seconds { format!("0:{}", text.trim()) } else { text.to_owned() };
    let is_known = interval.leading_field.is_none() && parse_interval_month_day_nano(&text).is_ok();
    let is_one_field = interval.leading_field.is_some() && interval.last_field.is_none();
    if !is_known && !is_one_field {
        *expr = parse_expr(&format!("CAST('{}' AS INTERVAL)", text.replace('\'', "''")))?;
    }
    Ok(())
}

/// Writes `substring(text FROM pattern)`, and `substring(text FROM pattern FOR escape)` with a pattern of SIMILAR TO, as calls.
pub fn by_pattern(text: &Expr, pattern: &Expr, escape: Option<&Expr>) -> Result<Option<Expr>> {
    Ok(match escape {
        None if is_text(pattern) => Some(parse_expr(&format!("regexp_substring({text}, {pattern})"))?),
        Some(escape) if is_text(pattern) && is_text(escape) => {
            Some(parse_expr(&format!("similar_substring({text}, {pattern}, {escape})"))?)
        }
        _ => None,
    })
}

/// Whether an expression is certainly a text, as it is written.
fn is_text(expr: &Expr) -> bool {
    match expr {
        Expr::Value(ValueWithSpan { value, .. }) => matches!(
            value,
            Value::SingleQuotedString(_) | Value::EscapedStringLiteral(_) | Value::DollarQuotedString(_)
        ),
        Expr::Nested(inner) => is_text(inner),
        Expr::BinaryOp { op: BinaryOperator::StringConcat, .. } => true,
        Expr::Cast { data_type, .. } => matches!(data_type, DataType::Text | DataType::Varchar(_)),
        _ => false,
    }
}

/// Replaces `mon` and `mons`, with which PostgreSQL shows months and which DataFusion does not read, by `months`.
pub fn spell_months(value: &mut Expr) {
    let Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) = value else { return };
    let spelled: Vec<&str> = text
        .split(' ')
        .map(|word| match word.to_ascii_lowercase().as_str() {
            "mon" | "mons" => "months",
            _ => word,
        })
        .collect();
    *text = spelled.join(" ");
}
