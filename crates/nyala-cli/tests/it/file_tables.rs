//! Files in the place of tables, and COPY TO files.

use std::fs;

use arrow::array::{Float64Array, Int64Array, StringArray};
use nyala_engine::ErrorKind;

use crate::batch;
use crate::harness::{TestEngine, write_parquet};

async fn check(test: &TestEngine, sql: &str, expected: &str) {
    let rows = test.run(sql).await;
    let shown: Vec<String> = rows.iter().map(|row| row.join("|")).collect();
    assert_eq!(shown.join(" / "), expected, "{sql}");
}

/// An engine over a folder `in` with some files, and the path of the folder.
async fn some_files() -> (TestEngine, String) {
    let test = TestEngine::new().await;
    let rows = |ids: Vec<i64>| [batch!("id" => Int64Array::from(ids))];
    write_parquet(&test.path("in/a1.parquet"), &rows(vec![1, 2]));
    write_parquet(&test.path("in/a2.parquet"), &rows(vec![3]));
    write_parquet(&test.path("in/year=2024/m=01/b.parquet"), &rows(vec![4]));
    write_parquet(&test.path("in/year=2025/m=02/b.parquet"), &rows(vec![5]));
    fs::write(test.path("in/t.csv"), "id,name\n1,x\n2,y\n").unwrap();
    fs::write(test.path("in/t.txt"), "1;x\n2;y\n").unwrap();
    fs::write(test.path("in/t.json"), "{\"id\":1,\"name\":\"x\"}\n").unwrap();
    let folder = test.path("in").display().to_string();
    (test, folder)
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_read_in_the_place_of_tables() {
    let (test, at) = some_files().await;
    check(&test, &format!("SELECT sum(id) FROM '{at}/a1.parquet'"), "3").await;
    check(&test, &format!("SELECT a1.id FROM '{at}/a1.parquet' WHERE a1.id > 1"), "2").await;
    check(&test, &format!("SELECT sum(id) FROM '{at}/*.parquet'"), "6").await;
    check(&test, &format!("SELECT sum(id) FROM read_parquet('{at}/**/*.parquet')"), "15").await;
    let partitions = format!("SELECT id, year, m FROM '{at}/*/*/b.parquet' WHERE year > 2024");
    check(&test, &partitions, "5|2025|2").await;
    check(
        &test,
        &format!("SELECT count(*) FROM read_parquet('{at}/*/*/b.parquet', hive_partitioning => false)"),
        "2",
    )
    .await;
    check(&test, &format!("SELECT name FROM '{at}/t.csv' ORDER BY id DESC"), "y / x").await;
    let joined = format!("SELECT f.name FROM '{at}/t.json' f JOIN '{at}/a[12].parquet' p ON p.id = f.id");
    check(&test, &joined, "x").await;
    let text = format!(
        "SELECT column_2 FROM read_csv('{at}/t.txt', delim = ';', header = false) WHERE column_1 = 2"
    );
    check(&test, &text, "y").await;
    let within = format!("WITH w AS (SELECT * FROM '{at}/a2.parquet') SELECT (SELECT max(id) FROM w)");
    check(&test, &within, "3").await;
    let described = test.run(&format!("DESCRIBE '{at}/t.csv'")).await;
    assert_eq!(described.iter().map(|row| row[0].as_str()).collect::<Vec<_>>(), ["id", "name"]);
    let described = test.run(&format!("DESCRIBE SELECT name AS n FROM '{at}/t.csv'")).await;
    assert_eq!(described[0][0], "n");
    let shown = test.run(&format!("EXPLAIN SELECT * FROM '{at}/a1.parquet'")).await;
    assert!(shown.iter().any(|row| row[1].contains("a1.parquet")), "{shown:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn new_files_are_found_each_time() {
    let (test, at) = some_files().await;
    let sql = format!("SELECT count(*) FROM '{at}/*.parquet'");
    let prepared = test.session.prepare(crate::harness::parsed(&test.session, &sql)).await.unwrap();
    check(&test, &sql, "3").await;
    write_parquet(&test.path("in/a3.parquet"), &[batch!("id" => Int64Array::from(vec![9]))]);
    check(&test, &sql, "4").await;
    let nyala_engine::Answer::Rows(rows) = test.session.execute(&prepared, Vec::new()).await.unwrap() else {
        panic!("no rows")
    };
    assert_eq!(crate::harness::rows_of(&rows.collect().await.unwrap()), [["4"]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_file_is_told() {
    let (test, at) = some_files().await;
    for (sql, kind, words) in [
        (format!("SELECT * FROM '{at}/none.parquet'"), ErrorKind::Unreadable, "does not exist"),
        (format!("SELECT * FROM '{at}/none*.parquet'"), ErrorKind::Unreadable, "no readable file"),
        (format!("SELECT * FROM '{at}/t.txt'"), ErrorKind::InvalidDefinition, "read_csv('…')"),
        (format!("SELECT * FROM read_csv('{at}/t.txt', skip => 1)"), ErrorKind::Unsupported, "`skip`"),
        ("SELECT * FROM read_csv()".to_owned(), ErrorKind::InvalidText, "the location of files"),
        (format!("SELECT * FROM '{at}/../data/catalog.json'"), ErrorKind::PermissionDenied, ""),
    ] {
        test.error(&sql, kind, words).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_copied_to_files() {
    let (test, at) = some_files().await;
    let values = batch!(
        "id" => Int64Array::from(vec![1, 2]),
        "x" => Float64Array::from(vec![Some(f64::NAN), None]),
        "name" => StringArray::from(vec!["a,\"b\"\nc", ""]),
    );
    test.table("things", &[values]).await;
    for target in ["out.parquet", "out.json", "out.csv", "new/deep/out.csv"] {
        let target = format!("{at}/{target}");
        test.run(&format!(
            "COPY (SELECT id, name, 1.50 AS n, DATE '9999-12-31' AS d FROM things ORDER BY id) TO '{target}'"
        ))
        .await;
        check(&test, &format!("SELECT count(*), sum(id), max(d) FROM '{target}'"), "2|3|9999-12-31").await;
        check(&test, &format!("SELECT name FROM '{target}' WHERE id = 1"), "a,\"b\"\nc").await;
    }
    test.run(&format!("COPY things (id, x) TO '{at}/out.csv' (FORMAT csv, HEADER false, DELIMITER ';')"))
        .await;
    assert_eq!(fs::read_to_string(test.path("in/out.csv")).unwrap(), "1;NaN\n2;\n");
    test.run(&format!("COPY (SELECT id FROM things WHERE id > 5) TO '{at}/none.csv'")).await;
    assert_eq!(fs::read_to_string(test.path("in/none.csv")).unwrap(), "id\n");
    for (target, options, expected) in [
        ("null.csv", "", "a,b,c\n\"\",,NA\n"),
        ("null.csv", "(FORMAT csv, NULL 'NA')", "a,b,c\n,NA,\"NA\"\n"),
        ("NULL.TSV", "", "a\tb\tc\n\"\"\t\tNA\n"),
    ] {
        test.run(&format!("COPY (SELECT '' AS a, NULL AS b, 'NA' AS c) TO '{at}/{target}' {options}")).await;
        let path = test.path("in").join(target);
        assert_eq!(fs::read_to_string(path).unwrap(), expected, "{options}");
    }
    check(&test, &format!("SELECT c FROM '{at}/NULL.TSV'"), "NA").await;
    test.run(&format!("COPY (SELECT * FROM '{at}/t.csv') TO '{at}/t.parquet' (COMPRESSION snappy)")).await;
    check(&test, &format!("SELECT count(*) FROM '{at}/t.parquet'"), "2").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_fails_leaves_nothing() {
    let (test, at) = some_files().await;
    fs::write(test.path("in/kept.csv"), "as it was").unwrap();
    let fails = format!("COPY (SELECT 1 / (id - 3) FROM '{at}/a*.parquet' ORDER BY id) TO '{at}/kept.csv'");
    test.error(&fails, ErrorKind::DivisionByZero, "").await;
    assert_eq!(fs::read_to_string(test.path("in/kept.csv")).unwrap(), "as it was");
    let data = test.path("data").display().to_string();
    for (target, kind) in [
        (format!("{data}/rows.csv"), ErrorKind::PermissionDenied),
        (format!("{data}/cubes/rows.csv"), ErrorKind::PermissionDenied),
        (format!("{data}/catalog.csv"), ErrorKind::PermissionDenied),
        ("/proc/rows.csv".to_owned(), ErrorKind::PermissionDenied),
        (format!("{at}/"), ErrorKind::InvalidDefinition),
        (format!("{at}/rows.txt"), ErrorKind::InvalidDefinition),
    ] {
        let sql = format!("COPY (SELECT 1 AS a) TO '{target}'");
        let error = test.try_run(&sql).await.unwrap_err();
        assert_eq!(error.kind, kind, "{sql}: {error}");
    }
    for (target, options, kind) in [
        ("a.csv.gz", "", ErrorKind::Unsupported),
        ("a.csv", "(QUOTE ',')", ErrorKind::InvalidParameter),
        ("a.csv", "(NULL 'a,b')", ErrorKind::InvalidParameter),
    ] {
        test.error(&format!("COPY (SELECT 1 AS a) TO '{at}/{target}' {options}"), kind, "").await;
    }
    test.error(
        &format!("COPY (SELECT 1 AS a, 2 AS a) TO '{at}/a.parquet'"),
        ErrorKind::DuplicateColumn,
        "appears twice",
    )
    .await;
    let left: Vec<_> =
        fs::read_dir(test.path("in")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().contains('#')), "{left:?}");
}

/// Types that are guessed from rows would change the values.
#[tokio::test(flavor = "multi_thread")]
async fn files_of_texts_are_loaded_as_their_table_has_them() {
    let (test, at) = some_files().await;
    test.run("CREATE TABLE places (id BIGINT PRIMARY KEY, zip TEXT, price NUMERIC(20, 2), yes BOOLEAN)")
        .await;
    let csv = "id,zip,price,yes\n1,00123,12345678901234567.89,true\n2,1e3,0.10,no\n";
    fs::write(test.path("in/places.csv"), csv).unwrap();
    let json = "{\"id\":3,\"zip\":1.50,\"price\":12345678901234567.89,\"yes\":true}\n{\"id\":4.4,\"zip\":\"x\",\"price\":2}\n";
    fs::write(test.path("in/places.json"), json).unwrap();
    fs::write(test.path("in/PLACES.TSV"), "id\tzip\n5\t007\n").unwrap();
    for copy in [
        "places FROM '{at}/places.csv'",
        "places FROM '{at}/places.json'",
        "places (id, zip) FROM '{at}/PLACES.TSV'",
    ] {
        test.run(&format!("COPY {}", copy.replace("{at}", &at))).await;
    }
    let all = "1|00123|12345678901234567.89|true / 2|1e3|0.10|false / 3|1.50|12345678901234567.89|true / \
               4|x|2.00|NULL / 5|007|NULL|NULL";
    check(&test, "SELECT id, zip, price, yes FROM places ORDER BY id", all).await;
}
