//! Intervals of Parquet files with their months.
//!
//! Arrow's reader takes either the months of an INTERVAL or its days and milliseconds. Here such columns are read as the 12 bytes
//! that they are: three little-endian numbers of 4 bytes, in that order.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, IntervalMonthDayNanoArray};
use arrow::datatypes::{DataType, IntervalMonthDayNano, IntervalUnit};
use datafusion::common::{exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use parquet::basic::{ConvertedType, Type as Physical};
use parquet::errors::Result;
use parquet::file::metadata::{
    ColumnChunkMetaData, FileMetaData, KeyValue, ParquetMetaData, ParquetMetaDataBuilder, RowGroupMetaData,
};
use parquet::schema::types::{ColumnDescPtr, SchemaDescPtr, SchemaDescriptor, Type, TypePtr};

/// Bytes of an interval.
pub const INTERVAL_BYTES: i32 = 12;
/// Names in a file's metadata which columns are intervals.
pub const INTERVALS_KEY: &str = "nyala.intervals";
const NANOS_OF_MILLI: i64 = 1_000_000;

/// The metadata with columns of bytes in the place of intervals, and the names of these columns under [`INTERVALS_KEY`]. Intervals
/// inside of other columns stay as they are.
pub fn with_months(metadata: ParquetMetaData) -> Result<ParquetMetaData> {
    let file = metadata.file_metadata();
    let names: Vec<&str> = file
        .schema()
        .get_fields()
        .iter()
        .filter(|field| is_interval(field))
        .map(|field| field.name())
        .collect();
    if names.is_empty() {
        return Ok(metadata);
    }
    let note = KeyValue::new(INTERVALS_KEY.to_owned(), names.join("\n"));
    let notes = file.key_value_metadata().into_iter().flatten().cloned().chain([note]).collect();
    let schema = Arc::new(SchemaDescriptor::new(Arc::new(without_intervals(file.schema())?)));
    let renewed = FileMetaData::new(
        file.version(),
        file.num_rows(),
        file.created_by().map(str::to_owned),
        Some(notes),
        Arc::clone(&schema),
        file.column_orders().cloned(),
    );
    let groups = metadata.row_groups().iter().map(|group| group_of(group, &schema));
    let groups = groups.collect::<Result<Vec<_>>>()?;
    let builder = ParquetMetaDataBuilder::new(renewed).set_row_groups(groups);
    Ok(builder
        .set_column_index(metadata.column_index().cloned())
        .set_offset_index(metadata.offset_index().cloned())
        .build())
}

fn is_interval(field: &Type) -> bool {
    field.is_primitive()
        && field.get_basic_info().converted_type() == ConvertedType::INTERVAL
        && field.get_physical_type() == Physical::FIXED_LEN_BYTE_ARRAY
}

fn without_intervals(schema: &Type) -> Result<Type> {
    let fields = schema.get_fields().iter().map(|field| -> Result<TypePtr> {
        if !is_interval(field) {
            return Ok(Arc::clone(field));
        }
        let info = field.get_basic_info();
        let bytes = Type::primitive_type_builder(info.name(), Physical::FIXED_LEN_BYTE_ARRAY)
            .with_repetition(info.repetition())
            .with_length(INTERVAL_BYTES)
            .with_id(info.has_id().then(|| info.id()));
        Ok(Arc::new(bytes.build()?))
    });
    Type::group_type_builder(schema.name()).with_fields(fields.collect::<Result<Vec<_>>>()?).build()
}

fn group_of(group: &RowGroupMetaData, schema: &SchemaDescPtr) -> Result<RowGroupMetaData> {
    let columns = group.columns().iter().zip(schema.columns());
    let columns =
        columns.map(|(column, descriptor)| chunk_of(column, descriptor)).collect::<Result<Vec<_>>>()?;
    let mut builder = RowGroupMetaData::builder(Arc::clone(schema))
        .set_num_rows(group.num_rows())
        .set_sorting_columns(group.sorting_columns().cloned())
        .set_total_byte_size(group.total_byte_size())
        .set_column_metadata(columns);
    if let Some(ordinal) = group.ordinal() {
        builder = builder.set_ordinal(ordinal);
    }
    builder.build()
}

/// The chunk under another description. Its type does not change, so only intervals lose their statistics.
fn chunk_of(column: &ColumnChunkMetaData, descriptor: &ColumnDescPtr) -> Result<ColumnChunkMetaData> {
    let mut builder = ColumnChunkMetaData::builder(Arc::clone(descriptor))
        .set_encodings_mask(*column.encodings_mask())
        .set_num_values(column.num_values())
        .set_compression_codec(column.compression_codec())
        .set_total_compressed_size(column.compressed_size())
        .set_total_uncompressed_size(column.uncompressed_size())
        .set_data_page_offset(column.data_page_offset())
        .set_dictionary_page_offset(column.dictionary_page_offset())
        .set_index_page_offset(column.index_page_offset())
        .set_bloom_filter_offset(column.bloom_filter_offset())
        .set_bloom_filter_length(column.bloom_filter_length())
        .set_offset_index_offset(column.offset_index_offset())
        .set_offset_index_length(column.offset_index_length())
        .set_column_index_offset(column.column_index_offset())
        .set_column_index_length(column.column_index_length());
    let same = column.column_descr().converted_type() == descriptor.converted_type();
    if let Some(statistics) = column.statistics().filter(|_| same) {
        builder = builder.set_statistics(statistics.clone());
    }
    builder.build()
}

/// A function that only this scan uses: it makes an interval of its bytes in a file.
#[derive(Debug, PartialEq, Eq, Hash)]
struct IntervalOfBytes(Signature);

/// The function that makes intervals of bytes.
pub fn interval_of_bytes() -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(IntervalOfBytes(Signature::any(1, Volatility::Immutable))))
}

impl ScalarUDFImpl for IntervalOfBytes {
    fn name(&self) -> &str {
        "interval_of_bytes"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, arguments: &[DataType]) -> datafusion::error::Result<DataType> {
        match arguments {
            [DataType::FixedSizeBinary(INTERVAL_BYTES)] => Ok(DataType::Interval(IntervalUnit::MonthDayNano)),
            _ => plan_err!("an interval has {INTERVAL_BYTES} bytes"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> datafusion::error::Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let Some(bytes) = arrays.first().and_then(|array| array.as_fixed_size_binary_opt()) else {
            return exec_err!("an interval has {INTERVAL_BYTES} bytes");
        };
        let intervals: IntervalMonthDayNanoArray =
            bytes.iter().map(|value| value.and_then(interval_from)).collect();
        let intervals: ArrayRef = Arc::new(intervals);
        Ok(ColumnarValue::Array(intervals))
    }
}

fn interval_from(bytes: &[u8]) -> Option<IntervalMonthDayNano> {
    let number = |from: usize| {
        let bytes: [u8; 4] = bytes.get(from..from + 4)?.try_into().ok()?;
        Some(u32::from_le_bytes(bytes))
    };
    // Some writers put negative numbers into the months and days, which are unsigned in the format.
    let (months, days, millis) = (number(0)?.cast_signed(), number(4)?.cast_signed(), number(8)?);
    Some(IntervalMonthDayNano::new(months, days, i64::from(millis) * NANOS_OF_MILLI))
}
