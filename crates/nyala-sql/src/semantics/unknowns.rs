//! A text in quotes has no type of its own: it takes the type of the values that it meets, as a parameter does.
//!
//! ```text
//! price + '1.5'   date '2024-03-01' - '2024-02-01'   at + '1 hour'   CASE WHEN paid THEN '1' ELSE parts END
//! ```

use std::sync::Arc;

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{InList, Placeholder, ScalarFunction};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{
    Between, BinaryExpr, Case, Expr, ExprSchemable, LogicalPlan, Operator, Projection, Union, cast,
};

use super::decimals::CHOICES;
use super::integers::is_number;
use super::text_constants::constant;
use super::{Meaning, Scope};
use crate::functions::INTERVAL;

/// Reads texts in quotes as values of the type that they meet.
#[derive(Debug)]
pub struct UnknownTypes;

/// Gives operands a type, because the planner would refuse `1 + '2'` before there is a plan.
impl ExprPlanner for UnknownTypes {
    fn plan_binary_op(&self, raw: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let RawBinaryExpr { op, left, right } = raw;
        let Some(operator) = operator(&op) else {
            return Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }));
        };
        // The operators within the operands have their types by now; choices among values do not.
        let left = settled(left, schema)?;
        let right = settled(right, schema)?;
        let (left, right) = sides(left, operator, right, schema)?;
        Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }))
    }
}

impl Meaning for UnknownTypes {
    fn name(&self) -> &'static str {
        "unknown_types"
    }

    fn concerns(&self, expr: &Expr) -> bool {
        match expr {
            Expr::BinaryExpr(BinaryExpr { left, right, .. }) => is_unknown(left) || is_unknown(right),
            Expr::Between(Between { expr, low, high, .. }) => {
                [expr, low, high].into_iter().any(|side| is_unknown(side))
            }
            Expr::InList(InList { expr, list, .. }) => is_unknown(expr) || list.iter().any(is_unknown),
            Expr::Case(_) => true,
            Expr::ScalarFunction(call) => is_choice(call) && call.args.iter().any(is_unknown),
            _ => false,
        }
    }

    fn rewrite(&self, expr: Expr, scope: &Scope<'_>) -> Result<Transformed<Expr>> {
        settle(expr, scope.schema)
    }
}

/// The operator of the parser's tree, if its sides may have to be of one type.
fn operator(op: &datafusion::sql::sqlparser::ast::BinaryOperator) -> Option<Operator> {
    use datafusion::sql::sqlparser::ast::BinaryOperator as Op;
    Some(match op {
        Op::Plus => Operator::Plus,
        Op::Minus => Operator::Minus,
        Op::Multiply => Operator::Multiply,
        Op::Divide => Operator::Divide,
        Op::Modulo => Operator::Modulo,
        // A power has both sides of one type, as a product has.
        Op::PGExp | Op::BitwiseXor => Operator::Multiply,
        Op::Eq => Operator::Eq,
        Op::NotEq => Operator::NotEq,
        Op::Lt => Operator::Lt,
        Op::LtEq => Operator::LtEq,
        Op::Gt => Operator::Gt,
        Op::GtEq => Operator::GtEq,
        _ => return None,
    })
}

/// The expression with a type for each text in quotes among the choices in it.
fn settled(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    match expr {
        Expr::Literal(..) | Expr::Column(_) | Expr::Placeholder(_) => Ok(expr),
        expr => Ok(expr.transform_up(|part| settle(part, schema))?.data),
    }
}

/// Gives texts in quotes in an expression their type, after its parts.
fn settle(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_unknown(&left) != is_unknown(&right) => {
            let (left, right) = sides(*left, op, *right, schema)?;
            let (left, right) = (Box::new(left), Box::new(right));
            Ok(Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right })))
        }
        Expr::Between(Between { expr, negated, low, high }) => {
            let Some(known) = compared([&*expr, &*low, &*high], schema) else {
                return Ok(Transformed::no(Expr::Between(Between { expr, negated, low, high })));
            };
            let [expr, low, high] = [expr, low, high].map(|side| read(*side, &known).map(Box::new));
            Ok(Transformed::yes(Expr::Between(Between { expr: expr?, negated, low: low?, high: high? })))
        }
        Expr::InList(InList { expr, list, negated }) => {
            let Some(known) = compared(std::iter::once(&*expr).chain(&list), schema) else {
                return Ok(Transformed::no(Expr::InList(InList { expr, list, negated })));
            };
            let list = list.into_iter().map(|side| read(side, &known)).collect::<Result<_>>()?;
            let expr = Box::new(read(*expr, &known)?);
            Ok(Transformed::yes(Expr::InList(InList { expr, list, negated })))
        }
        Expr::Case(case) => settle_case(case, schema),
        Expr::ScalarFunction(ScalarFunction { func, args }) if is_choice_named(func.name()) => {
            let Some(known) = compared(&args, schema).filter(|_| args.iter().any(is_unknown)) else {
                return Ok(Transformed::no(Expr::ScalarFunction(ScalarFunction { func, args })));
            };
            let args = args.into_iter().map(|side| read(side, &known)).collect::<Result<_>>()?;
            Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction { func, args })))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// The value of a CASE is compared with those after WHEN, and the results are of one type.
