//! The page of rewrite rules, shown by files of records: EXPLAIN's output for each example, and that the
//! tables give the same answer.

mod page;
mod record;
mod run;

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, Field, Schema};

use crate::batch;
use crate::cubes::shop_star;
use crate::harness::TestEngine;
use crate::star::repository;
use record::File;

/// The tables that the files may use: a small star, and some for single rules.
async fn tables() -> TestEngine {
    let test = shop_star().await;
    // One country is in two unions, one in none.
    let unions = batch!(
        "land" => StringArray::from(vec![Some("NO"), Some("NO"), Some("FI"), None]),
        "union_name" => StringArray::from(vec!["EEA", "NATO", "EU", "none"]),
    );
    let some_shops = batch!(
        "id" => arrow::array::Int32Array::from(vec![1, 2]),
        "kind" => StringArray::from(vec!["a", "b"]),
    );
    let hours = || (0..3000).map(|i| (i % 11 != 0).then_some(1_640_000_000_000_000 + i * 18_000_000_000));
    let events = batch!(
        "at" => TimestampMicrosecondArray::from_iter(hours()),
        "local" => TimestampMicrosecondArray::from_iter(hours()).with_timezone("Europe/Oslo"),
    );
    test.table("unions", &[unions]).await;
    test.table("some_shops", &[some_shops]).await;
    test.table("events", &[events]).await;
    test.table("lines", &[lines()]).await;
    test
}

/// A table with files that declare that a column is never null.
fn lines() -> RecordBatch {
    let schema = Schema::new(vec![
        Field::new("line", DataType::Int64, false),
        Field::new("kind", DataType::Utf8, true),
    ]);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(vec![1, 2, 3])),
        Arc::new(StringArray::from(vec![Some("a"), None, Some("a")])),
    ];
    RecordBatch::try_new(Arc::new(schema), columns).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_record_is_as_it_says() {
    let mut paths: Vec<_> = std::fs::read_dir(repository("tests/slt/cubes"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "slt"))
        .collect();
    paths.sort();
    let mut wrong = Vec::new();
    for path in &paths {
        wrong.extend(run::run(&File::read(path), &tables().await).await);
    }
    assert!(wrong.is_empty(), "{} records are wrong:\n{}", wrong.len(), wrong.join("\n\n"));
}

#[test]
fn every_line_of_the_page_is_shown() {
    let page = std::fs::read_to_string(repository("docs/reference/rewrite.md")).unwrap();
    let sections = page::sections(&page);
    let rules: usize = sections.iter().map(|section| section.rules.len()).sum();
    assert!(rules > 50, "only {rules} rules were found on the page");
    let folder = repository("tests/slt/cubes");
    let missing: Vec<String> = sections.iter().flat_map(|section| page::missing(section, &folder)).collect();
    assert!(missing.is_empty(), "{} lines lack records:\n{}", missing.len(), missing.join("\n"));
}
