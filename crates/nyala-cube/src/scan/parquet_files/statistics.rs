//! Statistics of Parquet files, without those that would hide rows.
//!
//! Writers leave NaN out of the bounds of floats, but NaN is the greatest number in PostgreSQL's order. So the lower bound of
//! floats holds for all values, and the upper one is NaN. Bounds of types whose order old writers did not know are dropped,
//! and all statistics of columns that may hold NULL without a count of them.

use arrow::datatypes::Schema;
use datafusion::common::{ColumnStatistics, Statistics};
use parquet::basic::{ConvertedType, LogicalType, Type};
use parquet::errors::Result;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetColumnIndex, ParquetMetaData};
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use parquet::file::statistics::{Statistics as ChunkStatistics, ValueStatistics};
use parquet::schema::types::ColumnDescriptor;

/// How reliable the bounds of a column's values are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    /// Bounds are in the order of the type.
    Known,
    /// Bounds do not cover NaN.
    Floats,
    /// Bounds are in an order that readers do not share.
    Unknown,
}

fn order_of(column: &ColumnDescriptor) -> Order {
    let is_interval = column.converted_type() == ConvertedType::INTERVAL;
    match column.physical_type() {
        Type::FLOAT | Type::DOUBLE => Order::Floats,
        Type::INT96 => Order::Unknown,
        _ if is_interval || column.logical_type_ref() == Some(&LogicalType::Float16) => Order::Unknown,
        _ => Order::Known,
    }
}

/// Whether the deprecated bounds, which compare bytes as signed, hold for a column.
fn is_signed(column: &ColumnDescriptor) -> bool {
    use ConvertedType::{UINT_8, UINT_16, UINT_32, UINT_64};
    let is_unsigned = matches!(column.converted_type(), UINT_8 | UINT_16 | UINT_32 | UINT_64);
    matches!(column.physical_type(), Type::BOOLEAN | Type::INT32 | Type::INT64) && !is_unsigned
}

/// The metadata with only those statistics that exclude no row by mistake.
pub fn trusted(metadata: ParquetMetaData) -> Result<ParquetMetaData> {
    let mut builder = metadata.into_builder();
    let mut groups = builder.take_row_groups();
    let mut index = builder.take_column_index();
    for (number, group) in groups.iter_mut().enumerate() {
        let mut pages = index.as_mut().and_then(|index| index.get_mut(number));
        for (position, column) in group.columns_mut().iter_mut().enumerate() {
            if let Some(trusted) = trusted_chunk(column)? {
                *column = trusted;
            }
            let pages = pages.as_deref_mut().and_then(|pages| pages.get_mut(position));
            if let Some(pages) = pages
                && !keeps_pages(column.column_descr(), pages)
            {
                *pages = ColumnIndexMetaData::NONE;
            }
        }
    }
    let index: Option<ParquetColumnIndex> = index;
    Ok(builder.set_row_groups(groups).set_column_index(index).build())
}

/// Whether the bounds of single pages can be relied on.
fn keeps_pages(column: &ColumnDescriptor, pages: &ColumnIndexMetaData) -> bool {
    let counts_nulls = column.max_def_level() == 0 || pages.null_counts().is_some();
    order_of(column) == Order::Known && counts_nulls
}

/// The chunk with corrected statistics; none if its own are reliable.
fn trusted_chunk(column: &ColumnChunkMetaData) -> Result<Option<ColumnChunkMetaData>> {
    let order = order_of(column.column_descr());
    let Some(statistics) = column.statistics() else {
        return if order == Order::Floats { without_filter(column).map(Some) } else { Ok(None) };
    };
    let builder = || column.clone().into_builder();
    if statistics.null_count_opt().is_none() && column.column_descr().max_def_level() > 0 {
        return Ok(Some(builder().clear_statistics().set_bloom_filter_offset(None).build()?));
    }
    let old = statistics.is_min_max_deprecated() && !is_signed(column.column_descr());
    match order {
        Order::Floats => {
            let column = builder().set_statistics(upper_nan(statistics)).build()?;
            without_filter(&column).map(Some)
        }
        Order::Unknown => Ok(Some(builder().set_statistics(without_bounds(statistics)).build()?)),
        Order::Known if old => Ok(Some(builder().set_statistics(without_bounds(statistics)).build()?)),
        Order::Known => Ok(None),
    }
}

/// The chunk without its Bloom filter, which takes 0 and -0 for different values, and also different NaN.
fn without_filter(column: &ColumnChunkMetaData) -> Result<ColumnChunkMetaData> {
    column.clone().into_builder().set_bloom_filter_offset(None).set_bloom_filter_length(None).build()
}

/// Statistics of floats that may include NaN, and in which 0 also stands for -0.
fn upper_nan(statistics: &ChunkStatistics) -> ChunkStatistics {
    let nulls = statistics.null_count_opt();
    match statistics {
        ChunkStatistics::Float(found) => {
            let least = found.min_opt().filter(|least| !least.is_nan());
            let least = least.map(|least| if *least == 0.0 { -0.0 } else { *least });
            let found = ValueStatistics::new(least, least.map(|_| f32::NAN), None, nulls, false);
            ChunkStatistics::Float(found.with_min_is_exact(false).with_max_is_exact(false))
        }
        ChunkStatistics::Double(found) => {
            let least = found.min_opt().filter(|least| !least.is_nan());
            let least = least.map(|least| if *least == 0.0 { -0.0 } else { *least });
            let found = ValueStatistics::new(least, least.map(|_| f64::NAN), None, nulls, false);
            ChunkStatistics::Double(found.with_min_is_exact(false).with_max_is_exact(false))
        }
        other => other.clone(),
    }
}

/// Statistics with only the count of nulls.
fn without_bounds(statistics: &ChunkStatistics) -> ChunkStatistics {
    let nulls = statistics.null_count_opt();
    macro_rules! unbounded {
        ($($kind:ident)*) => {
            match statistics {
                $(ChunkStatistics::$kind(_) => {
                    ChunkStatistics::$kind(ValueStatistics::new(None, None, None, nulls, false))
                })*
            }
        };
    }
    unbounded!(Boolean Int32 Int64 Int96 Float Double ByteArray FixedLenByteArray)
}

/// Statistics of a whole file, from which aggregates may be answered: without those of floats, whose bounds leave out NaN.
pub fn without_floats(mut statistics: Statistics, schema: &Schema) -> Statistics {
    for (column, field) in statistics.column_statistics.iter_mut().zip(schema.fields()) {
        if field.data_type().is_floating() {
            *column = ColumnStatistics { null_count: column.null_count, ..ColumnStatistics::new_unknown() };
        }
    }
    statistics
}
