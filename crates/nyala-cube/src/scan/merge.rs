//! One schema from those of several files: columns by name, types wide enough for all of them.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, IntervalUnit, TimeUnit};
use nyala_sql::error::{ErrorKind, QueryError, Result};

const MAX_DIGITS: u8 = 38;

/// Columns of files in the order they are met, each with the first file that has it.
#[derive(Debug, Default)]
pub struct Merged {
    columns: Vec<(FieldRef, String)>,
    files: usize,
}

impl Merged {
    /// Adds the columns of a file. `otherwise` is the type of columns that no type holds; none if that is an error.
    pub fn add(&mut self, file: &str, columns: &[FieldRef], otherwise: Option<&DataType>) -> Result<()> {
        for (position, column) in columns.iter().enumerate() {
            if columns.iter().take(position).any(|earlier| earlier.name() == column.name()) {
                return Err(in_file(twice(column.name()), file));
            }
            self.add_column(file, column, otherwise)?;
        }
        for (known, _) in &mut self.columns {
            if !columns.iter().any(|column| column.name() == known.name()) {
                *known = Arc::new(known.as_ref().clone().with_nullable(true));
            }
        }
        self.files += 1;
        Ok(())
    }

    fn add_column(&mut self, file: &str, column: &FieldRef, otherwise: Option<&DataType>) -> Result<()> {
        let Some((known, first)) = self.columns.iter_mut().find(|(known, _)| known.name() == column.name())
        else {
            let nullable = column.is_nullable() || self.files > 0;
            self.columns.push((Arc::new(column.as_ref().clone().with_nullable(nullable)), file.to_owned()));
            return Ok(());
        };
        let wide = widest(known.data_type(), column.data_type()).or_else(|| otherwise.cloned());
        let wide = wide.ok_or_else(|| {
            let (one, other) = (type_words(known.data_type()), type_words(column.data_type()));
            let message =
                format!("column `{}` is {one} in file `{first}` and {other} in file `{file}`", column.name());
            QueryError::new(ErrorKind::InvalidDefinition, message)
                .hint("list the columns with a type that both can be read as, or keep the files apart")
        })?;
        let nullable = known.is_nullable() || column.is_nullable();
        *known = Arc::new(Field::new(column.name(), wide, nullable));
        Ok(())
    }

    /// The columns.
    pub fn into_columns(self) -> Vec<FieldRef> {
        self.columns.into_iter().map(|(column, _)| column).collect()
    }
}

fn in_file(error: QueryError, file: &str) -> QueryError {
    let message = format!("{} in file `{file}`", error.message);
    QueryError { message, ..error }
}

/// The error about two columns of one name in a file.
pub fn twice(name: &str) -> QueryError {
    QueryError::new(ErrorKind::DuplicateColumn, format!("column `{name}` appears twice"))
        .hint("write the file anew with different names")
}

/// The narrowest type that holds all values of both.
pub fn widest(one: &DataType, other: &DataType) -> Option<DataType> {
    use DataType::*;
    if one == other {
        return Some(one.clone());
    }
    Some(match (one, other) {
        (Null, wide) | (wide, Null) => wide.clone(),
        (Utf8 | LargeUtf8 | Utf8View, Utf8 | LargeUtf8 | Utf8View) => Utf8View,
        (
            Binary | LargeBinary | BinaryView | FixedSizeBinary(_),
            Binary | LargeBinary | BinaryView | FixedSizeBinary(_),
        ) => BinaryView,
        (Date32 | Date64, Date32 | Date64) => Date32,
        (Date32 | Date64, Timestamp(_, None)) | (Timestamp(_, None), Date32 | Date64) => {
            Timestamp(TimeUnit::Microsecond, None)
        }
        (Timestamp(_, one), Timestamp(_, other)) if one == other => {
            Timestamp(TimeUnit::Microsecond, one.clone())
        }
        (Timestamp(_, Some(_)), Timestamp(_, Some(_))) => {
            Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
        }
        (Time32(_) | Time64(_), Time32(_) | Time64(_)) => Time64(TimeUnit::Microsecond),
        (Interval(_), Interval(_)) => Interval(IntervalUnit::MonthDayNano),
        (List(one) | LargeList(one), List(other) | LargeList(other)) => List(widest_item(one, other)?),
        (Struct(one), Struct(other)) => Struct(widest_parts(one, other)?.into()),
        _ => widest_number(one, other)?,
    })
}

fn widest_item(one: &FieldRef, other: &FieldRef) -> Option<FieldRef> {
    let wide = widest(one.data_type(), other.data_type())?;
    Some(Arc::new(Field::new(one.name(), wide, one.is_nullable() || other.is_nullable())))
}

