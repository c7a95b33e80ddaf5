//! The PostgreSQL types of columns: numbers, names, modifiers and storage.

use arrow::datatypes::{DataType, Field};
use arrow_pg::datatypes::{PG_CHAR_KEY, PG_OID_ALIAS_KEY};
use datafusion::sql::sqlparser::ast::{CharacterLength, DataType as SqlType, ExactNumberInfo};
use nyala_sql::functions::UUID;
use pgwire::api::Type;
use postgres_types::Kind as TypeKind;

use crate::types::{array_type, marked_type};

/// The type of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnType {
    pub kind: Type,
    /// `atttypmod`: length of a varchar, precision and scale of a numeric; -1 for none.
    pub modifier: i32,
}

impl ColumnType {
    /// The type of a field, refined by the type that the table's statement names, if that is known: Arrow has no VARCHAR(n), and
    /// a number without precision has one in Arrow.
    pub fn of(field: &Field, written: Option<&SqlType>) -> Self {
        let kind = match field.extension_type_name() {
            Some("arrow.uuid") => Type::UUID,
            Some("arrow.json") => Type::JSON,
            _ if field.metadata().contains_key(PG_OID_ALIAS_KEY) && field.data_type().is_integer() => {
                Type::OID
            }
            _ if field.metadata().contains_key(PG_CHAR_KEY) => Type::CHAR,
            _ => marked_type(field).unwrap_or_else(|| kind_of(field.data_type())),
        };
        let modifier = numeric_modifier(field.data_type());
        let plain = Self { kind, modifier };
        match written {
            Some(written) => plain.written(written),
            None => plain,
        }
    }

    /// This type, refined by the type that a statement names.
    pub fn written(self, written: &SqlType) -> Self {
        use SqlType as S;
        match (&self.kind, written) {
            (&Type::TEXT, S::Varchar(length) | S::CharacterVarying(length) | S::CharVarying(length)) => {
                Self { kind: Type::VARCHAR, modifier: length_modifier(length.as_ref()) }
            }
            (&Type::TEXT, S::Char(length) | S::Character(length)) => {
                let modifier = length_modifier(length.as_ref());
                Self { kind: Type::BPCHAR, modifier: if modifier < 0 { 5 } else { modifier } }
            }
            (&Type::TEXT, S::JSON) => Self { kind: Type::JSON, ..self },
            (&Type::TEXT, S::JSONB) => Self { kind: Type::JSONB, ..self },
            (&Type::NUMERIC, S::Numeric(ExactNumberInfo::None) | S::Decimal(ExactNumberInfo::None)) => {
                Self { modifier: -1, ..self }
            }
            _ => self,
        }
    }

    /// `typlen`: bytes of a value, -1 if they vary.
    pub fn size(&self) -> i16 {
        match self.kind {
            Type::BOOL | Type::CHAR => 1,
            Type::INT2 => 2,
            Type::INT4 | Type::FLOAT4 | Type::DATE | Type::OID => 4,
            Type::INT8 | Type::FLOAT8 | Type::TIMESTAMP | Type::TIMESTAMPTZ | Type::TIME => 8,
            Type::INTERVAL | Type::UUID => 16,
            _ => -1,
        }
    }

    /// Whether PostgreSQL passes values by value.
    pub fn by_value(&self) -> bool {
        (1..=8).contains(&self.size())
    }

    /// `typalign`.
    pub fn alignment(&self) -> &'static str {
        match self.size() {
            1 => "c",
            16 if self.kind == Type::UUID => "c",
            2 => "s",
            8 | 16 => "d",
            _ => "i",
        }
    }

    /// `typstorage`.
    pub fn storage(&self) -> &'static str {
        match self.kind {
            Type::NUMERIC => "m",
            _ if self.size() > 0 => "p",
            _ => "x",
        }
    }

    /// Whether comparisons of values depend on a collation.
    pub fn is_collatable(&self) -> bool {
        matches!(self.kind, Type::TEXT | Type::VARCHAR | Type::BPCHAR | Type::TEXT_ARRAY)
    }

    /// Whether values are texts.
    pub fn is_text(&self) -> bool {
        matches!(self.kind, Type::TEXT | Type::VARCHAR | Type::BPCHAR)
    }

    /// The name of the type in `information_schema`, column `data_type`.
    pub fn standard_name(&self) -> String {
        match array_element(&self.kind) {
            Some(_) => "ARRAY".to_owned(),
            None => format_type(self.kind.oid(), -1),
        }
    }

    /// Largest number of characters of a value.
    pub fn length(&self) -> Option<i32> {
        let has_length = matches!(self.kind, Type::VARCHAR | Type::BPCHAR);
        (has_length && self.modifier >= 4).then(|| self.modifier - 4)
    }

    /// Precision, radix and scale of numbers.
    pub fn numeric(&self) -> (Option<i32>, Option<i32>, Option<i32>) {
        match self.kind {
            Type::INT2 => (Some(16), Some(2), Some(0)),
            Type::INT4 => (Some(32), Some(2), Some(0)),
            Type::INT8 => (Some(64), Some(2), Some(0)),
            Type::FLOAT4 => (Some(24), Some(2), None),
            Type::FLOAT8 => (Some(53), Some(2), None),
            Type::NUMERIC if self.modifier >= 4 => {
                let digits = self.modifier - 4;
                (Some(digits >> 16 & 0xffff), Some(10), Some(digits & 0x7ff))
            }
            Type::NUMERIC => (None, Some(10), None),
            _ => (None, None, None),
        }
    }

    /// Digits of the fraction of a second.
    pub fn time_digits(&self) -> Option<i32> {
        match self.kind {
            Type::DATE => Some(0),
            Type::TIME | Type::TIMESTAMP | Type::TIMESTAMPTZ | Type::INTERVAL => Some(6),
            _ => None,
        }
    }
}

