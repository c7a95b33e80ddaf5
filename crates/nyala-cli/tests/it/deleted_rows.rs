//! Deletion vectors of Delta tables whose log does not tell the truth. Tables of other programs are read by
//! `tests/compat/delta_tables.py`.

use std::fs;

use arrow::array::Int64Array;
use nyala_engine::ErrorKind;
use serde_json::json;

use crate::batch;
use crate::harness::{TestEngine, write_parquet};

/// Rows 1 and 3, as a log holds them: a 64-bit Roaring bitmap behind Delta's magic number, in Z85.
const ROWS_1_AND_3: &str = "^Bg9^0rr910000000000iXQKl0rr91000315c8Xg0rri4";

/// A table of one file with the ids 0 to 4, rows 1 and 3 of which are deleted; the log tells these numbers of rows.
async fn create(test: &TestEngine, name: &str, deleted: u64, rows: Option<u64>) {
    let ids = Int64Array::from_iter_values(0..5);
    write_parquet(&test.path(&format!("{name}/a.parquet")), &[batch!("id" => ids)]);
    let schema = json!({"type": "struct", "fields": [
        {"name": "id", "type": "long", "nullable": true, "metadata": {}}
    ]});
    let features = ["deletionVectors"];
    let vector = json!({"storageType": "i", "pathOrInlineDv": ROWS_1_AND_3, "sizeInBytes": 36, "cardinality": deleted});
    let actions = [
        json!({"protocol": {
            "minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features, "writerFeatures": features
        }}),
        json!({"metaData": {
            "id": name, "format": {"provider": "parquet", "options": {}}, "schemaString": schema.to_string(),
            "partitionColumns": [], "configuration": {}
        }}),
        json!({"add": {
            "path": "a.parquet", "partitionValues": {}, "modificationTime": 1000, "dataChange": true,
            "size": fs::metadata(test.path(&format!("{name}/a.parquet"))).unwrap().len(),
            "stats": rows.map(|rows| json!({"numRecords": rows}).to_string()), "deletionVector": vector
        }}),
    ];
    let log = test.path(&format!("{name}/_delta_log"));
    fs::create_dir_all(&log).unwrap();
    let lines: Vec<String> = actions.iter().map(ToString::to_string).collect();
    fs::write(log.join(format!("{:020}.json", 0)), lines.join("\n")).unwrap();
}

fn statement(test: &TestEngine, name: &str) -> String {
    format!("CREATE EXTERNAL TABLE {name} STORED AS DELTA LOCATION '{}/'", test.path(name).display())
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_rows_are_counted_before_they_are_used() {
    let test = TestEngine::new().await;
    create(&test, "exact", 2, Some(5)).await;
    test.run(&statement(&test, "exact")).await;
    assert_eq!(test.run("SELECT sum(id), count(*) FROM exact").await, [["6", "3"]]);
    for (name, deleted, rows, expected) in [
        ("many", 1 << 40, Some(5), "has more deleted rows than rows"),
        ("other", 1, Some(5), "has another number of deleted rows than the log tells"),
        ("behind", 2, Some(3), "has deleted rows behind its last one"),
        ("unknown", 2, None, "does not tell its number of rows"),
    ] {
        create(&test, name, deleted, rows).await;
        test.error(&statement(&test, name), ErrorKind::Unreadable, expected).await;
    }
}