fn widest_parts(one: &[FieldRef], other: &[FieldRef]) -> Option<Vec<FieldRef>> {
    let mut parts = Vec::new();
    for part in one {
        parts.push(match other.iter().find(|known| known.name() == part.name()) {
            Some(known) => widest_item(part, known)?,
            None => Arc::new(part.as_ref().clone().with_nullable(true)),
        });
    }
    let added = other.iter().filter(|part| !one.iter().any(|known| known.name() == part.name()));
    parts.extend(added.map(|part| Arc::new(part.as_ref().clone().with_nullable(true))));
    Some(parts)
}

fn widest_number(one: &DataType, other: &DataType) -> Option<DataType> {
    use DataType::{Float32, Float64};
    if !one.is_numeric() || !other.is_numeric() {
        return None;
    }
    if one.is_floating() || other.is_floating() {
        let is_narrow = |kind: &DataType| kind.is_floating() && *kind != Float64;
        return Some(if is_narrow(one) && is_narrow(other) { Float32 } else { Float64 });
    }
    if let (Some(one), Some(other)) = (integer(one), integer(other)) {
        return widest_integer(one, other).or_else(|| decimal((20, 0), (20, 0)));
    }
    decimal(digits(one)?, digits(other)?)
}

/// Bits of an integer, and whether it has a sign.
fn integer(kind: &DataType) -> Option<(u8, bool)> {
    use DataType::*;
    Some(match kind {
        Int8 => (8, true),
        Int16 => (16, true),
        Int32 => (32, true),
        Int64 => (64, true),
        UInt8 => (8, false),
        UInt16 => (16, false),
        UInt32 => (32, false),
        UInt64 => (64, false),
        _ => return None,
    })
}

fn widest_integer(one: (u8, bool), other: (u8, bool)) -> Option<DataType> {
    use DataType::{Int16, Int32, Int64, UInt16, UInt32, UInt64};
    let is_signed = one.1 || other.1;
    let room = |(bits, signed): (u8, bool)| if is_signed && !signed { bits * 2 } else { bits };
    match (room(one).max(room(other)), is_signed) {
        (8 | 16, true) => Some(Int16),
        (32, true) => Some(Int32),
        (64, true) => Some(Int64),
        (8 | 16, false) => Some(UInt16),
        (32, false) => Some(UInt32),
        (64, false) => Some(UInt64),
        _ => None,
    }
}

/// Digits of an exact number, and how many of them come after the point.
fn digits(kind: &DataType) -> Option<(u8, i8)> {
    use DataType::{Decimal32, Decimal64, Decimal128, Decimal256};
    match kind {
        Decimal32(precision, scale)
        | Decimal64(precision, scale)
        | Decimal128(precision, scale)
        | Decimal256(precision, scale) => Some((*precision, *scale)),
        other => integer(other).map(|(bits, _)| match bits {
            8 => (3, 0),
            16 => (5, 0),
            32 => (10, 0),
            _ => (20, 0),
        }),
    }
}

fn decimal(one: (u8, i8), other: (u8, i8)) -> Option<DataType> {
    let whole = |(precision, scale): (u8, i8)| i16::from(precision) - i16::from(scale);
    let scale = one.1.max(other.1);
    let precision = u8::try_from(whole(one).max(whole(other)) + i16::from(scale)).ok()?;
    (precision <= MAX_DIGITS).then_some(DataType::Decimal128(precision, scale))
}

/// Why a column of a file cannot be read as a table's type: its values would lose their fractions without a word.
pub fn refusal(name: &str, file: &DataType, table: &DataType) -> Option<String> {
    let has_fraction = file.is_floating() || digits(file).is_some_and(|(_, scale)| scale > 0);
    (has_fraction && table.is_integer()).then(|| {
        let (file, table) = (type_words(file), type_words(table));
        format!("column `{name}` is {file} in a file, and {table} in the table, which has no fractions")
    })
}

/// A type in words of SQL.
pub fn type_words(data_type: &DataType) -> String {
    use DataType::*;
    match data_type {
        Null => "without values",
        Boolean => "BOOLEAN",
        Int8 | Int16 | UInt8 => "SMALLINT",
        Int32 | UInt16 => "INTEGER",
        Int64 | UInt32 => "BIGINT",
        UInt64 => "unsigned BIGINT",
        Float16 | Float32 => "REAL",
        Float64 => "DOUBLE PRECISION",
        Utf8 | LargeUtf8 | Utf8View => "TEXT",
        Binary | LargeBinary | BinaryView | FixedSizeBinary(_) => "BYTEA",
        Date32 | Date64 => "DATE",
        Time32(_) | Time64(_) => "TIME",
        Timestamp(_, None) => "TIMESTAMP",
        Timestamp(_, Some(_)) => "TIMESTAMP WITH TIME ZONE",
        Interval(_) | Duration(_) => "INTERVAL",
        List(item) | LargeList(item) | FixedSizeList(item, _) => {
            return format!("{}[]", type_words(item.data_type()));
        }
        other => match digits(other) {
            Some((precision, scale)) => return format!("NUMERIC({precision},{scale})"),
            None => return format!("{other}"),
        },
    }
    .to_owned()
}
