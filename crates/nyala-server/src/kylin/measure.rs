//! Measures in Kylin's words: functions, types and parameters.

use arrow::datatypes::DataType;
use nyala_engine::{DescribedExpr, DescribedMeasure};
use serde_json::{Value, json};

use super::cells::{JdbcType, type_of};

/// Kylin has one function for all counts of distinct values; the type of its result tells them apart.
pub fn function_of(measure: &DescribedMeasure) -> String {
    match (measure.function.as_str(), measure.is_distinct) {
        ("bitmap_distinct" | "approx_distinct", _) => "COUNT_DISTINCT".to_owned(),
        (function, true) => format!("{}_DISTINCT", function.to_uppercase()),
        (function, false) => function.to_uppercase(),
    }
}

/// The type of a measure's result.
pub fn return_type(measure: &DescribedMeasure) -> String {
    match (measure.function.as_str(), measure.is_distinct) {
        ("bitmap_distinct", _) | ("count", true) => "bitmap".to_owned(),
        // HyperLogLog with 2^14 registers.
        ("approx_distinct", _) => "hllc(14)".to_owned(),
        _ => kylin_type(&measure.data_type),
    }
}

/// A type by Kylin's name.
pub fn kylin_type(data_type: &DataType) -> String {
    let JdbcType { name, precision, scale, .. } = type_of(data_type);
    match name {
        "DECIMAL" => format!("decimal({precision},{scale})"),
        name => name.to_lowercase(),
    }
}

/// Type and value of a parameter. Kylin knows columns and constants; any other expression is given as SQL.
fn parameter(argument: &DescribedExpr) -> (&'static str, String) {
    match argument {
        DescribedExpr::Column(column) => ("column", column.to_string()),
        DescribedExpr::Constant(text) => ("constant", text.clone()),
        DescribedExpr::Sql(text) => ("expression", text.clone()),
    }
}

/// Parameters as Kylin 5 has them, in a list.
pub fn parameters(arguments: &[DescribedExpr]) -> Value {
    let shown = arguments.iter().map(|argument| {
        let (kind, value) = parameter(argument);
        json!({ "type": kind, "value": value })
    });
    shown.collect()
}

/// Parameters as Kylin up to version 4 has them: each within the one before it.
pub fn chained(arguments: &[DescribedExpr]) -> Value {
    arguments.iter().rev().fold(Value::Null, |next, argument| {
        let (kind, value) = parameter(argument);
        json!({ "type": kind, "value": value, "next_parameter": next })
    })
}

#[cfg(test)]
mod tests {
    use nyala_engine::TableColumn;

    use super::*;

    fn measure(function: &str, is_distinct: bool, data_type: DataType) -> DescribedMeasure {
        DescribedMeasure {
            call: String::new(),
            function: function.to_owned(),
            is_distinct,
            arguments: Vec::new(),
            data_type,
        }
    }

    #[test]
    fn functions_have_the_names_and_types_of_kylin() {
        for (function, is_distinct, data_type, expected) in [
            ("sum", false, DataType::Int64, ("SUM", "bigint")),
            ("sum", false, DataType::Decimal128(38, 4), ("SUM", "decimal(38,4)")),
            ("min", false, DataType::Date32, ("MIN", "date")),
            ("max", false, DataType::Utf8View, ("MAX", "varchar")),
            ("avg", false, DataType::Float64, ("AVG", "double")),
            ("count", false, DataType::Int64, ("COUNT", "bigint")),
            ("count", true, DataType::Int64, ("COUNT_DISTINCT", "bitmap")),
            ("bitmap_distinct", false, DataType::Int64, ("COUNT_DISTINCT", "bitmap")),
            ("approx_distinct", false, DataType::UInt64, ("COUNT_DISTINCT", "hllc(14)")),
            ("sum", true, DataType::Int64, ("SUM_DISTINCT", "bigint")),
        ] {
            let measure = measure(function, is_distinct, data_type);
            let found = (function_of(&measure), return_type(&measure));
            assert_eq!((found.0.as_str(), found.1.as_str()), expected);
        }
    }

    #[test]
    fn old_versions_have_each_parameter_within_the_one_before_it() {
        let column = TableColumn { table: "sales".to_owned(), name: "price".to_owned() };
        let arguments = [DescribedExpr::Column(column), DescribedExpr::Constant("0.5".to_owned())];
        let last = json!({ "type": "constant", "value": "0.5", "next_parameter": null });
        let expected = json!({ "type": "column", "value": "sales.price", "next_parameter": last });
        assert_eq!(chained(&arguments), expected);
    }
}