fn settle_case(case: Case, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let whens = case.when_then_expr.iter().map(|(when, _)| &**when);
    let compared = case.expr.as_deref().and_then(|value| known(std::iter::once(value).chain(whens), schema));
    let results = case.when_then_expr.iter().map(|(_, then)| &**then).chain(case.else_expr.as_deref());
    let chosen = known(results, schema);
    let mut whens =
        case.expr.as_deref().into_iter().chain(case.when_then_expr.iter().map(|(when, _)| &**when));
    let mut thens = case.when_then_expr.iter().map(|(_, then)| &**then).chain(case.else_expr.as_deref());
    let is_read = compared.is_some() && whens.any(is_unknown) || chosen.is_some() && thens.any(is_unknown);
    if !is_read {
        return Ok(Transformed::no(Expr::Case(case)));
    }
    let of = |side: Box<Expr>, known: &Option<DataType>| -> Result<Box<Expr>> {
        Ok(match known {
            Some(known) => Box::new(read(*side, known)?),
            None => side,
        })
    };
    let Case { expr, when_then_expr, else_expr } = case;
    let branches =
        when_then_expr.into_iter().map(|(when, then)| Ok((of(when, &compared)?, of(then, &chosen)?)));
    Ok(Transformed::yes(Expr::Case(Case {
        when_then_expr: branches.collect::<Result<_>>()?,
        expr: expr.map(|expr| of(expr, &compared)).transpose()?,
        else_expr: else_expr.map(|expr| of(expr, &chosen)).transpose()?,
    })))
}

fn is_choice(call: &ScalarFunction) -> bool {
    is_choice_named(call.func.name())
}

/// Functions whose arguments are of one type.
fn is_choice_named(name: &str) -> bool {
    CHOICES.contains(&name) || name == "make_array"
}

/// A text in quotes, or a parameter of which no type is known.
pub fn is_unknown(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(ScalarValue::Utf8(Some(_)), _) => true,
        Expr::Placeholder(Placeholder { field, .. }) => field.is_none(),
        _ => false,
    }
}

/// The type of the other values; none if they are texts, or have no known type either.
pub fn known<'a>(sides: impl IntoIterator<Item = &'a Expr>, schema: &DFSchema) -> Option<DataType> {
    let mut of_others = sides.into_iter().filter(|side| !is_unknown(side)).filter_map(|side| {
        // A literal will be an INTEGER if it fits, so a parameter beside it is one, too, whatever the parameter's value.
        let data_type = if is_number(side) { DataType::Int32 } else { side.get_type(schema).ok()? };
        (data_type != DataType::Null).then_some(data_type)
    });
    of_others.next().filter(|data_type| !is_text(data_type))
}

/// As [`known`], for values that are compared or chosen among. Texts that meet moments are read in the zone
/// of the session by another meaning.
fn compared<'a>(sides: impl IntoIterator<Item = &'a Expr>, schema: &DFSchema) -> Option<DataType> {
    known(sides, schema).filter(|data_type| !matches!(data_type, DataType::Timestamp(..)))
}

fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, value) => is_text(value),
        other => other.is_string(),
    }
}

/// Both sides of an operator, with a type for the one that has none.
fn sides(left: Expr, op: Operator, right: Expr, schema: &DFSchema) -> Result<(Expr, Expr)> {
    match (is_unknown(&left), is_unknown(&right)) {
        (true, false) => {
            let wanted = known([&right], schema).and_then(|of| wanted(&of, op, false));
            Ok((wanted.map_or_else(|| Ok(left.clone()), |wanted| read(left.clone(), &wanted))?, right))
        }
        (false, true) => {
            let wanted = known([&left], schema).and_then(|of| wanted(&of, op, true));
            Ok((left, wanted.map_or_else(|| Ok(right.clone()), |wanted| read(right.clone(), &wanted))?))
        }
        _ => Ok((left, right)),
    }
}