/// The element type of an array type.
pub fn array_element(kind: &Type) -> Option<Type> {
    match kind.kind() {
        TypeKind::Array(item) => Some(item.clone()),
        _ => None,
    }
}

fn length_modifier(length: Option<&CharacterLength>) -> i32 {
    match length {
        Some(CharacterLength::IntegerLength { length, .. }) => {
            i32::try_from(*length).map_or(-1, |length| length.saturating_add(4))
        }
        _ => -1,
    }
}

fn numeric_modifier(data_type: &DataType) -> i32 {
    match data_type {
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale)
            if *scale >= 0 =>
        {
            (i32::from(*precision) << 16 | i32::from(*scale)) + 4
        }
        _ => -1,
    }
}

/// The type that clients get for values of an Arrow type.
fn kind_of(data_type: &DataType) -> Type {
    use DataType as D;
    match data_type {
        D::Boolean => Type::BOOL,
        D::Int8 | D::UInt8 | D::Int16 => Type::INT2,
        D::UInt16 | D::Int32 => Type::INT4,
        D::UInt32 | D::Int64 => Type::INT8,
        D::UInt64 | D::Decimal32(..) | D::Decimal64(..) | D::Decimal128(..) | D::Decimal256(..) => {
            Type::NUMERIC
        }
        D::Float16 | D::Float32 => Type::FLOAT4,
        D::Float64 => Type::FLOAT8,
        uuid if *uuid == UUID => Type::UUID,
        D::Binary | D::LargeBinary | D::BinaryView | D::FixedSizeBinary(_) => Type::BYTEA,
        D::Date32 | D::Date64 => Type::DATE,
        D::Time32(_) | D::Time64(_) => Type::TIME,
        D::Timestamp(_, None) => Type::TIMESTAMP,
        D::Timestamp(_, Some(_)) => Type::TIMESTAMPTZ,
        D::Interval(_) | D::Duration(_) => Type::INTERVAL,
        D::Dictionary(_, values) => kind_of(values),
        D::RunEndEncoded(_, values) => kind_of(values.data_type()),
        D::List(item) | D::LargeList(item) | D::FixedSizeList(item, _) | D::ListView(item) => {
            let item = kind_of(item.data_type());
            // Arrays have one type for any number of dimensions.
            if array_element(&item).is_some() { item } else { array_type(&item).unwrap_or(Type::TEXT) }
        }
        _ => Type::TEXT,
    }
}

/// SQL's name of a type with its modifier, as PostgreSQL's `format_type` gives it.
pub fn format_type(oid: u32, modifier: i32) -> String {
    let Some(kind) = Type::from_oid(oid) else {
        return if oid == 0 { "-".to_owned() } else { "???".to_owned() };
    };
    if let Some(item) = array_element(&kind)
        && !matches!(kind, Type::INT2_VECTOR | Type::OID_VECTOR)
    {
        return format!("{}[]", format_type(item.oid(), modifier));
    }
    let digits = modifier - 4;
    match kind {
        Type::BOOL => "boolean".to_owned(),
        Type::INT2 => "smallint".to_owned(),
        Type::INT4 => "integer".to_owned(),
        Type::INT8 => "bigint".to_owned(),
        Type::FLOAT4 => "real".to_owned(),
        Type::FLOAT8 => "double precision".to_owned(),
        Type::CHAR => "\"char\"".to_owned(),
        Type::BPCHAR if modifier >= 4 => format!("character({digits})"),
        Type::BPCHAR if modifier < 0 => "character".to_owned(),
        Type::VARCHAR if modifier >= 4 => format!("character varying({digits})"),
        Type::VARCHAR => "character varying".to_owned(),
        Type::NUMERIC if modifier >= 4 => format!("numeric({},{})", digits >> 16 & 0xffff, digits & 0x7ff),
        Type::TIME => timed("time", modifier, " without time zone"),
        Type::TIMETZ => timed("time", modifier, " with time zone"),
        Type::TIMESTAMP => timed("timestamp", modifier, " without time zone"),
        Type::TIMESTAMPTZ => timed("timestamp", modifier, " with time zone"),
        Type::BIT => "bit".to_owned(),
        Type::VARBIT => "bit varying".to_owned(),
        kind => kind.name().to_owned(),
    }
}

fn timed(name: &str, modifier: i32, zone: &str) -> String {
    match modifier {
        0.. => format!("{name}({modifier}){zone}"),
        _ => format!("{name}{zone}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_named_as_in_postgresql() {
        let check = |kind: Type, modifier, name: &str| assert_eq!(format_type(kind.oid(), modifier), name);
        check(Type::NUMERIC, (10 << 16 | 2) + 4, "numeric(10,2)");
        check(Type::NUMERIC, -1, "numeric");
        check(Type::VARCHAR, 24, "character varying(20)");
        check(Type::INT4_ARRAY, -1, "integer[]");
        check(Type::TIMESTAMP, 3, "timestamp(3) without time zone");
        check(Type::OID_VECTOR, -1, "oidvector");
        assert_eq!(format_type(0, -1), "-");
    }

    #[test]
    fn columns_have_the_types_they_were_written_with() {
        let text = Field::new("a", DataType::Utf8View, true);
        let written = SqlType::Varchar(Some(CharacterLength::IntegerLength { length: 20, unit: None }));
        assert_eq!(ColumnType::of(&text, Some(&written)), ColumnType { kind: Type::VARCHAR, modifier: 24 });
        assert_eq!(ColumnType::of(&text, None).standard_name(), "text");
        let number = Field::new("a", DataType::Decimal128(10, 2), true);
        assert_eq!(ColumnType::of(&number, None).numeric(), (Some(10), Some(10), Some(2)));
    }
}
