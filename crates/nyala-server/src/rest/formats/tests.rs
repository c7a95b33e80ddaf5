//! Values that formats tend to get wrong, written in each of them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, Float64Array,
    Int32Array, Int64Array, ListArray, NullArray, RecordBatch, StringArray, StringViewArray, StructArray,
    TimestampMicrosecondArray, UInt64Array,
};
use arrow::datatypes::{DataType, Field, Fields, Int32Type, Schema};
use arrow::ipc::reader::StreamReader;

use super::{Format, Summary, type_name};

#[test]
fn json_keeps_every_value_apart_from_every_other() {
    check_json(
        ints(&[Some(i64::MAX), None, Some(i64::MIN)]),
        "9223372036854775807 null -9223372036854775808",
    );
    check_json(Arc::new(UInt64Array::from(vec![u64::MAX])), "18446744073709551615");
    check_json(
        Arc::new(Float64Array::from(vec![1.0, 0.1, 1e300, f64::NAN, f64::INFINITY, f64::NEG_INFINITY])),
        r#"1.0 0.1 1e300 "NaN" "Infinity" "-Infinity""#,
    );
    check_json(Arc::new(BooleanArray::from(vec![Some(true), None])), "true null");
    check_json(text(&[Some("a\"b\\c\n"), Some(""), None, Some("ü")]), r#""a\"b\\c\n" "" null "ü""#);
    check_json(decimals(&[12345, -5]), "123.45 -0.05");
    check_json(Arc::new(Date32Array::from(vec![19_723])), r#""2024-01-01""#);
    check_json(
        Arc::new(TimestampMicrosecondArray::from(vec![1_704_164_645_123_000])),
        r#""2024-01-02T03:04:05.123""#,
    );
    check_json(Arc::new(BinaryArray::from_vec(vec![&[0, 255]])), r#""00ff""#);
    check_json(Arc::new(NullArray::new(1)), "null");
    check_json(lists(), "[1,null] null []");
    check_json(
        Arc::new(StringViewArray::from(vec!["a string longer than twelve bytes"])),
        r#""a string longer than twelve bytes""#,
    );
}

#[test]
fn a_null_among_the_values_of_a_dictionary_is_a_null() {
    let values = text(&[Some("x"), None]);
    let keys = Int32Array::from(vec![Some(0), Some(1), None]);
    let array = DictionaryArray::<Int32Type>::new(keys, values);
    check_json(Arc::new(array), r#""x" null null"#);
    let empty = DictionaryArray::<Int32Type>::new(Int32Array::from(vec![None]), text(&[]));
    check_json(Arc::new(empty), "null");
}

#[test]
fn a_date_beyond_the_calendar_is_an_error_at_any_depth() {
    let date: ArrayRef = Arc::new(Date32Array::from(vec![i32::MAX]));
    let field = Field::new("d", DataType::Date32, true);
    let nested: ArrayRef =
        Arc::new(StructArray::new(Fields::from(vec![field]), vec![Arc::clone(&date)], None));
    for array in [date, nested] {
        for format in [Format::Json, Format::NdJson, Format::Csv] {
            let batch = batch(&[("a", Arc::clone(&array))]);
            let mut encoder = format.encoder(batch.schema()).unwrap();
            encoder.rows(&batch, &mut Vec::new()).unwrap_err();
        }
    }
}

#[test]
fn json_document_is_whole_without_rows_and_across_batches() {
    let batch = batch(&[("n", ints(&[Some(1)])), ("n", text(&[Some("x")]))]);
    let expected = r#"{"columns":[{"name":"n","type":"bigint","nullable":true},{"name":"n","type":"text","nullable":true}],"rows":["#;
    let empty = write(Format::Json, &batch.slice(0, 0), 1, None);
    assert_eq!(empty, format!("{expected}],\"row_count\":0,\"elapsed_ms\":1.500}}\n"));
    let twice = write(Format::Json, &batch, 2, None);
    assert_eq!(twice, format!("{expected}\n[1,\"x\"],\n[1,\"x\"]],\"row_count\":2,\"elapsed_ms\":1.500}}\n"));
    let done = write(Format::Json, &RecordBatch::new_empty(Arc::new(Schema::empty())), 1, Some("DROP CUBE"));
    let done: serde_json::Value = serde_json::from_str(&done).unwrap();
    assert_eq!(done["command"], "DROP CUBE");
}

#[test]
fn ndjson_objects_have_distinct_keys() {
    let one = || ints(&[Some(1)]);
    let batch = batch(&[("a", one()), ("a", one()), ("a_2", one()), ("a", lists().slice(0, 1))]);
    let text = write(Format::NdJson, &batch, 2, None);
    assert_eq!(text, "{\"a\":1,\"a_3\":1,\"a_2\":1,\"a_4\":[1,null]}\n".repeat(2));
}

#[test]
fn csv_quotes_what_needs_it_and_tells_null_from_empty() {
    let batch = batch(&[
        ("a,b", text(&[Some("x,y"), Some("say \"hi\""), Some(""), None, Some(" pad"), Some("plain")])),
        ("n", ints(&[Some(i64::MAX), None, Some(1), Some(2), Some(3), Some(4)])),
        ("f", Arc::new(Float64Array::from(vec![f64::NAN, 1.5, -0.0, 1.0, 2.0, f64::INFINITY]))),
        ("d", decimals(&[1, 2, 3, 4, 5, 6])),
    ]);
    let expected = "\"a,b\",n,f,d\n\
        \"x,y\",9223372036854775807,NaN,0.01\n\
        \"say \"\"hi\"\"\",,1.5,0.02\n\
        \"\",1,-0.0,0.03\n\
        ,2,1.0,0.04\n\
        \" pad\",3,2.0,0.05\n\
        plain,4,Infinity,0.06\n";
    assert_eq!(write(Format::Csv, &batch, 1, None), expected);
}

#[test]
fn csv_writes_lists_as_json_and_dates_bare() {
    let dates: ArrayRef = Arc::new(Date32Array::from(vec![Some(0), None, Some(1)]));
    let batch = batch(&[("l", lists()), ("d", dates)]);
    assert_eq!(write(Format::Csv, &batch, 1, None), "l,d\n\"[1,null]\",1970-01-01\n,\n[],1970-01-02\n");
}

#[test]
fn arrow_stream_reads_back() {
    let batch = batch(&[("n", ints(&[Some(1), None])), ("l", lists().slice(0, 2))]);
    let bytes = bytes(Format::Arrow, &batch, 2, None);
    let batches: Vec<_> =
        StreamReader::try_new(bytes.as_slice(), None).unwrap().map(Result::unwrap).collect();
    assert_eq!(batches, [batch.clone(), batch]);
}

#[test]
fn accept_header_chooses_the_format() {
    let check =
        |accept: Option<&str>, expected| assert_eq!(Format::negotiate(accept), expected, "{accept:?}");
    check(None, Some(Format::Json));
    check(Some(""), Some(Format::Json));
    check(Some("*/*"), Some(Format::Json));
    check(Some("text/*"), Some(Format::Csv));
    check(Some("text/csv"), Some(Format::Csv));
    check(Some("Application/X-NDJSON"), Some(Format::NdJson));
    check(Some("application/json;q=0.5, text/csv;q=0.8"), Some(Format::Csv));
    check(Some("text/html, application/vnd.apache.arrow.stream"), Some(Format::Arrow));
    check(Some("application/json;q=0, text/csv;q=0.1"), Some(Format::Csv));
    check(Some("text/html"), None);
    check(Some("application/json;q=0"), None);
    check(Some("application/json;q=NaN"), None);
}

#[test]
fn types_have_sql_names() {
    let list = DataType::new_list(DataType::Decimal128(10, 2), true);
    assert_eq!(type_name(&list), "numeric(10,2)[]");
    let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8View));
    assert_eq!(type_name(&dictionary), "text");
}

/// Checks the cells of a column, each as JSON, against their texts with blanks in between.
fn check_json(array: ArrayRef, expected: &str) {
    let rows = array.len();
    let batch = batch(&[("a", array)]);
    let mut out = Vec::new();
    let mut encoder = Format::Json.encoder(batch.schema()).unwrap();
    encoder.rows(&batch, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let _: Vec<serde_json::Value> = serde_json::from_str(&format!("[{text}]")).unwrap();
    let cells: Vec<&str> = text
        .trim()
        .split(",\n")
        .map(|row| row.strip_prefix('[').unwrap().strip_suffix(']').unwrap())
        .collect();
    assert_eq!(cells.len(), rows);
    assert_eq!(cells.join(" "), expected);
}

fn write(format: Format, batch: &RecordBatch, times: u64, tag: Option<&str>) -> String {
    String::from_utf8(bytes(format, batch, times, tag)).unwrap()
}

fn bytes(format: Format, batch: &RecordBatch, times: u64, tag: Option<&str>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = format.encoder(batch.schema()).unwrap();
    encoder.head(&mut out).unwrap();
    for _ in 0..times {
        encoder.rows(batch, &mut out).unwrap();
    }
    let rows = times * batch.num_rows() as u64;
    let elapsed = Duration::from_micros(1500);
    encoder
        .tail(&Summary { rows, elapsed, tag: tag.map(str::to_owned), ..Summary::default() }, &mut out)
        .unwrap();
    out
}

fn batch(columns: &[(&str, ArrayRef)]) -> RecordBatch {
    let fields: Vec<_> =
        columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true)).collect();
    let arrays = columns.iter().map(|(_, array)| Arc::clone(array)).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
}

fn ints(values: &[Option<i64>]) -> ArrayRef {
    Arc::new(Int64Array::from(values.to_vec()))
}

fn text(values: &[Option<&str>]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

fn decimals(cents: &[i128]) -> ArrayRef {
    Arc::new(Decimal128Array::from(cents.to_vec()).with_precision_and_scale(10, 2).unwrap())
}

fn lists() -> ArrayRef {
    let rows = vec![Some(vec![Some(1), None]), None, Some(vec![])];
    Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(rows))
}
