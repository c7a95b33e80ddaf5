//! Files of external tables as other programs write them: partition folders, names, columns that differ, statistics.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, DictionaryArray, Float32Array, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray,
    TimestampMicrosecondArray, TimestampMillisecondArray,
};
use arrow::datatypes::{DataType, Field, Int32Type, Schema};
use nyala_engine::ErrorKind;
use parquet::arrow::ArrowWriter;
use parquet::basic::{ConvertedType, Repetition, Type as Physical};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::{ByteArray, FixedLenByteArray, Int96};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

use crate::batch;
use crate::harness::{TestEngine, write_parquet};

/// Checks the rows of a query: values separated by `|`, rows by ` / `.
async fn check(test: &TestEngine, sql: &str, expected: &str) {
    let rows = test.run(sql).await;
    let shown: Vec<String> = rows.iter().map(|row| row.join("|")).collect();
    assert_eq!(shown.join(" / "), expected, "{sql}");
}

/// A file with one row, whose `id` is given.
fn write_id(test: &TestEngine, path: &str, id: i64) {
    write_parquet(&test.path(path), &[batch!("id" => Int64Array::from(vec![id]))]);
}

fn write_text(test: &TestEngine, path: &str, text: &str) {
    let path = test.path(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Makes a table over the folder of its name.
async fn create(test: &TestEngine, name: &str, columns: &str, format: &str, rest: &str) {
    test.run(&statement(test, name, columns, format, rest)).await;
}

fn statement(test: &TestEngine, name: &str, columns: &str, format: &str, rest: &str) -> String {
    let location = test.path(name).display().to_string();
    format!("CREATE EXTERNAL TABLE {name} {columns} STORED AS {format} {rest} LOCATION '{location}/'")
}

#[tokio::test(flavor = "multi_thread")]
async fn partition_values_are_compared_as_values() {
    let test = TestEngine::new().await;
    for (month, id) in [("01", 1), ("07", 7), ("12", 12)] {
        write_id(&test, &format!("months/year=2024/month={month}/a.parquet"), id);
    }
    create(&test, "months", "(id BIGINT, year INT, month INT)", "PARQUET", "PARTITIONED BY (year, month)")
        .await;
    check(&test, "SELECT id FROM months WHERE month = 7", "7").await;
    check(&test, "SELECT id FROM months WHERE year = 2024 AND month = 7", "7").await;
    check(&test, "SELECT id FROM months WHERE year = 2024 AND month IN (1, 12) ORDER BY 1", "1 / 12").await;
    check(&test, "SELECT id FROM months WHERE month < 5 OR id = 12 ORDER BY 1", "1 / 12").await;

    for (time, id) in [("2024-01-05 10%3A00%3A00", 1), ("2024-01-05 12:00:00", 2), ("9999-12-31 00:00:00", 3)]
    {
        write_id(&test, &format!("times/t={time}/a.parquet"), id);
    }
    create(&test, "times", "(id BIGINT, t TIMESTAMP)", "PARQUET", "PARTITIONED BY (t)").await;
    check(&test, "SELECT id FROM times WHERE t = '2024-01-05 12:00:00'", "2").await;
    check(&test, "SELECT id FROM times WHERE t = '2024-01-05 10:00:00'", "1").await;
    check(&test, "SELECT id FROM times WHERE t >= '9999-12-31'", "3").await;

    for (number, id) in [("1.0", 1), ("2.50", 2)] {
        write_id(&test, &format!("numbers/x={number}/a.parquet"), id);
    }
    create(&test, "numbers", "(id BIGINT, x DOUBLE)", "PARQUET", "PARTITIONED BY (x)").await;
    check(&test, "SELECT id FROM numbers WHERE x = 1", "1").await;
    check(&test, "SELECT id FROM numbers WHERE x = 2.5", "2").await;

    write_id(&test, "texts/city=K%C3%B8ge%2FS%20x/a.parquet", 1);
    create(&test, "texts", "", "PARQUET", "PARTITIONED BY (city)").await;
    check(&test, "SELECT id, city FROM texts WHERE city = 'Køge/S x'", "1|Køge/S x").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn partition_columns_have_types_and_nulls() {
    let test = TestEngine::new().await;
    write_id(&test, "n/n=__HIVE_DEFAULT_PARTITION__/a.parquet", 1);
    write_id(&test, "n/n=7/a.parquet", 2);
    write_id(&test, "n/n=/a.parquet", 3);
    create(&test, "n", "(id BIGINT, n INT)", "PARQUET", "PARTITIONED BY (n)").await;
    check(&test, "SELECT id FROM n WHERE n IS NULL ORDER BY 1", "1 / 3").await;
    check(&test, "SELECT id FROM n WHERE n IS NOT NULL", "2").await;
    check(&test, "SELECT sum(id), max(n), min(n), count(n), count(*) FROM n", "6|7|7|1|3").await;
    check(&test, "SELECT id FROM n WHERE n <> 5", "2").await;

    for (day, id) in [("2024-01-05", 1), ("2024-01-06", 2)] {
        write_id(&test, &format!("days/day={day}/k=07/c=a/a.parquet"), id);
    }
    create(&test, "days", "", "PARQUET", "PARTITIONED BY (day, k, c)").await;
    let types = "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 'days' \
                 AND column_name IN ('day', 'k') ORDER BY 1";
    let types = test.run(types).await;
    assert!(types[0][1].to_lowercase().contains("date"), "{types:?}");
    check(&test, "SELECT id FROM days WHERE day = DATE '2024-01-06' AND k + 1 = 8", "2").await;
    let rest = "PARTITIONED BY (day DATE, k BIGINT, c TEXT)";
    test.run(&statement(&test, "days", "", "PARQUET", rest).replace("TABLE days", "TABLE listed")).await;
    check(&test, "SELECT id, k, c FROM listed WHERE day < '2024-01-06'", "1|7|a").await;

    write_id(&test, "odd/n=7/a.parquet", 1);
    write_id(&test, "odd/n=x/a.parquet", 2);
    let sql = statement(&test, "odd", "(id BIGINT, n INT)", "PARQUET", "PARTITIONED BY (n)");
    test.error(&sql, ErrorKind::InvalidValue, "folder `n=x`: `x` is no INTEGER").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_tell_files_from_folders_and_notes() {
    let test = TestEngine::new().await;
    for (id, name) in ["a", "run=5", "_x=1", ".hidden", "_temporary/0/b", "_delta_log/c"].iter().enumerate() {
        write_id(&test, &format!("t/{name}.parquet"), 1 << id);
    }
    create(&test, "t", "", "PARQUET", "").await;
    check(&test, "SELECT sum(id) FROM t", "7").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_of_csv_are_found_by_name() {
    let test = TestEngine::new().await;
    write_text(&test, "t/1.csv", "id,price,cost\n1,10,7\n2,20,15\n");
    write_text(&test, "t/2.csv", "id,cost,price\n3,9,30\n");
    write_text(&test, "t/3.csv", "extra,ID\nx,4\n");
    create(&test, "t", "", "CSV", "").await;
    check(&test, "SELECT sum(price), sum(cost), sum(id), count(*), max(extra) FROM t", "60|31|10|4|x").await;
    let listed =
        statement(&test, "t", "(cost BIGINT, id BIGINT)", "CSV", "").replace("TABLE t", "TABLE listed");
    test.run(&listed).await;
    check(&test, "SELECT id, cost FROM listed ORDER BY 1", "1|7 / 2|15 / 3|9 / 4|NULL").await;
    let wrong = statement(&test, "t", "(nothing BIGINT)", "CSV", "").replace("TABLE t", "TABLE wrong");
    test.error(&wrong, ErrorKind::UndefinedColumn, "no file has a column `nothing`").await;
    write_text(&test, "t/4.csv", "5,6\n");
    test.error("SELECT id FROM t", ErrorKind::InvalidDefinition, "names none of the table's columns").await;
    write_text(&test, "d/1.csv", "a,a\n1,2\n");
    test.error(&statement(&test, "d", "", "CSV", ""), ErrorKind::DuplicateColumn, "`a` appears twice").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn line_breaks_in_quotes_are_read() {
    let test = TestEngine::new().await;
    let rows: String = (0..1100).map(|id| format!("{id},\"two\nlines \"\"{id}\"\"\",{}\n", id % 5)).collect();
    write_text(&test, "t/a.csv", &format!("id,t,v\n{rows}"));
    create(&test, "t", "", "CSV", "").await;
    check(&test, "SELECT count(*), sum(v), min(t) FROM t", "1100|2200|two\nlines \"0\"").await;
    let options = "OPTIONS ('format.newlines_in_values' 'true')";
    let listed = statement(&test, "t", "(id BIGINT, t TEXT, v BIGINT)", "CSV", "");
    test.run(&format!("{} {options}", listed.replace("TABLE t", "TABLE listed"))).await;
    check(&test, "SELECT count(*), sum(v) FROM listed", "1100|2200").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fractions_in_json_are_rounded() {
    let test = TestEngine::new().await;
    let text =
        format!("{}{{\"a\":1.9}}\n{{\"a\":-1.9}}\n{{\"b\":[1.5]}}\n", "{\"a\":1,\"b\":[1]}\n".repeat(1200));
    write_text(&test, "t/a.json", &text);
    create(&test, "t", "", "JSON", "").await;
    check(&test, "SELECT max(a), min(a), max(b[1]) FROM t", "2|-2|2").await;
    write_text(&test, "u/a.json", "{\"a\":\"x\"}\n");
    create(&test, "u", "(a BIGINT)", "JSON", "").await;
    test.error("SELECT a FROM u", ErrorKind::InvalidValue, "`x` in column `a` is no integer").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn statistics_hide_no_nan() {
    let test = TestEngine::new().await;
    let numbers = |values: [f64; 3]| {
        [batch!("id" => Int64Array::from(vec![1, 2, 3]), "x" => Float64Array::from(values.to_vec()))]
    };
    test.table("same", &numbers([3.0, f64::NAN, 3.0])).await;
    test.table("few", &numbers([1.0, f64::NAN, 2.0])).await;
    check(&test, "SELECT x FROM same ORDER BY id", "3.0 / NaN / 3.0").await;
    check(&test, "SELECT id FROM same WHERE x <> 3", "2").await;
    check(&test, "SELECT sum(x), max(x), min(x) FROM same", "NaN|NaN|3.0").await;
    check(&test, "SELECT id FROM few WHERE x > 100", "2").await;
    check(&test, "SELECT id FROM few WHERE x = 'NaN'", "2").await;
    check(&test, "SELECT id FROM few ORDER BY x DESC LIMIT 1", "2").await;
    test.run("CREATE DISK STORE s").await;
    test.run("CREATE TABLE l (id BIGINT PRIMARY KEY, x DOUBLE PRECISION)").await;
    test.run(&format!("COPY l FROM '{}'", test.path("same/part-0.parquet").display())).await;
    check(&test, "SELECT x FROM l WHERE id = 2", "NaN").await;
    check(&test, "SELECT id FROM l WHERE x > 100", "2").await;
    test.run("CREATE CUBE c AS SELECT x, count(*) FROM few GROUP BY x").await;
    test.run("BUILD CUBE c").await;
    for _ in 0..2 {
        check(&test, "SELECT x, count(*) FROM few WHERE x > 100 GROUP BY x", "NaN|1").await;
        test.settle().await;
    }
}

/// A file whose writer noted bounds, but not how many values are null.
fn write_without_null_count(path: &Path) {
    let field = Type::primitive_type_builder("x", Physical::INT64).with_repetition(Repetition::OPTIONAL);
    let root = Type::group_type_builder("root").with_fields(vec![Arc::new(field.build().unwrap())]);
    let properties = WriterProperties::builder().set_statistics_enabled(EnabledStatistics::None).build();
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let file = fs::File::create(path).unwrap();
    let mut writer =
        SerializedFileWriter::new(file, Arc::new(root.build().unwrap()), Arc::new(properties)).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    match column.untyped() {
        ColumnWriter::Int64ColumnWriter(typed) => {
            typed
                .write_batch_with_statistics(&[3, 3], Some(&[1, 0, 1]), None, Some(&3), Some(&3), None)
                .unwrap();
        }
        _ => panic!("another type"),
    }
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn statistics_without_a_count_of_nulls_hide_none() {
    let test = TestEngine::new().await;
    write_without_null_count(&test.path("t/a.parquet"));
    create(&test, "t", "", "PARQUET", "").await;
    check(&test, "SELECT x FROM t", "3 / NULL / 3").await;
    check(&test, "SELECT count(*) FROM t WHERE x IS NULL", "1").await;
    check(&test, "SELECT count(x) FROM t", "2").await;
}

/// A file with one column of 12 bytes: an INTERVAL, or times as INT96.
fn write_twelve_bytes(path: &Path, is_interval: bool) {
    let kind = if is_interval { Physical::FIXED_LEN_BYTE_ARRAY } else { Physical::INT96 };
    let field = Type::primitive_type_builder("v", kind).with_repetition(Repetition::OPTIONAL);
    let field = match is_interval {
        true => field.with_length(12).with_converted_type(ConvertedType::INTERVAL),
        false => field,
    };
    let root = Type::group_type_builder("root").with_fields(vec![Arc::new(field.build().unwrap())]);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let file = fs::File::create(path).unwrap();
    let properties = Arc::new(WriterProperties::builder().build());
    let mut writer = SerializedFileWriter::new(file, Arc::new(root.build().unwrap()), properties).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    match column.untyped() {
        ColumnWriter::FixedLenByteArrayColumnWriter(typed) => {
            let bytes: Vec<u8> = [14_u32, 3, 1500].iter().flat_map(|number| number.to_le_bytes()).collect();
            let value = FixedLenByteArray::from(ByteArray::from(bytes));
            typed.write_batch(&[value], Some(&[1, 0]), None).unwrap();
        }
        ColumnWriter::Int96ColumnWriter(typed) => {
            // Days of the Julian calendar: 0001-01-01 and 9999-12-31.
            let values = [1_721_426, 5_373_484].map(|day| Int96::from(vec![0, 0, day]));
            typed.write_batch(&values, Some(&[1, 1]), None).unwrap();
        }
        _ => panic!("another type"),
    }
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn intervals_keep_their_months() {
    let test = TestEngine::new().await;
    write_twelve_bytes(&test.path("t/a.parquet"), true);
    create(&test, "t", "", "PARQUET", "").await;
    check(&test, "SELECT timestamp '2024-01-31' + v FROM t WHERE v IS NOT NULL", "2025-04-03T00:00:01.500")
        .await;
    check(&test, "SELECT count(*), count(v) FROM t", "2|1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_one_table_may_differ() {
    let test = TestEngine::new().await;
    let names: DictionaryArray<Int32Type> = ["x"].into_iter().collect();
    let millis = TimestampMillisecondArray::from(vec![1000]);
    write_parquet(
        &test.path("t/1.parquet"),
        &[
            batch!("a" => Int32Array::from(vec![1]), "f" => Float32Array::from(vec![0.5]), "s" => names, "t" => millis),
        ],
    );
    let micros = TimestampMicrosecondArray::from(vec![2_000_001]);
    write_parquet(
        &test.path("t/2.parquet"),
        &[batch!(
            "t" => micros, "s" => StringArray::from(vec!["y"]), "f" => Float64Array::from(vec![0.1]),
            "a" => Int64Array::from(vec![5_000_000_000]), "more" => Int32Array::from(vec![1])
        )],
    );
    create(&test, "t", "", "PARQUET", "").await;
    let all = "SELECT a, f, s, extract(epoch FROM t), more FROM t ORDER BY 1";
    check(&test, all, "1|0.5|x|1.000000|NULL / 5000000000|0.1|y|2.000001|1").await;
    check(&test, "SELECT s FROM t WHERE a > 4000000000", "y").await;
    check(&test, "SELECT s FROM t WHERE a = 1", "x").await;
    let listed =
        statement(&test, "t", "(a BIGINT, s TEXT)", "PARQUET", "").replace("TABLE t", "TABLE listed");
    test.run(&listed).await;
    check(&test, "SELECT a, s FROM listed ORDER BY 1", "1|x / 5000000000|y").await;
    let narrow = listed.replace("listed (a BIGINT", "narrow (a INT");
    test.run(&narrow).await;
    assert!(test.try_run("SELECT a FROM narrow").await.is_err(), "5000000000 does not fit");
    let cut = listed.replace("listed (a BIGINT, s TEXT)", "cut (f BIGINT)");
    test.error(&cut, ErrorKind::InvalidDefinition, "has no fractions").await;
    write_parquet(&test.path("u/1.parquet"), &[batch!("a" => Int32Array::from(vec![1]))]);
    write_parquet(&test.path("u/2.parquet"), &[batch!("a" => StringArray::from(vec!["x"]))]);
    let sql = statement(&test, "u", "", "PARQUET", "");
    let words = "column `a` is INTEGER in file `1.parquet` and TEXT in file `2.parquet`";
    test.error(&sql, ErrorKind::InvalidDefinition, words).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_columns_of_one_name_are_refused() {
    let test = TestEngine::new().await;
    let fields = [("id", DataType::Int64), ("value", DataType::Utf8), ("value", DataType::Utf8)];
    let fields: Vec<Field> =
        fields.iter().map(|(name, kind)| Field::new(*name, kind.clone(), true)).collect();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(vec![1])),
        Arc::new(StringArray::from(vec!["l"])),
        Arc::new(StringArray::from(vec!["r"])),
    ];
    let rows = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap();
    fs::create_dir_all(test.path("t")).unwrap();
    let file = fs::File::create(test.path("t/a.parquet")).unwrap();
    let mut writer = ArrowWriter::try_new(file, rows.schema(), None).unwrap();
    writer.write(&rows).unwrap();
    writer.close().unwrap();
    let sql = statement(&test, "t", "", "PARQUET", "");
    test.error(&sql, ErrorKind::DuplicateColumn, "column `value` appears twice").await;
    let listed = statement(&test, "t", "(id BIGINT, value TEXT)", "PARQUET", "");
    test.error(&listed, ErrorKind::DuplicateColumn, "column `value` appears twice").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn times_of_all_years_are_read() {
    let test = TestEngine::new().await;
    let (first, last) = (-62_135_596_800_000, 253_402_214_400_000);
    let micros = TimestampMicrosecondArray::from(vec![first * 1000, last * 1000]);
    test.table("micros", &[batch!("t" => micros)]).await;
    test.table("millis", &[batch!("t" => TimestampMillisecondArray::from(vec![first, last]))]).await;
    write_twelve_bytes(&test.path("int96/a.parquet"), false);
    create(&test, "int96", "", "PARQUET", "").await;
    test.run(&statement(&test, "int96", "", "PARQUET", "").replace("TABLE int96", "TABLE again")).await;
    write_text(&test, "csv/a.csv", "t,n\n0001-01-01 00:00:00,1\n9999-12-31 00:00:00,2\n");
    create(&test, "csv", "", "CSV", "").await;
    for (table, column) in [("micros", "t"), ("millis", "t"), ("int96", "v"), ("csv", "t")] {
        let count = format!("SELECT count(*) FROM {table} WHERE {column}");
        check(&test, &format!("{count} >= '9999-12-31'"), "1").await;
        check(&test, &format!("{count} < '0002-01-01'"), "1").await;
        check(&test, &format!("SELECT extract(year FROM max({column})) FROM {table}"), "9999").await;
        test.run(&format!(
            "CREATE CUBE c_{table} AS SELECT date_trunc('day', {column}) AS d, count(*) FROM {table} \
             GROUP BY date_trunc('day', {column})"
        ))
        .await;
        test.run(&format!("BUILD CUBE c_{table}")).await;
    }
}
