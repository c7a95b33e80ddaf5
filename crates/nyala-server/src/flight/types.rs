//! The types of columns as clients get them. Drivers of other languages know fewer than Arrow has: of some they refuse
//! every answer, and of some they show wrong values silently.
//!
//! ADBC and the JDBC driver were tried with each type; the table of both is in `docs/design/flight-types.md`.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use nyala_engine::{ErrorKind, QueryError};

/// Digits of the largest number of 64 bits.
const DIGITS_OF_U64: u8 = 20;

/// The set of Arrow types that answers may have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Types {
    /// Types that all drivers read.
    #[default]
    Common,
    /// Types that all drivers read, and times of UTC in place of times with a zone: `getObject` of the JDBC driver before version 19 fails on these.
    Zoneless,
    /// The types as they are computed: views and dictionaries too.
    Arrow,
}

/// The types by name.
const NAMES: [(&str, Types); 3] =
    [("common", Types::Common), ("zoneless", Types::Zoneless), ("arrow", Types::Arrow)];

impl Types {
    /// The set of types that has this name.
    pub fn named(name: &str) -> Option<Self> {
        NAMES.iter().find(|(known, _)| *known == name).map(|(_, types)| *types)
    }

    /// The name of this set of types.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(_, types)| *types == self).map_or("", |(name, _)| *name)
    }

    /// The columns of an answer. All may be null: operators are not always as exact as their plan.
    pub fn schema(self, schema: &Schema) -> SchemaRef {
        let columns = self.of_table(schema);
        let fields =
            columns.fields().iter().map(|field| Arc::new(field.as_ref().clone().with_nullable(true)));
        Arc::new(Schema::new(fields.collect::<Fields>()))
    }

    /// The columns of a table, of which some are never null.
    pub fn of_table(self, schema: &Schema) -> SchemaRef {
        let fields = schema.fields().iter().map(|field| {
            let field = match (self, field.data_type()) {
                // A parameter of any type is such a column. It is sent as text, as to PostgreSQL's clients.
                (_, DataType::Null) => field.as_ref().clone().with_data_type(DataType::Utf8),
                (Self::Common, _) => common_field(field, true),
                (Self::Zoneless, _) => common_field(field, false),
                (Self::Arrow, _) => field.as_ref().clone(),
            };
            Arc::new(field)
        });
        Arc::new(Schema::new(fields.collect::<Fields>()))
    }
}

fn common_field(field: &FieldRef, zones: bool) -> Field {
    field.as_ref().clone().with_data_type(common(field.data_type(), zones))
}

/// The type that every driver reads and that has all values of this one. Without `zones`, times have none.
fn common(data_type: &DataType, zones: bool) -> DataType {
    let element = |field: &FieldRef| -> FieldRef { Arc::new(common_field(field, zones)) };
    match data_type {
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        DataType::Dictionary(_, values) => common(values, zones),
        DataType::RunEndEncoded(_, values) => common(values.data_type(), zones),
        DataType::Float16 => DataType::Float32,
        DataType::UInt8 => DataType::Int16,
        DataType::UInt16 => DataType::Int32,
        DataType::UInt32 => DataType::Int64,
        DataType::UInt64 => DataType::Decimal128(DIGITS_OF_U64, 0),
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
            DataType::Decimal128(*precision, *scale)
        }
        DataType::Timestamp(unit, Some(_)) if !zones => DataType::Timestamp(*unit, None),
        DataType::List(item) | DataType::ListView(item) => DataType::List(element(item)),
        DataType::LargeList(item) | DataType::LargeListView(item) => DataType::LargeList(element(item)),
        DataType::FixedSizeList(item, length) => DataType::FixedSizeList(element(item), *length),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(element).collect()),
        DataType::Map(entries, sorted) => DataType::Map(element(entries), *sorted),
        other => other.clone(),
    }
}

