//! Types and values that PREPARE and EXECUTE carry in their own text.

use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, DataType as SqlType, Expr, UnaryOperator, Value, ValueWithSpan,
};
use pgwire::api::Type;

use super::errors::{Failure, sqlstate};
use super::{arrays, parameters};

/// The PostgreSQL type of a type name in PREPARE.
pub(super) fn type_named(kind: &SqlType) -> Option<Type> {
    if let SqlType::Array(ArrayElemTypeDef::SquareBracket(item, _) | ArrayElemTypeDef::AngleBracket(item)) =
        kind
    {
        return arrays::array_type(&type_named(item)?);
    }
    Some(match kind.to_string().to_ascii_lowercase().as_str() {
        "bool" | "boolean" => Type::BOOL,
        "smallint" | "int2" => Type::INT2,
        "int" | "integer" | "int4" => Type::INT4,
        "oid" => Type::OID,
        "bigint" | "int8" => Type::INT8,
        "real" | "float4" => Type::FLOAT4,
        "double precision" | "float8" => Type::FLOAT8,
        "date" => Type::DATE,
        "timestamp" => Type::TIMESTAMP,
        "timestamptz" | "timestamp with time zone" => Type::TIMESTAMPTZ,
        "bytea" => Type::BYTEA,
        "text" | "varchar" => Type::TEXT,
        name if name.starts_with("numeric") || name.starts_with("decimal") => Type::NUMERIC,
        _ => return None,
    })
}

/// The literals of an EXECUTE.
pub(super) fn argument_values(types: &[Type], arguments: &[Expr]) -> Result<Vec<ScalarValue>, Failure> {
    if types.len() != arguments.len() {
        let (given, wanted) = (arguments.len(), types.len());
        let message =
            format!("EXECUTE supplies {given} parameters, but prepared statement requires {wanted}");
        return Err(Failure::error(sqlstate::SYNTAX_ERROR, message));
    }
    types.iter().zip(arguments).map(|(kind, argument)| argument_value(kind, argument)).collect()
}

fn argument_value(kind: &Type, argument: &Expr) -> Result<ScalarValue, Failure> {
    let text = match argument {
        Expr::Value(ValueWithSpan { value: Value::Null, .. }) => return Ok(parameters::null(kind)),
        Expr::Value(ValueWithSpan { value, .. }) => {
            value.clone().into_string().unwrap_or_else(|| value.to_string())
        }
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => format!("-{expr}"),
        Expr::Cast { expr, .. } => return argument_value(kind, expr),
        other => {
            let message = format!("EXECUTE takes literals, not `{other}`");
            return Err(Failure::error(sqlstate::FEATURE_NOT_SUPPORTED, message));
        }
    };
    parameters::from_text(kind, &text).ok_or_else(|| {
        Failure::error(sqlstate::INVALID_TEXT, format!("invalid input for type {}: `{text}`", kind.name()))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn arrays_are_named_by_what_they_hold() {
        let check = |sql: &str, expected: Option<Type>| {
            let statement = format!("SELECT CAST($1 AS {sql})");
            let statement = super::super::snippets::statement(&statement).unwrap();
            let types =
                super::super::placeholders::written_types(&nyala_engine::Statement::from_ast(statement));
            assert_eq!(types.first().copied(), expected.map(|kind| kind.oid()), "{sql}");
        };
        check("TEXT[]", Some(Type::TEXT_ARRAY));
        check("int[]", Some(Type::INT4_ARRAY));
        check("BIGINT[]", Some(Type::INT8_ARRAY));
        check("date[]", Some(Type::DATE_ARRAY));
        check("numeric[]", None);
    }

    #[test]
    fn arguments_are_literals_of_the_parameters_types() {
        let five = Expr::Value(Value::Number("5".to_owned(), false).with_empty_span());
        let minus = Expr::UnaryOp { op: UnaryOperator::Minus, expr: Box::new(five.clone()) };
        assert_eq!(argument_value(&Type::INT4, &minus).unwrap(), ScalarValue::Int32(Some(-5)));
        assert_eq!(argument_values(&[], std::slice::from_ref(&five)).unwrap_err().sqlstate, "42601");
        assert_eq!(argument_value(&Type::BOOL, &Expr::Identifier("x".into())).unwrap_err().sqlstate, "0A000");
    }
}
