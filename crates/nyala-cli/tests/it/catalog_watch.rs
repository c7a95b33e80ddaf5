//! Two processes with one catalog: each sees what the other commits.

use std::time::{Duration, Instant};

use nyala_catalog::{Catalog, Change};

use crate::harness::TestEngine;

/// A generous limit: the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread")]
async fn statements_see_what_another_process_commits() {
    let test = TestEngine::new().await;
    let other = Catalog::open_sqlite(&test.path("data").join("catalog.sqlite")).await.unwrap();
    let create = Change::CreateSchema { name: "elsewhere".to_owned(), if_not_exists: false };
    other.commit(create).await.unwrap();
    let sql = "SELECT count(*) FROM information_schema.schemata WHERE schema_name = 'elsewhere'";
    let started = Instant::now();
    while test.run(sql).await != [["1"]] {
        assert!(started.elapsed() < PATIENCE, "the schema is not seen");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    test.run("DROP SCHEMA elsewhere").await;
    other.refresh().await.unwrap();
    assert!(!other.snapshot().schemas.contains("elsewhere"));
}
