//! Converts fields that are texts to values of the columns' types.

use std::sync::Arc;

use arrow::array::timezone::Tz;
use arrow::array::{
    Array, ArrayRef, AsArray, BinaryBuilder, BooleanArray, FixedSizeBinaryBuilder, PrimitiveArray,
    RecordBatch, StringArray, StringBuilder,
};
use arrow::compute::{CastOptions, cast_with_options, filter_record_batch};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, IntervalMonthDayNanoType, IntervalUnit, SchemaRef,
    Time64MicrosecondType, TimeUnit, TimestampMicrosecondType,
};
use arrow::error::ArrowError;
use nyala_engine::texts::{date_of_text, interval_of, time_of_text, timestamp_of};
use nyala_engine::{ErrorKind, QueryError, UUID, read_uuid};

use super::dialect::Dialect;
use super::load::{Decode, Target};
use super::rejects::{Reject, Rejects, shorten};
use super::split::{Field, Splitter};

/// Rows of one batch at most.
const BATCH_ROWS: usize = 16_384;

/// Decodes CSV and the text format of COPY.
pub struct Texts {
    splitter: Splitter,
    gathered: Gathered,
}

/// Rows that are not converted yet.
struct Gathered {
    /// Columns of the rows, once they are known.
    schema: Option<SchemaRef>,
    /// The zone of times that name none.
    zone: Option<Tz>,
    header: bool,
    columns: Vec<StringBuilder>,
    lines: Vec<u64>,
}

impl Texts {
    /// A decoder without columns yet: the header, the statement or the table tells them.
    pub(super) fn new(dialect: Dialect) -> Self {
        let (columns, lines) = (Vec::new(), Vec::new());
        let gathered = Gathered { schema: None, zone: None, header: dialect.header, columns, lines };
        Self { splitter: Splitter::new(dialect), gathered }
    }
}

impl Decode for Texts {
    fn decode(
        &mut self,
        bytes: &[u8],
        target: &mut Target,
        rejects: &mut Rejects,
    ) -> Result<Vec<RecordBatch>, QueryError> {
        let (gathered, mut batches) = (&mut self.gathered, Vec::new());
        self.splitter.push(bytes, &mut |line, fields| {
            gathered.take(line, &fields, target, rejects)?;
            if gathered.lines.len() >= BATCH_ROWS {
                batches.extend(gathered.batch(rejects)?);
            }
            Ok(())
        })?;
        batches.extend(self.gathered.batch(rejects)?);
        Ok(batches)
    }

    fn finish(&mut self, target: &mut Target, rejects: &mut Rejects) -> Result<Vec<RecordBatch>, QueryError> {
        let gathered = &mut self.gathered;
        self.splitter.finish(&mut |line, fields| gathered.take(line, &fields, target, rejects))?;
        Ok(self.gathered.batch(rejects)?.into_iter().collect())
    }
}