/// The type for an untyped operand whose other operand has the type `other`.
fn wanted(other: &DataType, op: Operator, on_the_right: bool) -> Option<DataType> {
    let is_time = matches!(other, DataType::Timestamp(..));
    match op {
        Operator::Plus if is_time => Some(INTERVAL),
        Operator::Multiply | Operator::Divide if matches!(other, DataType::Interval(_)) => {
            on_the_right.then_some(DataType::Float64)
        }
        // Beside a date it may be a number of days or an interval: nothing says which.
        Operator::Plus if matches!(other, DataType::Date32 | DataType::Date64) => None,
        Operator::Plus | Operator::Minus | Operator::Multiply | Operator::Divide | Operator::Modulo => {
            (other.is_numeric() || other.is_temporal() || matches!(other, DataType::Interval(_)))
                .then(|| other.clone())
        }
        op if op.supports_propagation() || is_distinct(op) => {
            let wanted = if matches!(other, DataType::Duration(_)) { INTERVAL } else { other.clone() };
            (!is_time).then_some(wanted)
        }
        _ => None,
    }
}

fn is_distinct(op: Operator) -> bool {
    matches!(op, Operator::IsDistinctFrom | Operator::IsNotDistinctFrom)
}

/// Gives a value without a type this type; other values stay as they are.
pub fn read(value: Expr, wanted: &DataType) -> Result<Expr> {
    match value {
        Expr::Literal(ScalarValue::Utf8(Some(text)), metadata) => {
            let unread = |text| Expr::Literal(ScalarValue::Utf8(Some(text)), metadata);
            Ok(match constant(&text, wanted)? {
                Some(value) => Expr::Literal(value, None),
                None => cast(unread(text), wanted.clone()),
            })
        }
        Expr::Placeholder(Placeholder { id, field: None }) => {
            let field = arrow::datatypes::Field::new("", parameter_type(wanted), true);
            Ok(Expr::Placeholder(Placeholder { id, field: Some(Arc::new(field)) }))
        }
        other => Ok(other),
    }
}

/// Reads columns of a UNION that are texts in quotes as values of the type that the column has in another input.
pub fn settle_union(union: Union) -> Result<Union> {
    let settled = |input: &LogicalPlan, at: usize| match input {
        LogicalPlan::Projection(projection) => {
            projection.expr.get(at).is_none_or(|expr| !is_unknown(unaliased(expr)))
        }
        _ => true,
    };
    let wanted: Vec<Option<DataType>> = (0..union.schema.fields().len())
        .map(|at| {
            let known = union.inputs.iter().filter(|input| settled(input, at));
            let types = known
                .filter_map(|input| input.schema().fields().get(at).map(|field| field.data_type().clone()));
            types
                .filter(|data_type| *data_type != DataType::Null)
                .find(|_| true)
                .filter(|data_type| !is_text(data_type))
        })
        .collect();
    let is_open = |at: usize| wanted.get(at).is_some_and(Option::is_some);
    let changes = |input: &LogicalPlan| (0..wanted.len()).any(|at| is_open(at) && !settled(input, at));
    if !union.inputs.iter().any(|input| changes(input)) {
        return Ok(union);
    }
    let inputs = union.inputs.into_iter().map(|input| match input.as_ref() {
        LogicalPlan::Projection(projection) if changes(&input) => read_columns(projection, &wanted),
        _ => Ok(input),
    });
    Union::try_new_with_loose_types(inputs.collect::<Result<_>>()?)
}

fn read_columns(projection: &Projection, wanted: &[Option<DataType>]) -> Result<Arc<LogicalPlan>> {
    let columns = projection.expr.iter().zip(wanted).map(|(expr, wanted)| match wanted {
        Some(wanted) if is_unknown(unaliased(expr)) => {
            let (relation, name) = expr.qualified_name();
            Ok(read(unaliased(expr).clone(), wanted)?.alias_qualified(relation, name))
        }
        _ => Ok(expr.clone()),
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(LogicalPlan::Projection(Projection::try_new(columns, Arc::clone(&projection.input))?)))
}

fn unaliased(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => unaliased(&alias.expr),
        other => other,
    }
}

/// The type of a parameter that is used with values of a type.
fn parameter_type(wanted: &DataType) -> DataType {
    match wanted {
        DataType::Timestamp(_, zone) => DataType::Timestamp(TimeUnit::Microsecond, zone.clone()),
        DataType::Dictionary(_, value) => parameter_type(value),
        other => other.clone(),
    }
}
