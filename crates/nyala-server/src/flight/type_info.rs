//! The types of SQL, as `getTypeInfo` of drivers lists them.

use arrow_flight::error::FlightError;
use arrow_flight::sql::metadata::{XdbcTypeInfo, XdbcTypeInfoData, XdbcTypeInfoDataBuilder};
use arrow_flight::sql::{Nullable, Searchable, XdbcDataType};

/// Name, type, longest value in digits or characters, and what stands around a literal.
const TYPES: &[(&str, XdbcDataType, i32, &str)] = &[
    ("boolean", XdbcDataType::XdbcBit, 1, ""),
    ("smallint", XdbcDataType::XdbcSmallint, 5, ""),
    ("integer", XdbcDataType::XdbcInteger, 10, ""),
    ("bigint", XdbcDataType::XdbcBigint, 19, ""),
    ("real", XdbcDataType::XdbcReal, 7, ""),
    ("double precision", XdbcDataType::XdbcDouble, 15, ""),
    ("numeric", XdbcDataType::XdbcDecimal, 38, ""),
    ("text", XdbcDataType::XdbcVarchar, i32::MAX, "'"),
    ("bytea", XdbcDataType::XdbcVarbinary, i32::MAX, "'"),
    ("date", XdbcDataType::XdbcDate, 10, "'"),
    ("time", XdbcDataType::XdbcTime, 15, "'"),
    ("timestamp", XdbcDataType::XdbcTimestamp, 26, "'"),
    ("interval", XdbcDataType::XdbcInterval, 49, "'"),
];

/// All types.
///
/// # Errors
/// Arrow cannot write them.
pub fn type_info() -> Result<XdbcTypeInfoData, FlightError> {
    let mut types = XdbcTypeInfoDataBuilder::new();
    for (name, data_type, size, quote) in TYPES {
        let literal = (!quote.is_empty()).then(|| (*quote).to_owned());
        let is_decimal = *data_type == XdbcDataType::XdbcDecimal;
        let is_number = quote.is_empty() && *data_type != XdbcDataType::XdbcBit;
        types.append(XdbcTypeInfo {
            type_name: (*name).to_owned(),
            data_type: *data_type,
            column_size: Some(*size),
            literal_prefix: literal.clone(),
            literal_suffix: literal,
            create_params: is_decimal.then(|| vec!["precision".to_owned(), "scale".to_owned()]),
            nullable: Nullable::NullabilityNullable,
            case_sensitive: *data_type == XdbcDataType::XdbcVarchar,
            searchable: Searchable::Full,
            unsigned_attribute: is_number.then_some(false),
            fixed_prec_scale: false,
            auto_increment: Some(false),
            local_type_name: Some((*name).to_owned()),
            minimum_scale: is_decimal.then_some(0),
            maximum_scale: is_decimal.then_some(38),
            sql_data_type: *data_type,
            datetime_subcode: None,
            num_prec_radix: is_number.then_some(10),
            interval_precision: None,
        });
    }
    types.build()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn types_are_listed_and_chosen() {
        let types = type_info().unwrap();
        assert_eq!(types.record_batch(None).unwrap().num_rows(), TYPES.len());
        assert_eq!(types.record_batch(XdbcDataType::XdbcBigint as i32).unwrap().num_rows(), 1);
    }
}