impl Gathered {
    fn take(
        &mut self,
        line: u64,
        fields: &[Field<'_>],
        target: &mut Target,
        rejects: &mut Rejects,
    ) -> Result<(), QueryError> {
        if self.schema.is_none() {
            let is_header = self.header;
            let names = if is_header { names(fields)? } else { Vec::new() };
            self.begin(target.columns(&names)?)?;
            self.zone = target.zone();
            if is_header {
                return Ok(());
            }
        }
        if fields.len() != self.columns.len() {
            let reason = format!("{} fields, not {}", fields.len(), self.columns.len());
            return rejects.add(Reject { line, column: None, reason });
        }
        let mut texts = Vec::with_capacity(fields.len());
        for field in fields {
            match field.as_deref().map(std::str::from_utf8).transpose() {
                Ok(text) => texts.push(text),
                Err(_) => {
                    let reason = "a text that is not UTF-8".to_owned();
                    return rejects.add(Reject { line, column: None, reason });
                }
            }
        }
        self.columns.iter_mut().zip(texts).for_each(|(column, text)| column.append_option(text));
        self.lines.push(line);
        Ok(())
    }

    fn begin(&mut self, schema: SchemaRef) -> Result<(), QueryError> {
        if let Some(field) = schema.fields().iter().find(|field| field.data_type().is_nested()) {
            let message = format!("column `{}` of type {} has no text form", field.name(), field.data_type());
            return Err(
                QueryError::new(ErrorKind::Unsupported, message).hint("send NDJSON, Arrow or Parquet")
            );
        }
        self.columns = schema.fields().iter().map(|_| StringBuilder::new()).collect();
        self.schema = Some(schema);
        Ok(())
    }

    /// The gathered rows, without rows that have an invalid value.
    fn batch(&mut self, rejects: &mut Rejects) -> Result<Option<RecordBatch>, QueryError> {
        let Some(schema) = self.schema.clone().filter(|_| !self.lines.is_empty()) else { return Ok(None) };
        let lines = std::mem::take(&mut self.lines);
        let mut good = vec![true; lines.len()];
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(schema.fields().len());
        for (field, texts) in schema.fields().iter().zip(&mut self.columns) {
            let texts = texts.finish();
            let values = convert(&texts, field.data_type(), self.zone)?;
            if values.null_count() > texts.null_count() {
                for (row, good) in good.iter_mut().enumerate() {
                    if *good && values.is_null(row) && texts.is_valid(row) {
                        *good = false;
                        let shown = shorten(texts.value(row));
                        rejects.add(Reject {
                            line: lines.get(row).copied().unwrap_or_default(),
                            column: Some(field.name().clone()),
                            reason: format!("`{shown}` is not a value of type {}", field.data_type()),
                        })?;
                    }
                }
            }
            columns.push(values);
        }
        let nullable = all_nullable(&schema);
        let batch = RecordBatch::try_new(nullable, columns)?;
        match good.iter().all(|good| *good) {
            true => Ok(Some(batch)),
            false => Ok(Some(filter_record_batch(&batch, &BooleanArray::from(good))?)),
        }
    }
}

/// The columns, all of them nullable: the table itself checks NOT NULL.
fn all_nullable(schema: &SchemaRef) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
    Arc::new(arrow::datatypes::Schema::new(fields.collect::<Vec<_>>()))
}

fn names(fields: &[Field<'_>]) -> Result<Vec<String>, QueryError> {
    let name = |field: &Field<'_>| {
        let text = field.as_deref().and_then(|bytes| std::str::from_utf8(bytes).ok());
        // Some programs begin a file with a byte order mark.
        text.map(|text| text.trim_start_matches('\u{feff}').trim().to_owned()).filter(|text| !text.is_empty())
    };
    fields.iter().map(name).collect::<Option<_>>().ok_or_else(|| {
        QueryError::new(ErrorKind::Data, "line 1: the header has a column without a name")
            .hint("the first line must name the columns")
    })
}

/// The values of texts; null where a text is no value.
fn convert(texts: &StringArray, data_type: &DataType, zone: Option<Tz>) -> Result<ArrayRef, QueryError> {
    let options = CastOptions { safe: true, ..CastOptions::default() };
    let cast = |data_type: &DataType| cast_with_options(texts, data_type, &options);
    match data_type {
        // Arrow would read a text without a zone in the zone of the column, and shift a time by its zone even if the column has none.
        DataType::Timestamp(_, of_column) => {
            let zone = zone.or_else(|| "UTC".parse().ok()).filter(|_| of_column.is_some());
            let moment = |text: &str| timestamp_of(text, zone.as_ref());
            let micros = DataType::Timestamp(TimeUnit::Microsecond, of_column.clone());
            let values = read::<TimestampMicrosecondType>(texts, moment, || cast(&micros))?;
            let values = values.with_timezone_opt(of_column.clone());
            Ok(cast_with_options(&values, data_type, &options)?)
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            Ok(Arc::new(read::<IntervalMonthDayNanoType>(texts, interval_of, || cast(data_type))?))
        }
        DataType::Date32 => {
            let values = cast(data_type)?;
            Ok(Arc::new(or_read::<Date32Type>(values.as_primitive(), texts, date_of_text)))
        }
        DataType::Time64(TimeUnit::Microsecond) => {
            let values = cast(data_type)?;
            let micros = |text: &str| time_of_text(text).map(|nanos| nanos / 1000);
            Ok(Arc::new(or_read::<Time64MicrosecondType>(values.as_primitive(), texts, micros)))
        }
        uuid if *uuid == UUID => {
            let mut uuids = FixedSizeBinaryBuilder::with_capacity(texts.len(), 16);
            for text in texts {
                match text.and_then(|text| read_uuid(text).ok()) {
                    Some(uuid) => uuids.append_value(uuid)?,
                    None => uuids.append_null(),
                }
            }
            Ok(Arc::new(uuids.finish()))
        }
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            let mut bytes = BinaryBuilder::new();
            texts.iter().for_each(|text| bytes.append_option(text.and_then(binary)));
            Ok(cast_with_options(&bytes.finish(), data_type, &options)?)
        }
        _ => Ok(cast(data_type)?),
    }
}

