//! Column types as SQL names.

use arrow::datatypes::DataType;

/// The SQL name of a column type, as JSON results show it. Unsigned integers, which SQL lacks, are
/// called `uint8` to `uint64`.
pub fn type_name(data_type: &DataType) -> String {
    use DataType::*;
    let name = match data_type {
        Null => "unknown",
        Boolean => "boolean",
        Int8 | Int16 => "smallint",
        Int32 => "integer",
        Int64 => "bigint",
        UInt8 => "uint8",
        UInt16 => "uint16",
        UInt32 => "uint32",
        UInt64 => "uint64",
        Float16 | Float32 => "real",
        Float64 => "double precision",
        Utf8 | LargeUtf8 | Utf8View => "text",
        FixedSizeBinary(16) => "uuid",
        Binary | LargeBinary | BinaryView | FixedSizeBinary(_) => "bytea",
        Date32 | Date64 => "date",
        Time32(_) | Time64(_) => "time",
        Timestamp(_, None) => "timestamp",
        Timestamp(_, Some(_)) => "timestamp with time zone",
        Interval(_) | Duration(_) => "interval",
        Struct(_) => "record",
        Map(_, _) => "map",
        Union(_, _) => "union",
        Dictionary(_, values) => return type_name(values),
        RunEndEncoded(_, values) => return type_name(values.data_type()),
        List(item) | LargeList(item) | ListView(item) | LargeListView(item) | FixedSizeList(item, _) => {
            return format!("{}[]", type_name(item.data_type()));
        }
        Decimal32(precision, scale)
        | Decimal64(precision, scale)
        | Decimal128(precision, scale)
        | Decimal256(precision, scale) => return format!("numeric({precision},{scale})"),
    };
    name.to_owned()
}
