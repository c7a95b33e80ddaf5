//! The column a cube is partitioned by: from its values to keys, and from keys to conditions.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::{Column, ScalarValue};
use datafusion::logical_expr::{Expr, lit};
use nyala_model::{KeyKind, KeyRange, KeySet, RangePartition, SegmentRange};
use nyala_sql::error::{ErrorKind, QueryError, Result};

use super::block::{Block, qualifier};
use crate::scan::ColumnRange;

/// The partition column of a cube, found in its fact table.
#[derive(Debug, Clone)]
pub struct PartitionColumn {
    /// How the cube is divided.
    pub division: RangePartition,
    /// Position in the table's schema.
    pub index: usize,
    data_type: DataType,
}

impl PartitionColumn {
    /// Finds the column in the cube's fact table.
    pub fn find(division: &RangePartition, block: &Block) -> Result<Self> {
        let fact = block.instances.first().ok_or_else(|| QueryError::internal("a cube has no tables"))?;
        let schema = fact.scan.source.schema();
        let Ok(index) = schema.index_of(&division.column) else {
            let message =
                format!("table `{}` has no column `{}` to partition by", fact.table, division.column);
            let names = schema.fields().iter().map(|field| field.name().as_str());
            let near = nyala_model::suggest::nearest(&division.column, names);
            let error = QueryError::new(ErrorKind::UndefinedColumn, message);
            return Err(match near {
                Some(near) => error.hint(format!("did you mean `{near}`?")),
                None => error.hint("name a column of the first table in FROM"),
            });
        };
        let data_type = schema.field(index).data_type().clone();
        let fits = match division.kind {
            KeyKind::Integer | KeyKind::CalendarInteger => is_integer(&data_type),
            KeyKind::Date => data_type == DataType::Date32,
            KeyKind::Timestamp { per_second } => ticks_of(&data_type) == Some(per_second),
        };
        if !fits {
            let message = format!(
                "column `{}` is {data_type} now, which the cube's ranges do not fit",
                division.column
            );
            return Err(QueryError::new(ErrorKind::InvalidDefinition, message));
        }
        Ok(Self { division: division.clone(), index, data_type })
    }

    /// Its type.
    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// The column of instance `instance` of a block.
    pub fn column(&self, instance: usize) -> Column {
        Column::new(Some(qualifier(instance)), self.division.column.clone())
    }

    /// The key of a value; none for null and for values of other types.
    pub fn key(&self, value: &ScalarValue) -> Option<i64> {
        key_of(&value.cast_to(&self.data_type).ok()?)
    }

    /// Reads the bound of a range: a value of the column, or a date.
    pub fn bound(&self, value: &ScalarValue) -> Option<i64> {
        if self.division.kind == KeyKind::CalendarInteger && !value.data_type().is_integer() {
            return self.division.key_of_date(key_of(&value.cast_to(&DataType::Date32).ok()?)?);
        }
        self.key(value)
    }

    /// The keys that the column's values in a file lie between, and whether some are null.
    pub fn keys(&self, range: &ColumnRange) -> (KeySet, bool) {
        match range {
            ColumnRange::Unknown => (KeySet::all(), true),
            ColumnRange::Known { bounds: None, nulls } => (KeySet::default(), *nulls),
            ColumnRange::Known { bounds: Some((min, max)), nulls } => match (self.key(min), self.key(max)) {
                (Some(min), Some(max)) => (KeySet::between(min, max), *nulls),
                _ => (KeySet::all(), *nulls),
            },
        }
    }

    /// Whether a file may hold rows of a segment's range.
    pub fn touches(&self, file: &ColumnRange, range: SegmentRange) -> bool {
        let (keys, nulls) = self.keys(file);
        match range {
            SegmentRange::Whole | SegmentRange::Written(_) => true,
            SegmentRange::Nulls => nulls,
            SegmentRange::Keys(range) => !keys.intersect(&range.into()).is_empty(),
        }
    }

    /// The condition that a row of any of `ranges` fulfils; none if every row does.
    pub fn rows_of_any(&self, ranges: &[SegmentRange], column: &Expr) -> Option<Expr> {
        let mut keys = KeySet::default();
        let mut nulls = false;
        for range in ranges {
            match range {
                SegmentRange::Whole | SegmentRange::Written(_) => return None,
                SegmentRange::Nulls => nulls = true,
                SegmentRange::Keys(range) => keys = keys.union(&(*range).into()),
            }
        }
        let nulls = nulls.then(|| column.clone().is_null());
        let keys = (!keys.is_empty() || nulls.is_none()).then(|| self.rows_in(&keys, column));
        nulls.into_iter().chain(keys).reduce(Expr::or)
    }

    /// The condition that the column's key is in `keys`; not fulfilled by null.
    pub fn rows_in(&self, keys: &KeySet, column: &Expr) -> Expr {
        let (lowest, highest) = self.limits();
        let keys = keys.intersect(&KeySet::between(lowest, highest));
        let spans = keys.spans().map(|(first, last)| {
            let from = (first > lowest).then(|| column.clone().gt_eq(lit(self.value(first))));
            let to = (last < highest).then(|| column.clone().lt_eq(lit(self.value(last))));
            match (from, to) {
                (Some(from), Some(to)) => from.and(to),
                (Some(one), None) | (None, Some(one)) => one,
                (None, None) => column.clone().is_not_null(),
            }
        });
        spans.reduce(Expr::or).unwrap_or_else(|| lit(false))
    }

