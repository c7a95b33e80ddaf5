//! The schemas that are read: known types with possible parameters, not nested too deep.

use arrow::ipc::{DateUnit, Endianness, Field, IntervalUnit, Precision, Schema, TimeUnit, Type};
use nyala_engine::{ErrorKind, QueryError};

use super::frames::message;
use super::refusal::malformed;

/// Most fields, nested ones included.
const MAX_FIELDS: usize = 10_000;
/// Most levels of nested types.
const MAX_DEPTH: usize = 32;

/// Refuses a schema that arrow-ipc cannot read, which would end in a panic, or that would take much memory.
pub fn check_schema(schema: &Schema<'_>) -> Result<(), QueryError> {
    if schema.endianness() != Endianness::Little {
        return Err(malformed("its numbers are big-endian"));
    }
    let fields = schema.fields().ok_or_else(|| malformed("its schema has no fields"))?;
    let mut count = 0;
    fields.iter().try_for_each(|field| check_field(&field, 0, &mut count))
}

/// Refuses the Arrow schema in a Parquet file for the same reasons. It is a message of IPC.
pub fn check_arrow_schema(bytes: &[u8]) -> Result<(), QueryError> {
    // Newer writers put a continuation marker and a length before the message.
    let metadata = match bytes.strip_prefix(&[0xff; 4]) {
        Some(rest) => rest.get(4..).unwrap_or_default(),
        None => bytes,
    };
    let schema = message(metadata)?.header_as_schema();
    check_schema(&schema.ok_or_else(|| malformed("it has no schema"))?)
}

fn check_field(field: &Field<'_>, depth: usize, count: &mut usize) -> Result<(), QueryError> {
    *count += 1;
    if *count > MAX_FIELDS || depth > MAX_DEPTH {
        let message = format!("a schema has more than {MAX_FIELDS} fields, or more than {MAX_DEPTH} levels");
        return Err(QueryError::new(ErrorKind::LimitExceeded, message));
    }
    if field.type_type() == Type::Union {
        let message = format!("column `{}` is a union", field.name().unwrap_or_default());
        return Err(QueryError::new(ErrorKind::Data, message).hint("send one column for each type"));
    }
    let possible = has_possible_type(field) && has_possible_keys(field) && has_its_children(field);
    if !possible {
        let name = field.name().unwrap_or_default();
        return Err(malformed(format!("column `{name}` has a type that does not exist")));
    }
    let mut children = field.children().into_iter().flatten();
    children.try_for_each(|child| check_field(&child, depth + 1, count))
}

fn is_int(field: Option<arrow::ipc::Int<'_>>) -> bool {
    field.is_some_and(|int| matches!(int.bitWidth(), 8 | 16 | 32 | 64))
}

/// Whether the keys of a dictionary have a possible type; true for other columns.
fn has_possible_keys(field: &Field<'_>) -> bool {
    field.dictionary().is_none_or(|dictionary| is_int(dictionary.indexType()))
}

fn has_possible_type(field: &Field<'_>) -> bool {
    match field.type_type() {
        Type::Null | Type::Bool | Type::Binary | Type::LargeBinary | Type::BinaryView => true,
        Type::Utf8 | Type::LargeUtf8 | Type::Utf8View => true,
        Type::List | Type::LargeList | Type::ListView | Type::LargeListView => true,
        Type::Struct_ | Type::Map | Type::RunEndEncoded => true,
        Type::Int => is_int(field.type_as_int()),
        Type::FloatingPoint => {
            let precision = field.type_as_floating_point().map(|float| float.precision());
            matches!(precision, Some(Precision::HALF | Precision::SINGLE | Precision::DOUBLE))
        }
        Type::FixedSizeBinary => {
            field.type_as_fixed_size_binary().is_some_and(|bytes| bytes.byteWidth() >= 0)
        }
        Type::FixedSizeList => field.type_as_fixed_size_list().is_some_and(|list| list.listSize() >= 0),
        Type::Decimal => has_possible_precision(field),
        _ => has_possible_unit(field),
    }
}

fn has_possible_precision(field: &Field<'_>) -> bool {
    field.type_as_decimal().is_some_and(|decimal| {
        let most = match decimal.bitWidth() {
            32 => 9,
            64 => 18,
            128 => 38,
            256 => 76,
            _ => return false,
        };
        (1..=most).contains(&decimal.precision()) && (-most..=most).contains(&decimal.scale())
    })
}

fn has_possible_unit(field: &Field<'_>) -> bool {
    let is_unit = |unit| {
        matches!(
            unit,
            TimeUnit::SECOND | TimeUnit::MILLISECOND | TimeUnit::MICROSECOND | TimeUnit::NANOSECOND
        )
    };
    match field.type_type() {
        Type::Date => {
            let unit = field.type_as_date().map(|date| date.unit());
            matches!(unit, Some(DateUnit::DAY | DateUnit::MILLISECOND))
        }
        Type::Time => matches!(
            field.type_as_time().map(|time| (time.bitWidth(), time.unit())),
            Some((32, TimeUnit::SECOND | TimeUnit::MILLISECOND))
                | Some((64, TimeUnit::MICROSECOND | TimeUnit::NANOSECOND))
        ),
        Type::Timestamp => field.type_as_timestamp().is_some_and(|time| is_unit(time.unit())),
        Type::Duration => field.type_as_duration().is_some_and(|time| is_unit(time.unit())),
        Type::Interval => matches!(
            field.type_as_interval().map(|interval| interval.unit()),
            Some(IntervalUnit::YEAR_MONTH | IntervalUnit::DAY_TIME | IntervalUnit::MONTH_DAY_NANO)
        ),
        _ => false,
    }
}

/// Whether the field has as many children as its type needs, of types that these may have.
fn has_its_children(field: &Field<'_>) -> bool {
    let children = field.children();
    let count = children.map_or(0, |children| children.len());
    let first = || children.filter(|children| !children.is_empty()).map(|children| children.get(0));
    match field.type_type() {
        Type::List | Type::LargeList | Type::ListView | Type::LargeListView | Type::FixedSizeList => {
            count == 1
        }
        Type::Map => count == 1 && first().is_some_and(|entries| is_pair(&entries)),
        Type::RunEndEncoded => count == 2 && first().is_some_and(|ends| is_run_end(&ends)),
        Type::Struct_ => children.is_some(),
        _ => count == 0,
    }
}

fn is_pair(entries: &Field<'_>) -> bool {
    let children = entries.children().map_or(0, |children| children.len());
    entries.type_type() == Type::Struct_ && children == 2 && entries.dictionary().is_none()
}

fn is_run_end(ends: &Field<'_>) -> bool {
    let is_end = |int: arrow::ipc::Int<'_>| int.is_signed() && matches!(int.bitWidth(), 16 | 32 | 64);
    ends.type_as_int().is_some_and(is_end) && ends.dictionary().is_none()
}
