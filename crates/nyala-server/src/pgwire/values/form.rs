//! Forms of values: which PostgreSQL type values of an Arrow type have, and so how they are written.

use arrow::datatypes::{DataType, Field};
use arrow_pg::datatypes::{PG_CHAR_KEY, PG_OID_ALIAS_KEY, pg_type_for_alias_kind};
use nyala_pg::types::{array_type, marked_type};
use pgwire::api::Type;

/// The form of values of one type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Form {
    Bool,
    Int2,
    Int4,
    Int8,
    /// A number of four bytes without a sign: an OID, or a type that shows the object it names.
    Oid(Type),
    /// Decimals of any width, and whole numbers that no other type holds.
    Numeric,
    Float4,
    Float8,
    Date,
    Time,
    /// With or without a time zone.
    Timestamp(bool),
    Interval,
    /// Sixteen bytes.
    Uuid,
    Bytes,
    /// One byte that is a letter.
    Letter,
    /// Texts that have the same bytes in both formats.
    Text(Type),
    /// JSON in a parsed form, which has a version in front of it in binary.
    Jsonb,
    /// Arrow's display text, for types that PostgreSQL has not.
    Display,
    /// An array, of one dimension or more.
    List(Box<Form>),
    /// An array whose first element has the number 0, as in columns of the system catalog; its text has blanks.
    Vector(Type, Box<Form>),
    /// A row.
    Record(Vec<Form>),
}

impl Form {
    /// The form of the values of a field.
    pub fn of(field: &Field) -> Self {
        let data_type = unpacked(field.data_type());
        let mark = |key: &str| field.metadata().get(key).map(String::as_str);
        if data_type.is_integer()
            && let Some(kind) = mark(PG_OID_ALIAS_KEY).and_then(pg_type_for_alias_kind)
        {
            return Self::Oid(kind);
        }
        if data_type.is_string() {
            if mark(PG_CHAR_KEY).is_some() {
                return Self::Letter;
            }
            return marked_type(field).map_or(Self::Text(Type::TEXT), Self::of_text);
        }
        match (marked_type(field), Self::of_type(data_type)) {
            (Some(kind @ (Type::INT2_VECTOR | Type::OID_VECTOR)), Self::List(item)) => {
                Self::Vector(kind.clone(), item.into_oids(kind == Type::OID_VECTOR))
            }
            (_, form) => form,
        }
    }

    /// Texts that PostgreSQL has a type of its own for.
    pub fn of_text(kind: Type) -> Self {
        if kind == Type::JSONB { Self::Jsonb } else { Self::Text(kind) }
    }

    fn into_oids(self: Box<Self>, oids: bool) -> Box<Self> {
        if oids { Box::new(Self::Oid(Type::OID)) } else { self }
    }

    /// The form of the values of a type that has no mark.
    pub fn of_type(data_type: &DataType) -> Self {
        match unpacked(data_type) {
            DataType::Boolean => Self::Bool,
            DataType::Int8 | DataType::UInt8 | DataType::Int16 => Self::Int2,
            DataType::UInt16 | DataType::Int32 => Self::Int4,
            DataType::UInt32 | DataType::Int64 => Self::Int8,
            DataType::UInt64
            | DataType::Decimal32(..)
            | DataType::Decimal64(..)
            | DataType::Decimal128(..)
            | DataType::Decimal256(..) => Self::Numeric,
            DataType::Float16 | DataType::Float32 => Self::Float4,
            DataType::Float64 => Self::Float8,
            DataType::Date32 | DataType::Date64 => Self::Date,
            DataType::Time32(_) | DataType::Time64(_) => Self::Time,
            DataType::Timestamp(_, zone) => Self::Timestamp(zone.is_some()),
            DataType::Interval(_) | DataType::Duration(_) => Self::Interval,
            DataType::FixedSizeBinary(16) => Self::Uuid,
            DataType::FixedSizeBinary(_)
            | DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView => Self::Bytes,
            DataType::Null | DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
                Self::Text(Type::TEXT)
            }
            DataType::List(item)
            | DataType::LargeList(item)
            | DataType::FixedSizeList(item, _)
            | DataType::ListView(item)
            | DataType::LargeListView(item) => Self::of_list(item),
            DataType::Struct(fields) => Self::Record(fields.iter().map(|field| Self::of(field)).collect()),
            _ => Self::Display,
        }
    }

    fn of_list(item: &Field) -> Self {
        match unpacked(item.data_type()) {
            // PostgreSQL has no unsigned numbers. Lists of them hold positions, which fit into signed ones.
            DataType::UInt64 => Self::List(Box::new(Self::Int8)),
            _ => Self::List(Box::new(Self::of(item))),
        }
    }

    /// The type that clients are told.
    pub fn pg_type(&self) -> Type {
        match self {
            Self::Bool => Type::BOOL,
            Self::Int2 => Type::INT2,
            Self::Int4 => Type::INT4,
            Self::Int8 => Type::INT8,
            Self::Oid(kind) | Self::Vector(kind, _) | Self::Text(kind) => kind.clone(),
            Self::Numeric => Type::NUMERIC,
            Self::Float4 => Type::FLOAT4,
            Self::Float8 => Type::FLOAT8,
            Self::Date => Type::DATE,
            Self::Time => Type::TIME,
            Self::Timestamp(true) => Type::TIMESTAMPTZ,
            Self::Timestamp(false) => Type::TIMESTAMP,
            Self::Interval => Type::INTERVAL,
            Self::Uuid => Type::UUID,
            Self::Bytes => Type::BYTEA,
            Self::Letter => Type::CHAR,
            Self::Jsonb => Type::JSONB,
            Self::Display => Type::TEXT,
            // Arrays have one type for any number of dimensions.
            Self::List(item) => match item.as_ref() {
                Self::List(_) => item.pg_type(),
                Self::Record(_) => Type::RECORD_ARRAY,
                item => array_type(&item.pg_type()).unwrap_or(Type::TEXT_ARRAY),
            },
            Self::Record(_) => Type::RECORD,
        }
    }

    /// Bytes of a value of a fixed width, otherwise -1: `typlen`.
    pub fn type_size(&self) -> i16 {
        match self {
            Self::Bool | Self::Letter => 1,
            Self::Int2 => 2,
            Self::Int4 | Self::Float4 | Self::Date | Self::Oid(_) => 4,
            Self::Int8 | Self::Float8 | Self::Timestamp(_) | Self::Time => 8,
            Self::Interval | Self::Uuid => 16,
            _ => -1,
        }
    }
}

/// The type of the values, seen through encodings that only save space.
pub fn unpacked(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => unpacked(values),
        DataType::RunEndEncoded(_, values) => unpacked(values.data_type()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_have_the_types_that_clients_know() {
        let check = |data_type: DataType, kind: Type| {
            assert_eq!(Form::of(&Field::new("c", data_type, true)).pg_type(), kind);
        };
        let list = |item| DataType::new_list(item, true);
        check(list(DataType::Decimal128(3, 2)), Type::NUMERIC_ARRAY);
        check(list(list(DataType::Int32)), Type::INT4_ARRAY);
        check(list(DataType::FixedSizeBinary(16)), Type::UUID_ARRAY);
        check(list(DataType::Null), Type::TEXT_ARRAY);
        check(DataType::UInt64, Type::NUMERIC);
        check(DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)), Type::TEXT);
        check(DataType::Struct(vec![Field::new("a", DataType::Int32, true)].into()), Type::RECORD);
    }
}