    /// The smallest and the largest key that the column's type can hold.
    fn limits(&self) -> (i64, i64) {
        match self.data_type {
            DataType::Int8 => (i8::MIN.into(), i8::MAX.into()),
            DataType::Int16 => (i16::MIN.into(), i16::MAX.into()),
            DataType::Int32 | DataType::Date32 => (i32::MIN.into(), i32::MAX.into()),
            DataType::UInt8 => (0, u8::MAX.into()),
            DataType::UInt16 => (0, u16::MAX.into()),
            DataType::UInt32 => (0, u32::MAX.into()),
            _ => (i64::MIN, i64::MAX),
        }
    }

    /// The value of a key that the type can hold.
    fn value(&self, key: i64) -> ScalarValue {
        match &self.data_type {
            DataType::Timestamp(unit, zone) => match unit {
                TimeUnit::Second => ScalarValue::TimestampSecond(Some(key), zone.clone()),
                TimeUnit::Millisecond => ScalarValue::TimestampMillisecond(Some(key), zone.clone()),
                TimeUnit::Microsecond => ScalarValue::TimestampMicrosecond(Some(key), zone.clone()),
                TimeUnit::Nanosecond => ScalarValue::TimestampNanosecond(Some(key), zone.clone()),
            },
            DataType::Date32 => ScalarValue::Date32(i32::try_from(key).ok()),
            integer => {
                ScalarValue::Int64(Some(key)).cast_to(integer).unwrap_or(ScalarValue::Int64(Some(key)))
            }
        }
    }

    /// The range as text, such as `[1994-01-01, 1994-02-01)`.
    pub fn show(&self, range: SegmentRange) -> String {
        show_range(Some(&self.division), range)
    }

    /// Spans of keys for EXPLAIN.
    pub fn show_keys(&self, keys: &KeySet) -> String {
        let spans = keys.spans().map(|(first, last)| match (first, last) {
            (i64::MIN, i64::MAX) => "all".to_owned(),
            (i64::MIN, last) => format!("up to {}", self.division.show(last)),
            (first, i64::MAX) => format!("from {}", self.division.show(first)),
            (first, last) if first == last => self.division.show(first),
            (first, last) => format!("{} to {}", self.division.show(first), self.division.show(last)),
        });
        spans.collect::<Vec<_>>().join(", ")
    }
}

/// The first value of a segment's range and the first after it, as FROM and TO take them. None where the range has no such
/// end, or is not one of a column.
pub fn show_bounds(
    division: Option<&RangePartition>,
    range: SegmentRange,
) -> (Option<String>, Option<String>) {
    let (Some(division), SegmentRange::Keys(keys)) = (division, range) else { return (None, None) };
    let shown = |key: i64, endless: i64| (key != endless).then(|| division.show(key));
    (shown(keys.from, i64::MIN), shown(keys.to, i64::MAX))
}

/// A segment's range for people.
pub fn show_range(division: Option<&RangePartition>, range: SegmentRange) -> String {
    match (division, range) {
        (_, SegmentRange::Whole) => "all rows".to_owned(),
        (_, SegmentRange::Nulls) => "null".to_owned(),
        (Some(division), SegmentRange::Keys(keys)) => division.show_range(keys),
        (None, SegmentRange::Keys(KeyRange { from, to })) => format!("[{from}, {to})"),
        (_, SegmentRange::Written(KeyRange { from, to })) => {
            format!("written at {} to {}", from.max(1), to.saturating_sub(1))
        }
    }
}

/// The kind of keys in a column of this type, if it can divide a cube. With `calendar`, integers are read as dates.
pub fn kind_of(data_type: &DataType, calendar: bool) -> Option<KeyKind> {
    match data_type {
        DataType::Date32 => Some(KeyKind::Date),
        integer if is_integer(integer) && calendar => Some(KeyKind::CalendarInteger),
        integer if is_integer(integer) => Some(KeyKind::Integer),
        other => ticks_of(other).map(|per_second| KeyKind::Timestamp { per_second }),
    }
}

/// Whether it is an integer type with every value in the range of keys.
fn is_integer(data_type: &DataType) -> bool {
    data_type.is_integer() && *data_type != DataType::UInt64
}

fn ticks_of(data_type: &DataType) -> Option<i64> {
    match data_type {
        DataType::Timestamp(TimeUnit::Second, _) => Some(1),
        DataType::Timestamp(TimeUnit::Millisecond, _) => Some(1_000),
        DataType::Timestamp(TimeUnit::Microsecond, _) => Some(1_000_000),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => Some(1_000_000_000),
        _ => None,
    }
}

fn key_of(value: &ScalarValue) -> Option<i64> {
    match value {
        ScalarValue::Date32(Some(day)) => Some((*day).into()),
        ScalarValue::TimestampSecond(Some(ticks), _)
        | ScalarValue::TimestampMillisecond(Some(ticks), _)
        | ScalarValue::TimestampMicrosecond(Some(ticks), _)
        | ScalarValue::TimestampNanosecond(Some(ticks), _) => Some(*ticks),
        other if is_integer(&other.data_type()) => match other.cast_to(&DataType::Int64) {
            Ok(ScalarValue::Int64(key)) => key,
            _ => None,
        },
        _ => None,
    }
}
