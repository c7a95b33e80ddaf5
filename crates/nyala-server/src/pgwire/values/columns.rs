//! Result columns: which PostgreSQL type each has, and the array its values are written from.
//!
//! Columns are first brought to forms that are simple to write: dictionaries are unpacked once for a whole batch, and all but texts and
//! whole numbers become their final texts or bytes.

use arrow::array::ArrayRef;
use arrow::datatypes::Field;
use arrow::error::ArrowError;
use nyala_pg::described::Described;
use pgwire::api::Type;
use pgwire::api::results::FieldFormat;

use super::form::Form;
use super::render::Looks;

/// How one column is written.
#[derive(Debug)]
pub struct Column {
    pub name: String,
    pub pg_type: Type,
    /// `atttypmod`: precision and scale of a numeric, length of a varchar; -1 for none.
    pub modifier: i32,
    /// The table of the column, and the column's number in that.
    pub place: Option<(i32, i16)>,
    form: Form,
}

impl Column {
    /// Works out how a field is written.
    pub fn of(field: &Field) -> Self {
        let form = Form::of(field);
        Self { name: field.name().clone(), pg_type: form.pg_type(), modifier: -1, place: None, form }
    }

    /// The column with what a statement's text tells of it, besides the type of its values.
    #[must_use]
    pub fn described_as(mut self, known: &Described) -> Self {
        let form = match (&self.form, &known.kind) {
            (Form::Text(_), Some(Type::CHAR)) => Some(Form::Letter),
            (Form::Text(_), Some(kind)) if *kind != Type::OID => Some(Form::of_text(kind.clone())),
            (Form::Int4, Some(Type::OID)) => Some(Form::Oid(Type::OID)),
            _ => None,
        };
        if let Some(form) = form {
            self.pg_type = form.pg_type();
            self.form = form;
        }
        if matches!(self.pg_type, Type::NUMERIC | Type::VARCHAR | Type::BPCHAR) {
            self.modifier = known.modifier.unwrap_or(-1);
        }
        self.place = known.place;
        self
    }

    /// `typlen`: bytes of a fixed-width value, otherwise -1.
    pub fn type_size(&self) -> i16 {
        self.form.type_size()
    }

    /// The values in the form they are written from.
    ///
    /// # Errors
    /// A value that the PostgreSQL type cannot hold.
    pub fn render(
        &self,
        array: &ArrayRef,
        format: FieldFormat,
        looks: Looks,
    ) -> Result<ArrayRef, ArrowError> {
        self.form.render(array, format, looks)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]
    use std::sync::Arc;

    use arrow::array::{
        Array, AsArray, BooleanArray, Date32Array, Decimal256Array, DictionaryArray, Float64Array, Int8Array,
        Int32Array, StringArray, Time64MicrosecondArray, TimestampNanosecondArray, UInt64Array,
    };
    use arrow::datatypes::{DataType, Int32Type, i256};

    use super::super::interval_styles::Style;
    use super::super::render::EPOCH_OFFSET_US;
    use super::*;

    const LOOKS: Looks = Looks { digits: 1, intervals: Style::Postgres, escaped_bytes: false };

    fn column(array: &ArrayRef) -> Column {
        Column::of(&Field::new("c", array.data_type().clone(), true))
    }

    fn check(array: ArrayRef, kind: Type, expected: &str) {
        let column = column(&array);
        assert_eq!(column.pg_type, kind);
        let rendered = column.render(&array, FieldFormat::Text, LOOKS).unwrap();
        let texts = arrow::compute::cast(&rendered, &DataType::Utf8).unwrap();
        assert_eq!(texts.as_string::<i32>().value(0), expected);
    }

    #[test]
    fn values_read_as_in_postgresql() {
        check(Arc::new(Int8Array::from(vec![-1])), Type::INT2, "-1");
        check(Arc::new(UInt64Array::from(vec![u64::MAX])), Type::NUMERIC, "18446744073709551615");
        check(Arc::new(BooleanArray::from(vec![true])), Type::BOOL, "t");
        check(Arc::new(Float64Array::from(vec![1e20])), Type::FLOAT8, "1e+20");
        check(Arc::new(Date32Array::from(vec![0])), Type::DATE, "1970-01-01");
        check(Arc::new(Date32Array::from(vec![-719_163])), Type::DATE, "0001-12-31 BC");
        check(Arc::new(Date32Array::from(vec![2_932_897])), Type::DATE, "10000-01-01");
        check(Arc::new(Time64MicrosecondArray::from(vec![43_200_500_000])), Type::TIME, "12:00:00.5");
        let decimals = Decimal256Array::from(vec![i256::from_i128(-5)]).with_precision_and_scale(50, 2);
        check(Arc::new(decimals.unwrap()), Type::NUMERIC, "-0.05");
        let nanos = || TimestampNanosecondArray::from(vec![Some(1_500_000_001), None]);
        check(Arc::new(nanos()), Type::TIMESTAMP, "1970-01-01 00:00:01.5");
        check(Arc::new(nanos().with_timezone("+00:00")), Type::TIMESTAMPTZ, "1970-01-01 00:00:01.5+00");
        let words: DictionaryArray<Int32Type> = [Some("a"), None].into_iter().collect();
        check(Arc::new(words), Type::TEXT, "a");
    }

    #[test]
    fn binary_timestamps_count_from_2000() {
        let array: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![EPOCH_OFFSET_US * 1000]));
        let rendered = column(&array).render(&array, FieldFormat::Binary, LOOKS).unwrap();
        assert_eq!(rendered.as_binary::<i32>().value(0), [0; 8]);
    }

    #[test]
    fn a_letter_is_one_byte_in_any_layout_of_texts() {
        let field = |data_type| {
            Field::new("c", data_type, true)
                .with_metadata([(arrow_pg::datatypes::PG_CHAR_KEY.to_owned(), "char".to_owned())].into())
        };
        for data_type in [DataType::Utf8, DataType::Utf8View, DataType::LargeUtf8] {
            let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("r"), Some(""), None]));
            let array = arrow::compute::cast(&texts, &data_type).unwrap();
            let column = Column::of(&field(data_type));
            let bytes = column.render(&array, FieldFormat::Binary, LOOKS).unwrap();
            let bytes = bytes.as_binary::<i32>();
            assert_eq!(
                (bytes.value(0), bytes.value(1), bytes.is_null(2)),
                ([b'r'].as_slice(), [0].as_slice(), true)
            );
        }
        assert_eq!(Column::of(&field(DataType::Int32)).pg_type, Type::INT4);
    }

    #[test]
    fn whole_numbers_stay_numbers() {
        let array: ArrayRef = Arc::new(Int32Array::from(vec![1]));
        let rendered = column(&array).render(&array, FieldFormat::Text, LOOKS).unwrap();
        assert_eq!(rendered.data_type(), &DataType::Int32);
    }
}
