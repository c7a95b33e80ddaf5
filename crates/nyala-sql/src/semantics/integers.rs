//! A literal whole number is an INTEGER if it fits, and so are lengths of arrays. DataFusion makes BIGINT of
//! the first, and an unsigned BIGINT of the second.

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{InList, ScalarFunction};
use datafusion::logical_expr::{
    Between, BinaryExpr, Case, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Projection, Values, cast,
};

use super::decimals::CHOICES;
use super::{Meaning, Scope};

/// Functions whose result has the type of their arguments; `coalesce` and its kin are in `CHOICES`.
const OF_ARGUMENTS: &[&str] =
    &["abs", "arrow_typeof", "gcd", "lcm", "make_array", "mod", "pg_typeof", "to_hex"];

/// Functions that count elements.
const LENGTHS: &[&str] = &["array_length", "array_ndims", "array_position", "cardinality"];

/// Makes literals INTEGER where they meet no wider number.
#[derive(Debug)]
pub struct WholeNumbers;

impl Meaning for WholeNumbers {
    fn name(&self) -> &'static str {
        "whole_numbers"
    }

    fn concerns(&self, expr: &Expr) -> bool {
        match expr {
            Expr::BinaryExpr(BinaryExpr { left, right, .. }) => is_number(left) || is_number(right),
            Expr::Between(Between { low, high, .. }) => is_number(low) || is_number(high),
            Expr::InList(InList { list, .. }) => list.iter().any(is_number),
            Expr::Case(case) => results(case).any(is_number),
            Expr::Negative(number) => is_number(number),
            Expr::ScalarFunction(call) => has_type_of_arguments(call) && call.args.iter().any(is_number),
            _ => false,
        }
    }

    fn rewrite(&self, expr: Expr, scope: &Scope<'_>) -> Result<Transformed<Expr>> {
        let are_small = match &expr {
            Expr::BinaryExpr(BinaryExpr { left, right, .. }) => are_small([&**left, &**right], scope.schema),
            Expr::Between(Between { expr, low, high, .. }) => {
                are_small([&**expr, &**low, &**high], scope.schema)
            }
            Expr::InList(InList { expr, list, .. }) => {
                are_small(std::iter::once(&**expr).chain(list), scope.schema)
            }
            Expr::Case(case) => are_small(results(case), scope.schema),
            Expr::Negative(number) => are_small([&**number], scope.schema),
            Expr::ScalarFunction(call) => are_small(&call.args, scope.schema),
            _ => false,
        };
        if !are_small {
            return Ok(Transformed::no(expr));
        }
        // The values after WHEN are compared with another one, and get their type from that.
        if let Expr::Case(case) = expr {
            let Case { expr, when_then_expr, else_expr } = case;
            let when_then_expr =
                when_then_expr.into_iter().map(|(when, then)| (when, Box::new(narrow(*then)))).collect();
            let else_expr = else_expr.map(|otherwise| Box::new(narrow(*otherwise)));
            return Ok(Transformed::yes(Expr::Case(Case { expr, when_then_expr, else_expr })));
        }
        expr.map_children(|part| Ok(Transformed::yes(narrow(part))))
    }
}

fn results(case: &Case) -> impl Iterator<Item = &Expr> {
    case.when_then_expr.iter().map(|(_, then)| &**then).chain(case.else_expr.as_deref())
}

fn has_type_of_arguments(call: &ScalarFunction) -> bool {
    CHOICES.contains(&call.name()) || OF_ARGUMENTS.contains(&call.name())
}

/// Whether an expression is a literal as the planner makes it, and fits an INTEGER.
pub fn is_number(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(ScalarValue::Int64(Some(number)), _) if i32::try_from(*number).is_ok())
}

/// Whether all sides are such literals, or values of types no wider than INTEGER.
fn are_small<'a>(sides: impl IntoIterator<Item = &'a Expr>, schema: &DFSchema) -> bool {
    sides.into_iter().all(|side| {
        is_number(side)
            || matches!(
                side.get_type(schema),
                Ok(DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Null)
            )
    })
}

fn narrow(expr: Expr) -> Expr {
    match expr {
        Expr::Literal(ScalarValue::Int64(Some(number)), metadata) => match i32::try_from(number) {
            Ok(number) => Expr::Literal(ScalarValue::Int32(Some(number)), metadata),
            Err(_) => Expr::Literal(ScalarValue::Int64(Some(number)), metadata),
        },
        other => other,
    }
}

/// Makes columns INTEGER that are such literals.
pub fn narrow_columns(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match node {
        LogicalPlan::Projection(projection)
            if projection.expr.iter().any(|column| is_number(unaliased(column))) =>
        {
            let columns = projection.expr.iter().map(|column| match is_number(unaliased(column)) {
                true => {
                    let (relation, name) = column.qualified_name();
                    narrow(unaliased(column).clone()).alias_qualified(relation, name)
                }
                false => column.clone(),
            });
            let columns = columns.collect::<Vec<_>>();
            let narrowed = Projection::try_new(columns, projection.input)?;
            Ok(Transformed::yes(LogicalPlan::Projection(narrowed)))
        }
        LogicalPlan::Values(values) => narrow_values(values),
        other => Ok(Transformed::no(other)),
    }
}

fn narrow_values(values: Values) -> Result<Transformed<LogicalPlan>> {
    let nothing = DFSchema::empty();
    let small: Vec<bool> = (0..values.schema.fields().len())
        .map(|at| {
            let cells = || values.values.iter().filter_map(|row| row.get(at));
            cells().any(is_number) && are_small(cells(), &nothing)
        })
        .collect();
    if !small.contains(&true) {
        return Ok(Transformed::no(LogicalPlan::Values(values)));
    }
    let rows = values.values.into_iter().map(|row| {
        let cells = row.into_iter().zip(&small);
        cells.map(|(cell, small)| if *small { narrow(cell) } else { cell }).collect()
    });
    Ok(Transformed::yes(LogicalPlanBuilder::values(rows.collect())?.build()?))
}

fn unaliased(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => unaliased(&alias.expr),
        other => other,
    }
}

/// Lengths of arrays are INTEGER.
#[derive(Debug)]
pub struct ArrayLengths;

impl Meaning for ArrayLengths {
    fn name(&self) -> &'static str {
        "array_lengths"
    }

    fn concerns(&self, expr: &Expr) -> bool {
        matches!(expr, Expr::ScalarFunction(call) if LENGTHS.contains(&call.name()))
    }

    fn rewrite(&self, expr: Expr, scope: &Scope<'_>) -> Result<Transformed<Expr>> {
        Ok(match expr.get_type(scope.schema) {
            Ok(DataType::UInt64) => Transformed::yes(cast(expr, DataType::Int32)),
            _ => Transformed::no(expr),
        })
    }
}
