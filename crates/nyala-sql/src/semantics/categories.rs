//! Values of different categories are not cast implicitly: DataFusion makes texts of numbers that meet texts.

use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::{Case, Expr, ExprSchemable, Union};

use super::decimals::CHOICES;
use super::unknowns::is_unknown;
use super::{Meaning, Scope};
use crate::error::{ErrorKind, QueryError};

/// Categories of types; types of one category are cast to each other implicitly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Category {
    Number,
    Text,
    Truth,
    Calendar,
}

/// The category of a type; none for types that have rules of their own.
fn category(data_type: &DataType) -> Option<Category> {
    Some(match data_type {
        DataType::Boolean => Category::Truth,
        DataType::Date32 | DataType::Date64 | DataType::Timestamp(..) => Category::Calendar,
        DataType::Dictionary(_, values) => return category(values),
        text if text.is_string() => Category::Text,
        number if number.is_numeric() => Category::Number,
        _ => return None,
    })
}

/// Fails if a number or a truth value is given to a date or timestamp column, or the other way round:
/// PostgreSQL has not even a cast for that. DataFusion counts days or microseconds.
pub fn check_assignment(from: &DataType, to: &DataType) -> crate::error::Result<()> {
    let fits = match (category(from), category(to)) {
        (Some(Category::Number | Category::Truth), Some(to)) => to != Category::Calendar,
        (Some(Category::Calendar), Some(to)) => !matches!(to, Category::Number | Category::Truth),
        _ => true,
    };
    match fits {
        true => Ok(()),
        false => {
            let message =
                format!("a value of type {} does not fit a column of type {}", name(from), name(to));
            Err(QueryError::new(ErrorKind::InvalidText, message)
                .hint("write the value as a constant of that type"))
        }
    }
}

/// The results of CASE, and the arguments of `coalesce` and its kin, must be of one category.
#[derive(Debug)]
pub struct MatchingTypes;

impl Meaning for MatchingTypes {
    fn name(&self) -> &'static str {
        "matching_types"
    }

    fn concerns(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Case(_) => true,
            Expr::ScalarFunction(call) => CHOICES.contains(&call.name()) && call.args.len() > 1,
            _ => false,
        }
    }

    fn rewrite(&self, expr: Expr, scope: &Scope<'_>) -> Result<Transformed<Expr>> {
        let of = |side: &Expr| match is_unknown(side) {
            true => None,
            false => side.get_type(scope.schema).ok(),
        };
        match &expr {
            Expr::Case(Case { when_then_expr, else_expr, .. }) => {
                let results = when_then_expr.iter().map(|(_, then)| &**then).chain(else_expr.as_deref());
                check("CASE", results.filter_map(of))?;
            }
            // The first argument of `nvl2` is no result: it only decides which of the others is.
            Expr::ScalarFunction(call) if call.name() == "nvl2" => {}
            Expr::ScalarFunction(call) => {
                check(&call.name().to_uppercase(), call.args.iter().filter_map(of))?
            }
            _ => {}
        }
        Ok(Transformed::no(expr))
    }
}

/// The inputs of a UNION must have columns of the same categories.
pub fn check_union(union: &Union) -> Result<()> {
    for at in 0..union.schema.fields().len() {
        let types = union.inputs.iter().filter_map(|input| input.schema().fields().get(at));
        check("UNION", types.map(|field| field.data_type().clone()))?;
    }
    Ok(())
}

fn check(what: &str, types: impl Iterator<Item = DataType>) -> Result<()> {
    let mut known: Option<(DataType, Category)> = None;
    for data_type in types {
        let Some(of) = category(&data_type) else { continue };
        match &known {
            Some((first, category)) if *category != of => {
                let message =
                    format!("{what} types {} and {} cannot be matched", name(first), name(&data_type));
                let error = QueryError::new(ErrorKind::InvalidText, message);
                return Err(error.hint("cast one to the type of the other").into());
            }
            Some(_) => {}
            None => known = Some((data_type, of)),
        }
    }
    Ok(())
}

/// The name of a type in SQL.
fn name(data_type: &DataType) -> &'static str {
    match data_type {
        DataType::Int8 | DataType::UInt8 | DataType::Int16 => "smallint",
        DataType::UInt16 | DataType::Int32 => "integer",
        DataType::UInt32 | DataType::Int64 => "bigint",
        DataType::Float16 | DataType::Float32 => "real",
        DataType::Float64 => "double precision",
        DataType::Boolean => "boolean",
        DataType::Date32 | DataType::Date64 => "date",
        DataType::Timestamp(_, None) => "timestamp without time zone",
        DataType::Timestamp(_, Some(_)) => "timestamp with time zone",
        number if number.is_numeric() => "numeric",
        _ => "text",
    }
}
