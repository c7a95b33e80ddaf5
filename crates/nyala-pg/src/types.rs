//! Types by the names that statements give them.

use datafusion::sql::sqlparser::ast::{ArrayElemTypeDef, DataType as SqlType};
use pgwire::api::Type;

/// The PostgreSQL type of a type name in PREPARE.
pub fn type_named(kind: &SqlType) -> Option<Type> {
    if let SqlType::Array(ArrayElemTypeDef::SquareBracket(item, _) | ArrayElemTypeDef::AngleBracket(item)) =
        kind
    {
        return array_type(&type_named(item)?);
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

/// The array type of an element type; none if values of it are not read.
pub fn array_type(item: &Type) -> Option<Type> {
    Some(match *item {
        Type::BOOL => Type::BOOL_ARRAY,
        Type::INT2 => Type::INT2_ARRAY,
        Type::INT4 => Type::INT4_ARRAY,
        Type::OID => Type::OID_ARRAY,
        Type::INT8 => Type::INT8_ARRAY,
        Type::FLOAT4 => Type::FLOAT4_ARRAY,
        Type::FLOAT8 => Type::FLOAT8_ARRAY,
        Type::TEXT => Type::TEXT_ARRAY,
        Type::DATE => Type::DATE_ARRAY,
        Type::TIMESTAMP => Type::TIMESTAMP_ARRAY,
        Type::TIMESTAMPTZ => Type::TIMESTAMPTZ_ARRAY,
        _ => return None,
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
            let statement = crate::translation::snippets::statement(&statement).unwrap();
            let types = crate::translation::placeholders::written_types(
                &nyala_sql::statement::Statement::from_ast(statement),
            );
            assert_eq!(types.first().copied(), expected.map(|kind| kind.oid()), "{sql}");
        };
        check("TEXT[]", Some(Type::TEXT_ARRAY));
        check("int[]", Some(Type::INT4_ARRAY));
        check("BIGINT[]", Some(Type::INT8_ARRAY));
        check("date[]", Some(Type::DATE_ARRAY));
        check("numeric[]", None);
    }
}
