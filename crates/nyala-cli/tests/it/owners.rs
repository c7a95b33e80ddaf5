//! Entries of the catalog that belong to another node: this one leaves them alone.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use nyala_catalog::{Change, NewTable};
use nyala_model::{DiskStoreEntry, JobKind, JobState, LiveSource, NodeId, QualifiedName, TableSource};

use crate::harness::TestEngine;
use crate::program::PATIENCE;

fn elsewhere() -> NodeId {
    NodeId("elsewhere".to_owned())
}

/// Cube `c` over a live table, not built.
async fn cube() -> TestEngine {
    let test = TestEngine::new().await;
    test.run("CREATE LIVE TABLE f (id BIGINT PRIMARY KEY, a BIGINT)").await;
    test.run("INSERT INTO f VALUES (1, 2)").await;
    test.run("CREATE CUBE c AS SELECT sum(a) FROM f GROUP BY id").await;
    test
}

/// Waits until no node holds a lease: leases are given back behind the statement that held them.
async fn wait_for_release(test: &TestEngine) {
    let begun = Instant::now();
    while !test.engine.catalog().leases().await.unwrap().is_empty() {
        assert!(begun.elapsed() < PATIENCE, "the lease is not given back");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_fails_the_jobs_of_its_own_node_only() {
    let test = TestEngine::new().await;
    let (catalog, cube) = (test.engine.catalog(), QualifiedName::new("public", "c"));
    for node in [elsewhere(), NodeId::default()] {
        catalog.create_job(JobKind::Build, &cube, 1, &node, 1).await.unwrap();
    }
    let test = test.reopen().await;
    let jobs = test.engine.catalog().jobs().await.unwrap();
    let states: Vec<(&str, JobState)> = jobs.iter().map(|job| (job.node.0.as_str(), job.state)).collect();
    assert_eq!(states, [("", JobState::Failed), ("elsewhere", JobState::Running)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_node_at_a_time_builds_a_cube() {
    let test = cube().await;
    let catalog = test.engine.catalog();
    let cube = catalog.snapshot().cubes.values().next().unwrap().clone();
    let lease = catalog.take_lease(&format!("cube {}", cube.id), &elsewhere()).await.unwrap().unwrap();
    let begin = Change::BeginSegment {
        cube: cube.id,
        revision: cube.definition.revision,
        location: format!("cubes/{}/far/", cube.id),
        range: nyala_model::SegmentRange::Whole,
        sources: Vec::new(),
        node: elsewhere(),
    };
    catalog.commit_under(std::slice::from_ref(lease.fence()), begin).await.unwrap();
    let error = test.try_run("BUILD CUBE c").await.unwrap_err();
    assert!(
        error.to_string().contains("cube `public.c` is being built or altered on another node"),
        "{error}"
    );
    let fence = lease.fence().clone();
    drop(lease);
    wait_for_release(&test).await;
    // The other node's lease on the cube has ended.
    test.run("BUILD CUBE c").await;
    let made = catalog.snapshot().cubes.values().next().unwrap().segments.clone();
    let node = std::fs::read_to_string(test.path("data").join("node")).unwrap();
    assert!(made.iter().all(|segment| segment.node.0 == node && !node.is_empty()));
    let late = Change::DropSegment { segment: made[0].id };
    let late = catalog.commit_under(std::slice::from_ref(&fence), late).await.unwrap_err();
    assert!(late.to_string().contains("of this node ended"), "{late}");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_another_node_adds_to_a_segment_are_not_left_over() {
    let test = cube().await;
    test.run("BUILD CUBE c").await;
    let catalog = test.engine.catalog();
    let cube = catalog.snapshot().cubes.values().next().unwrap().clone();
    let folder = test.path("data").join(&cube.segments[0].location);
    let recorded: Vec<PathBuf> =
        std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path()).collect();
    assert!(!recorded.is_empty());
    let (added, unknown) = (folder.join("added.parquet"), folder.with_file_name("unknown"));
    std::fs::write(&added, "of a cuboid that is not recorded yet").unwrap();
    std::fs::create_dir(&unknown).unwrap();
    std::fs::write(unknown.join("a.parquet"), "of no segment").unwrap();

    wait_for_release(&test).await;
    let lease = catalog.take_lease(&format!("cube {}", cube.id), &elsewhere()).await.unwrap().unwrap();
    test.engine.collect_leftovers(Duration::ZERO).await.unwrap();
    assert!(added.exists());
    assert!(!unknown.join("a.parquet").exists());

    drop(lease);
    wait_for_release(&test).await;
    test.engine.collect_leftovers(Duration::ZERO).await.unwrap();
    assert!(!added.exists());
    assert!(recorded.iter().all(|file| file.exists()), "{recorded:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_node_at_a_time_looks_for_leftovers() {
    let test = cube().await;
    test.run("BUILD CUBE c").await;
    let catalog = test.engine.catalog();
    let location = catalog.snapshot().cubes.values().next().unwrap().segments[0].location.clone();
    let unneeded = test.path("data").join(location).join("unneeded.parquet");
    std::fs::write(&unneeded, "").unwrap();
    let lease = catalog.take_lease("leftovers", &elsewhere()).await.unwrap().unwrap();
    test.engine.collect_leftovers(Duration::ZERO).await.unwrap();
    assert!(unneeded.exists());
    drop(lease);
    wait_for_release(&test).await;
    test.engine.collect_leftovers(Duration::ZERO).await.unwrap();
    assert!(!unneeded.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_store_of_another_node_is_not_made_here() {
    let test = TestEngine::new().await;
    test.run("CREATE LIVE TABLE near (id BIGINT PRIMARY KEY)").await;
    let catalog = test.engine.catalog();
    let near = catalog.snapshot().tables.values().next().unwrap().clone();
    let store = DiskStoreEntry {
        name: "far".to_owned(),
        folder: "stores/far".to_owned(),
        options: Default::default(),
        leftovers: Default::default(),
        node: elsewhere(),
    };
    let table = NewTable {
        name: QualifiedName::new("public", "far"),
        source: TableSource::Live(LiveSource { store: "far".to_owned(), ..near.live().unwrap().clone() }),
        schema_ipc: near.schema_ipc.clone(),
        definition: String::new(),
    };
    catalog.commit(Change::CreateDiskStore { store, if_not_exists: false }).await.unwrap();
    catalog.commit(Change::CreateTable { table, if_not_exists: false }).await.unwrap();
    // The error is the same while the engine runs, and after a new start.
    let check = async |test: &TestEngine| {
        for sql in ["SELECT count(*) FROM far", "INSERT INTO far VALUES (1)"] {
            let error = test.try_run(sql).await.unwrap_err();
            assert!(error.to_string().contains("disk store `far` is of node `elsewhere`"), "{sql}: {error}");
        }
        assert_eq!(test.run("SELECT count(*) FROM near").await, [["0"]]);
        assert!(!test.path("data").join("stores/far").exists());
    };
    test.run("CREATE SCHEMA other").await;
    check(&test).await;
    check(&test.reopen().await).await;
}

/// Two nodes make their first live tables at once, and one of them makes the store that both want.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_another_node_has_made_a_moment_ago_is_found() {
    let test = TestEngine::new().await;
    let store = DiskStoreEntry {
        name: "main".to_owned(),
        folder: "stores/main".to_owned(),
        options: Default::default(),
        leftovers: Default::default(),
        node: elsewhere(),
    };
    // The store is in the catalog, and not yet among the stores that statements find.
    test.engine.catalog().commit(Change::CreateDiskStore { store, if_not_exists: false }).await.unwrap();
    let error = test.try_run("CREATE LIVE TABLE t (id BIGINT PRIMARY KEY)").await.unwrap_err();
    assert!(error.to_string().contains("disk store `main` is of node `elsewhere`"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_another_node_has_open_is_not_dropped_here() {
    let test = TestEngine::new().await;
    let store = DiskStoreEntry {
        name: "far".to_owned(),
        folder: "stores/far".to_owned(),
        options: Default::default(),
        leftovers: Default::default(),
        node: elsewhere(),
    };
    let catalog = test.engine.catalog();
    catalog.commit(Change::CreateDiskStore { store, if_not_exists: false }).await.unwrap();
    let error = test.try_run("DROP DISK STORE far").await.unwrap_err();
    assert!(error.to_string().contains("disk store `far` is of node `elsewhere`"), "{error}");
    assert!(catalog.snapshot().disk_stores.contains_key("far"));
}
