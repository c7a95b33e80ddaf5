//! Types and values that PREPARE and EXECUTE carry in their own text.

use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{Expr, UnaryOperator, Value, ValueWithSpan};
use pgwire::api::Type;

use crate::pgwire::errors::{Failure, sqlstate};
use crate::pgwire::values::parameters::{self, Zone};

/// The values of an EXECUTE, from the literals in its text.
pub fn argument_values(
    types: &[Type],
    arguments: &[Expr],
    zone: Zone<'_>,
) -> Result<Vec<ScalarValue>, Failure> {
    if types.len() != arguments.len() {
        let (given, wanted) = (arguments.len(), types.len());
        let message =
            format!("EXECUTE supplies {given} parameters, but prepared statement requires {wanted}");
        return Err(Failure::error(sqlstate::SYNTAX_ERROR, message));
    }
    types.iter().zip(arguments).map(|(kind, argument)| argument_value(kind, argument, zone)).collect()
}

fn argument_value(kind: &Type, argument: &Expr, zone: Zone<'_>) -> Result<ScalarValue, Failure> {
    let text = match argument {
        Expr::Value(ValueWithSpan { value: Value::Null, .. }) => return Ok(parameters::null(kind)),
        Expr::Value(ValueWithSpan { value, .. }) => {
            value.clone().into_string().unwrap_or_else(|| value.to_string())
        }
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => format!("-{expr}"),
        Expr::Cast { expr, .. } => return argument_value(kind, expr, zone),
        other => {
            let message = format!("EXECUTE takes literals, not `{other}`");
            return Err(Failure::error(sqlstate::FEATURE_NOT_SUPPORTED, message));
        }
    };
    parameters::from_text(kind, &text, zone).ok_or_else(|| {
        Failure::error(sqlstate::INVALID_TEXT, format!("invalid input for type {}: `{text}`", kind.name()))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn arguments_are_literals_of_the_parameters_types() {
        let five = Expr::Value(Value::Number("5".to_owned(), false).with_empty_span());
        let minus = Expr::UnaryOp { op: UnaryOperator::Minus, expr: Box::new(five.clone()) };
        assert_eq!(argument_value(&Type::INT4, &minus, &|| None).unwrap(), ScalarValue::Int32(Some(-5)));
        assert_eq!(
            argument_values(&[], std::slice::from_ref(&five), &|| None).unwrap_err().sqlstate,
            "42601"
        );
        assert_eq!(
            argument_value(&Type::BOOL, &Expr::Identifier("x".into()), &|| None).unwrap_err().sqlstate,
            "0A000"
        );
    }
}