/// The values that `read` finds in texts. If it cannot read a text, the value is taken from `others`.
fn read<T: ArrowPrimitiveType>(
    texts: &StringArray,
    read: impl Fn(&str) -> Option<T::Native>,
    others: impl FnOnce() -> Result<ArrayRef, ArrowError>,
) -> Result<PrimitiveArray<T>, QueryError> {
    let values = PrimitiveArray::<T>::from_iter(texts.iter().map(|text| text.and_then(&read)));
    if values.null_count() <= texts.null_count() {
        return Ok(values);
    }
    let others = others()?;
    let others = others.as_primitive::<T>();
    Ok(PrimitiveArray::<T>::from_iter(values.iter().zip(others).map(|(value, other)| value.or(other))))
}

/// `values`, and where a text gave none, the value that `read` finds in it.
fn or_read<T: ArrowPrimitiveType>(
    values: &PrimitiveArray<T>,
    texts: &StringArray,
    read: impl Fn(&str) -> Option<T::Native>,
) -> PrimitiveArray<T> {
    if values.null_count() <= texts.null_count() {
        return values.clone();
    }
    let both = values.iter().zip(texts);
    PrimitiveArray::<T>::from_iter(both.map(|(value, text)| value.or_else(|| text.and_then(&read))))
}

/// The bytes behind `\x` in hexadecimal digits, or the bytes of the text itself.
fn binary(text: &str) -> Option<Vec<u8>> {
    let Some(digits) = text.strip_prefix("\\x") else { return Some(text.as_bytes().to_vec()) };
    let digits: Option<Vec<u32>> = digits.chars().map(|c| c.to_digit(16)).collect();
    let pairs = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(
        pairs
            .chunks_exact(2)
            .map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | *digit as u8))
            .collect(),
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use arrow::datatypes::IntervalMonthDayNano;

    use super::*;

    fn micros(texts: [Option<&str>; 3], of_column: Option<&str>, zone: Option<&str>) -> Vec<Option<i64>> {
        let data_type = DataType::Timestamp(TimeUnit::Microsecond, of_column.map(Into::into));
        let zone = zone.map(|zone| zone.parse().unwrap());
        let values = convert(&StringArray::from(texts.to_vec()), &data_type, zone).unwrap();
        assert_eq!(values.data_type(), &data_type);
        values.as_primitive::<TimestampMicrosecondType>().iter().collect()
    }

    #[test]
    fn times_without_a_zone_are_of_that_of_the_session() {
        let (ten, half_past_four) = (Some(1_704_448_800_000_000), Some(1_704_429_000_000_000));
        let texts = [Some("2024-01-05 10:00:00"), Some("2024-01-05 15:00:00+05"), None];
        assert_eq!(micros(texts, Some("UTC"), Some("Asia/Kolkata")), [half_past_four, ten, None]);
        assert_eq!(micros(texts, Some("UTC"), None), [ten, ten, None]);
        // A zone in the text of a time without a zone means nothing; a text that is no time is left out.
        let texts = [Some("2024-01-05 10:00:00"), Some("2024-01-05 10:00:00+05"), Some("soon")];
        assert_eq!(micros(texts, None, Some("Asia/Kolkata")), [ten, ten, None]);
    }

    #[test]
    fn dates_times_and_intervals_are_read_as_in_statements() {
        let read = |texts: &[&str], data_type: DataType| {
            convert(&StringArray::from(texts.to_vec()), &data_type, None).unwrap()
        };
        let dates = read(&["2024-02-29", "0044-03-15 BC", "2024-02-30"], DataType::Date32);
        let dates = dates.as_primitive::<Date32Type>();
        assert_eq!((dates.value(0), dates.is_valid(1), dates.is_valid(2)), (19_782, true, false));
        let times = read(&["12:34:56", "12:34:56+00"], DataType::Time64(TimeUnit::Microsecond));
        assert_eq!(times.as_primitive::<Time64MicrosecondType>().values().to_vec(), [45_296_000_000; 2]);
        let intervals = read(&["@ 1 day 2 hours"], DataType::Interval(IntervalUnit::MonthDayNano));
        let expected = IntervalMonthDayNano::new(0, 1, 7_200_000_000_000);
        assert_eq!(intervals.as_primitive::<IntervalMonthDayNanoType>().value(0), expected);
    }
}
