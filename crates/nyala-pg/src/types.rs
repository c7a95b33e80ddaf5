//! Types by the names that statements give them.

use arrow::datatypes::Field;
use datafusion::sql::sqlparser::ast::{ArrayElemTypeDef, DataType as SqlType, TimezoneInfo};
use nyala_sql::semantics::MARK;
use pgwire::api::Type;

/// The PostgreSQL type of a type name in PREPARE.
pub fn type_named(kind: &SqlType) -> Option<Type> {
    if let SqlType::Array(ArrayElemTypeDef::SquareBracket(item, _) | ArrayElemTypeDef::AngleBracket(item)) =
        kind
    {
        return array_type(&type_named(item)?);
    }
    let written = kind.to_string().to_ascii_lowercase();
    let name = written.strip_prefix("pg_catalog.").unwrap_or(&written);
    // Lengths and digits are not part of the name of a type.
    let name = name.split('(').next().unwrap_or(name).trim();
    Some(match (name, kind) {
        (_, SqlType::Timestamp(_, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz)) => Type::TIMESTAMPTZ,
        ("bool" | "boolean", _) => Type::BOOL,
        ("smallint" | "int2", _) => Type::INT2,
        ("int" | "integer" | "int4", _) => Type::INT4,
        ("oid", _) => Type::OID,
        ("bigint" | "int8", _) => Type::INT8,
        ("real" | "float4", _) => Type::FLOAT4,
        ("double precision" | "float8" | "float" | "double", _) => Type::FLOAT8,
        ("date", _) => Type::DATE,
        ("time" | "time without time zone", _) => Type::TIME,
        ("timestamp" | "timestamp without time zone", _) => Type::TIMESTAMP,
        ("timestamptz" | "timestamp with time zone", _) => Type::TIMESTAMPTZ,
        ("interval", _) => Type::INTERVAL,
        ("bytea", _) => Type::BYTEA,
        ("uuid", _) => Type::UUID,
        ("json", _) => Type::JSON,
        ("jsonb", _) => Type::JSONB,
        ("text", _) => Type::TEXT,
        ("varchar" | "character varying" | "char varying", _) => Type::VARCHAR,
        ("char" | "character" | "bpchar", _) => Type::BPCHAR,
        ("name", _) => Type::NAME,
        ("\"char\"", _) => Type::CHAR,
        ("regclass", _) => Type::REGCLASS,
        ("numeric" | "decimal" | "dec", _) => Type::NUMERIC,
        _ => return None,
    })
}

/// The array type of an element type; none if PostgreSQL has none, or values of it are not read.
pub fn array_type(item: &Type) -> Option<Type> {
    Some(match *item {
        Type::BOOL => Type::BOOL_ARRAY,
        Type::INT2 => Type::INT2_ARRAY,
        Type::INT4 => Type::INT4_ARRAY,
        Type::INT8 => Type::INT8_ARRAY,
        Type::OID => Type::OID_ARRAY,
        Type::REGCLASS => Type::REGCLASS_ARRAY,
        Type::REGTYPE => Type::REGTYPE_ARRAY,
        Type::FLOAT4 => Type::FLOAT4_ARRAY,
        Type::FLOAT8 => Type::FLOAT8_ARRAY,
        Type::NUMERIC => Type::NUMERIC_ARRAY,
        Type::CHAR => Type::CHAR_ARRAY,
        Type::TEXT => Type::TEXT_ARRAY,
        Type::VARCHAR => Type::VARCHAR_ARRAY,
        Type::BPCHAR => Type::BPCHAR_ARRAY,
        Type::NAME => Type::NAME_ARRAY,
        Type::BYTEA => Type::BYTEA_ARRAY,
        Type::UUID => Type::UUID_ARRAY,
        Type::JSON => Type::JSON_ARRAY,
        Type::JSONB => Type::JSONB_ARRAY,
        Type::DATE => Type::DATE_ARRAY,
        Type::TIME => Type::TIME_ARRAY,
        Type::TIMESTAMP => Type::TIMESTAMP_ARRAY,
        Type::TIMESTAMPTZ => Type::TIMESTAMPTZ_ARRAY,
        Type::INTERVAL => Type::INTERVAL_ARRAY,
        _ => return None,
    })
}

pub use crate::catalog::array_element;

/// The PostgreSQL type in the metadata of a field, for an Arrow type that stands for several PostgreSQL types.
pub fn marked_type(field: &Field) -> Option<Type> {
    Some(match field.metadata().get(MARK)?.as_str() {
        "int2vector" => Type::INT2_VECTOR,
        "oidvector" => Type::OID_VECTOR,
        "name" => Type::NAME,
        "json" => Type::JSON,
        "jsonb" => Type::JSONB,
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
        check("numeric[]", Some(Type::NUMERIC_ARRAY));
        check("varchar(3)[]", Some(Type::VARCHAR_ARRAY));
        check("timestamp(3) with time zone", Some(Type::TIMESTAMPTZ));
        check("pg_catalog.uuid", Some(Type::UUID));
    }
}
