//! CHECK CUBE: its report on a sound cube, and the damage it finds.

use std::fs::File;
use std::path::{Path, PathBuf};

use arrow::array::{Date32Array, Int32Array, Int64Array, StringArray};
use nyala_engine::ErrorKind;

use crate::batch;
use crate::cubes::{CUBE, shop_star};
use crate::harness::{TestEngine, write_parquet};

/// 60 days from 2024-01-01 on, of three shops; `from` makes other amounts of the same width.
fn sales(from: i64) -> arrow::array::RecordBatch {
    let n = 600;
    batch!(
        "day" => Date32Array::from_iter_values((0..n).map(|n| 19_723 + n / 10)),
        "shop" => StringArray::from_iter((0..n).map(|n| (n % 7 != 0).then(|| format!("shop {}", n % 3)))),
        "kind" => Int32Array::from_iter_values((0..n).map(|n| n % 4)),
        "amount" => Int64Array::from_iter_values((0..n).map(|n| from + i64::from(n))),
    )
}

async fn built(partition: &str) -> TestEngine {
    let test = TestEngine::new().await;
    test.table("sales", &[sales(1000)]).await;
    test.run(&format!(
        "CREATE CUBE c {partition} AS SELECT shop, kind, sum(amount), count(*) FROM sales GROUP BY CUBE (shop, kind)"
    ))
    .await;
    test.run("BUILD CUBE c").await;
    test
}

/// Results of one kind of check.
async fn results(test: &TestEngine, statement: &str, check: &str) -> Vec<String> {
    let rows = test.run(statement).await;
    rows.into_iter().filter(|row| row[0] == check).map(|row| row[3].clone()).collect()
}

fn cuboid_files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(cuboid_files(&path));
        } else {
            files.push(path);
        }
    }
    files.sort();
    files
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sound_cube_passes() {
    let test = shop_star().await;
    test.run(CUBE).await;
    let unbuilt = test.run("CHECK CUBE shop_sales").await;
    assert_eq!((unbuilt.len(), unbuilt[0][3].as_str()), (1, "stale"), "{unbuilt:?}");
    test.run("BUILD CUBE shop_sales").await;
    let rows = test.run("CHECK CUBE shop_sales SAMPLE 60").await;
    assert!(rows.iter().all(|row| row[3] == "ok"), "{rows:?}");
    let answers: Vec<_> = rows.iter().filter(|row| row[0] == "answer").collect();
    assert_eq!(answers.len(), 60);
    // Groups and filters vary, and null is asked for as well as values.
    assert!(answers.iter().any(|row| row[4].contains(" = ")), "{answers:?}");
    assert!(answers.iter().any(|row| row[4].starts_with("by ()")), "{answers:?}");
    assert!(answers.iter().any(|row| !row[4].starts_with("by ()")), "{answers:?}");
    assert_eq!(results(&test, "CHECK CUBE shop_sales", "answer").await.len(), 20);
    assert_eq!(results(&test, "CHECK CUBE shop_sales SAMPLE 0", "answer").await.len(), 0);
    test.error("CHECK CUBE nothing", ErrorKind::UndefinedTable, "`public.nothing` does not exist").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn segments_are_checked_one_by_one() {
    let test = built("PARTITION BY RANGE (day) EVERY INTERVAL '1 month'").await;
    let rows = test.run("CHECK CUBE c SAMPLE 160").await;
    assert!(rows.iter().all(|row| row[3] == "ok"), "{rows:?}");
    assert_eq!(rows.iter().filter(|row| row[0] == "file").count(), 2);
    for range in ["[2024-01-01, 2024-02-01)", "[2024-02-01, 2024-03-01)"] {
        assert!(rows.iter().any(|row| row[0] == "answer" && row[4].contains(range)), "{range}: {rows:?}");
    }
    assert!(rows.iter().any(|row| row[4].contains("shop is null")), "{rows:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_are_gone_or_cut_are_named() {
    let test = built("").await;
    let files = cuboid_files(&test.path("data/cubes"));
    assert!(files.len() >= 4, "{files:?}");
    std::fs::remove_file(&files[0]).unwrap();
    let length = std::fs::metadata(&files[1]).unwrap().len();
    File::options().write(true).open(&files[1]).unwrap().set_len(length - 1).unwrap();
    // The file has the right length, but is no Parquet.
    std::fs::write(&files[2], vec![0; usize::try_from(std::fs::metadata(&files[2]).unwrap().len()).unwrap()])
        .unwrap();
    let rows = test.run("CHECK CUBE c SAMPLE 0").await;
    let wrong: Vec<_> = rows.iter().filter(|row| row[0] == "file").collect();
    assert_eq!(wrong.len(), 3, "{rows:?}");
    for (file, words) in
        [(&files[0], "it is missing"), (&files[1], "bytes, but"), (&files[2], "the checksum of its footer")]
    {
        let name = file.file_name().unwrap().to_str().unwrap();
        let found = wrong.iter().filter(|row| row[4].contains(name)).collect::<Vec<_>>();
        assert!(
            found.iter().any(|row| row[3] == "damaged" && row[4].contains(words) && row[2].starts_with('(')),
            "{name}: {rows:?}"
        );
    }
    let test = test.reopen().await;
    // The cube answers no query until it is built again.
    assert_eq!(test.run("SHOW SEGMENTS").await[0][4], "damaged");
    test.check_miss("SELECT sum(amount) FROM sales", "is damaged: ").await;
    assert!(results(&test, "CHECK CUBE c", "answer").await.is_empty());
    test.run("BUILD CUBE c").await;
    let rows = test.run("CHECK CUBE c").await;
    assert!(rows.iter().all(|row| row[3] == "ok"), "{rows:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn other_source_files_make_it_stale() {
    let test = built("").await;
    write_parquet(&test.path("sales/more.parquet"), &[sales(7)]);
    assert_eq!(results(&test, "CHECK CUBE c", "source").await, ["stale"]);
    assert!(results(&test, "CHECK CUBE c", "answer").await.is_empty());
    std::fs::remove_dir_all(test.path("sales")).unwrap();
    let sources = results(&test, "CHECK CUBE c", "source").await;
    assert!(sources.iter().all(|result| result != "ok"), "{sources:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_changed_unseen_make_answers_differ() {
    let test = built("").await;
    let path = test.path("sales/part-0.parquet");
    let before = std::fs::metadata(&path).unwrap();
    write_parquet(&path, &[sales(2000)]);
    assert_eq!(std::fs::metadata(&path).unwrap().len(), before.len(), "the file must look the same");
    File::options().write(true).open(&path).unwrap().set_modified(before.modified().unwrap()).unwrap();
    assert_eq!(results(&test, "CHECK CUBE c", "source").await, ["ok"]);
    let rows = test.run("CHECK CUBE c").await;
    let answers: Vec<_> = rows.iter().filter(|row| row[0] == "answer").collect();
    assert!(answers.iter().all(|row| row[3] == "differs"), "{answers:?}");
    assert!(answers.iter().all(|row| row[4].contains("the cube says")), "{answers:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_check_ends_with_its_time() {
    let test = built("").await;
    test.run("SET statement_timeout = 300").await;
    test.error("CHECK CUBE c SAMPLE 1000000", ErrorKind::Timeout, "statement_timeout").await;
}