/// The rows with the types of the schema.
///
/// # Errors
/// The statement gives other columns than when it was prepared, or a value is too large for its type.
pub fn conform(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, QueryError> {
    if batch.num_columns() != schema.fields().len() {
        return Err(changed());
    }
    let options = CastOptions { safe: false, ..CastOptions::default() };
    let columns = schema.fields().iter().zip(batch.columns()).map(|(field, column)| {
        if column.data_type() == field.data_type() {
            return Ok(Arc::clone(column));
        }
        cast_with_options(column, field.data_type(), &options).map_err(QueryError::from)
    });
    let columns = columns.collect::<Result<Vec<ArrayRef>, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}

/// Refuses an answer with other columns than the statement was prepared with: its values would appear under the names of other columns.
///
/// # Errors
/// A name or a type differs. A column had no type if it is a parameter, and may then have any.
pub fn check_same(prepared: Option<&Schema>, answered: &Schema) -> Result<(), QueryError> {
    let prepared = prepared.ok_or_else(changed)?;
    let is_same = |(one, other): (&FieldRef, &FieldRef)| {
        one.name() == other.name()
            && (one.data_type() == &DataType::Null
                || common(one.data_type(), true) == common(other.data_type(), true))
    };
    let (one, other) = (prepared.fields(), answered.fields());
    match one.len() == other.len() && one.iter().zip(other).all(is_same) {
        true => Ok(()),
        false => Err(changed()),
    }
}

/// The error of a statement whose tables were changed since it was prepared.
pub fn changed() -> QueryError {
    QueryError::new(ErrorKind::Changed, "the statement gives other columns than when it was prepared")
        .hint("prepare it again")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use arrow::array::{
        Array, AsArray, DictionaryArray, ListBuilder, StringArray, StringViewArray, StringViewBuilder,
        TimestampMicrosecondArray, UInt64Array,
    };
    use arrow::datatypes::{Decimal128Type, Int32Type, TimestampMicrosecondType};

    use super::*;

    fn conformed(column: ArrayRef) -> ArrayRef {
        let batch = RecordBatch::try_from_iter([("c", column)]).unwrap();
        let schema = Types::Common.schema(&batch.schema());
        Arc::clone(conform(&batch, &schema).unwrap().column(0))
    }

    #[test]
    fn views_dictionaries_and_unsigned_numbers_are_written_out() {
        let texts: ArrayRef = Arc::new(StringViewArray::from(vec![Some("a"), None]));
        assert_eq!(conformed(texts).as_string::<i32>(), &StringArray::from(vec![Some("a"), None]));
        let keys: DictionaryArray<Int32Type> = vec!["x", "y", "x"].into_iter().collect();
        assert_eq!(conformed(Arc::new(keys)).as_string::<i32>(), &StringArray::from(vec!["x", "y", "x"]));
        let large: ArrayRef = Arc::new(UInt64Array::from(vec![u64::MAX]));
        assert_eq!(conformed(large).as_primitive::<Decimal128Type>().value(0), i128::from(u64::MAX));
    }

    #[test]
    fn elements_of_lists_are_written_out_too() {
        let mut lists = ListBuilder::new(StringViewBuilder::new());
        lists.append_value([Some("a"), None]);
        let list = conformed(Arc::new(lists.finish()));
        let element = list.as_list::<i32>().value(0);
        assert_eq!((element.data_type(), element.null_count()), (&DataType::Utf8, 1));
    }

    #[test]
    fn times_lose_their_zones_where_the_client_wants_that() {
        let at = TimestampMicrosecondArray::from(vec![1_000_000]).with_timezone("Europe/Oslo");
        let batch = RecordBatch::try_from_iter([("at", Arc::new(at) as ArrayRef)]).unwrap();
        let schema = Types::Zoneless.schema(&batch.schema());
        let sent = conform(&batch, &schema).unwrap();
        let utc = TimestampMicrosecondArray::from(vec![1_000_000]);
        assert_eq!(sent.column(0).as_primitive::<TimestampMicrosecondType>(), &utc);
        assert_eq!(Types::Common.schema(&batch.schema()).field(0).data_type(), batch.column(0).data_type());
        for types in [Types::Common, Types::Zoneless, Types::Arrow] {
            assert_eq!(Types::named(types.name()), Some(types));
        }
        assert_eq!(Types::named("views"), None);
    }

    #[test]
    fn types_are_left_alone_where_the_client_wants_them() {
        let schema = Schema::new(vec![Field::new("c", DataType::Utf8View, false)]);
        let sent = Types::Arrow.schema(&schema);
        assert_eq!(sent.field(0).data_type(), &DataType::Utf8View);
        assert!(sent.field(0).is_nullable());
    }

    #[test]
    fn what_has_no_type_is_a_text() {
        let schema = Types::Common.schema(&Schema::new(vec![Field::new("c", DataType::Null, true)]));
        let column: ArrayRef = Arc::new(UInt64Array::from(vec![7]));
        let batch = RecordBatch::try_from_iter([("c", column)]).unwrap();
        assert_eq!(conform(&batch, &schema).unwrap().column(0).as_string::<i32>().value(0), "7");
    }

    #[test]
    fn columns_that_have_changed_places_are_refused() {
        let schema = |fields: [(&str, DataType); 2]| {
            Schema::new(fields.map(|(name, data_type)| Field::new(name, data_type, true)).to_vec())
        };
        let (a, b) = (("a", DataType::Int64), ("b", DataType::Utf8View));
        let prepared = schema([a.clone(), b.clone()]);
        check_same(Some(&prepared), &schema([a.clone(), ("b", DataType::Utf8)])).unwrap();
        check_same(Some(&schema([a.clone(), ("b", DataType::Null)])), &prepared).unwrap();
        for other in [schema([b, a.clone()]), schema([a, ("b", DataType::Date32)]), Schema::empty()] {
            assert_eq!(check_same(Some(&prepared), &other).unwrap_err().kind, ErrorKind::Changed);
        }
    }

    #[test]
    fn other_columns_than_prepared_are_refused() {
        let column: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
        let batch = RecordBatch::try_from_iter([("c", column)]).unwrap();
        assert_eq!(conform(&batch, &Arc::new(Schema::empty())).unwrap_err().kind, ErrorKind::Changed);
    }
}
