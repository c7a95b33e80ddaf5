//! Builds and cuboids in unexpected situations: states of another version, files that become something
//! else, a rebuild right after one that failed.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{Array, ArrayRef, BinaryArray, Int64Array, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use nyala_catalog::Change;
use nyala_engine::ErrorKind;
use nyala_model::{CubeDefinition, CubeEntry, CuboidFile, DimensionMoves};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use crate::batch;
use crate::harness::{TestEngine, write_cuboid, write_parquet};
use crate::program::{PATIENCE, eventually};

fn rows(count: i64) -> RecordBatch {
    batch!(
        "shop" => Int64Array::from_iter_values((0..count).map(|n| n % 5)),
        "buyer" => Int64Array::from_iter_values((0..count).map(|n| n * 7919 % 100_003)),
        "amount" => Int64Array::from_iter_values(0..count),
    )
}

const CUBE: &str = "CREATE CUBE c AS SELECT shop, buyer % 1000 AS part, bitmap_distinct(buyer), sum(amount) \
                    FROM sales GROUP BY GROUPING SETS ((shop), (shop, part), (part), ())";
const DISTINCT: &str = "SELECT shop, bitmap_distinct(buyer) FROM sales GROUP BY shop";
const SUM: &str = "SELECT shop, sum(amount) FROM sales GROUP BY shop";

async fn sales(count: i64) -> TestEngine {
    let test = TestEngine::new().await;
    test.table("sales", &[rows(count)]).await;
    test.run(CUBE).await;
    test
}

fn cube(test: &TestEngine) -> Arc<CubeEntry> {
    Arc::clone(test.engine.catalog().snapshot().cubes.values().next().unwrap())
}

/// Has the engine open the newest snapshot of the catalog, as every statement does that changes it.
async fn reopen_snapshot(test: &TestEngine) {
    test.run("CREATE SCHEMA other").await;
}

/// A state version in the catalog that this version does not know: its states are never read.
#[tokio::test(flavor = "multi_thread")]
async fn a_state_version_that_is_not_known_is_never_read() {
    let test = sales(1000).await;
    test.run("BUILD CUBE c").await;
    test.check_hit(DISTINCT).await;
    let entry = cube(&test);
    let mut definition: CubeDefinition = entry.definition.clone();
    definition.revision += 1;
    definition.measures[0].state_version = 99;
    let change = Change::AlterCube {
        cube: entry.id,
        statement: entry.statement.clone(),
        moves: DimensionMoves((0..definition.dimensions.len()).map(Some).collect()),
        definition: Box::new(definition),
        answered: true,
    };
    test.engine.catalog().commit(change).await.unwrap();
    reopen_snapshot(&test).await;
    for query in [DISTINCT, SUM] {
        test.check_miss(query, "stores states or types differently; drop, create and rebuild it").await;
    }
    test.error("BUILD CUBE c", ErrorKind::InvalidDefinition, "stores states or types differently").await;
    test.error("ALTER CUBE c ADD MEASURE max(amount)", ErrorKind::InvalidDefinition, "stores states").await;
    test.run("DROP CUBE c").await;
    test.run(CUBE).await;
    test.run("BUILD CUBE c").await;
    test.check_hit(DISTINCT).await;
}

/// A file with states of a version that differs from the version in the catalog.
#[tokio::test(flavor = "multi_thread")]
async fn a_state_of_an_unknown_layout_ends_in_an_error_that_names_it() {
    let test = sales(1000).await;
    test.run("BUILD CUBE c").await;
    let entry = cube(&test);
    let segment = &entry.segments[0];
    let begin = Change::BeginSegment {
        cube: entry.id,
        revision: entry.definition.revision,
        location: segment.location.clone(),
        range: segment.range,
        sources: segment.sources.clone(),
        node: segment.node.clone(),
    };
    let catalog = test.engine.catalog();
    let copy = catalog.commit(begin).await.unwrap().segment.unwrap();
    for cuboid in &segment.cuboids {
        let mut cuboid = cuboid.clone();
        for file in &mut cuboid.files {
            *file = tampered(&test.path("data").join(&segment.location), file);
        }
        catalog.commit(Change::AddCuboid { segment: copy, cuboid }).await.unwrap();
    }
    let publish = Change::PublishSegment {
        segment: copy,
        source_rows: segment.source_rows,
        built_at_ms: segment.built_at_ms,
        droppable_joins: segment.droppable_joins.clone(),
        key_bounds: segment.key_bounds,
    };
    catalog.commit(publish).await.unwrap();
    reopen_snapshot(&test).await;
    test.error(DISTINCT, ErrorKind::Data, "version `99`").await;
    // Other measures, other doors and the tables are not concerned.
    test.check_hit(SUM).await;
    let findings = test.run("CHECK CUBE c SAMPLE 8").await;
    assert!(
        findings.iter().any(|row| row[3] == "unreadable" && row[4].contains("version `99`")),
        "{findings:?}"
    );
    test.run("SET nyala.use_cubes = off").await;
    assert_eq!(test.run(DISTINCT).await.len(), 5);
    test.run("SET nyala.use_cubes = on").await;
    test.run("REFRESH CUBE c").await;
    test.check_hit(DISTINCT).await;
}

/// Copies the file under another name, with an unknown version of states.
fn tampered(folder: &Path, file: &CuboidFile) -> CuboidFile {
    let read = std::fs::File::open(folder.join(&file.name)).unwrap();
    let reader = ParquetRecordBatchReaderBuilder::try_new(read).unwrap().build().unwrap();
    let batches: Vec<RecordBatch> = reader.map(|batch| with_another_version(&batch.unwrap())).collect();
    write_cuboid(folder, &format!("other-{}", file.name), &batches)
}

fn with_another_version(batch: &RecordBatch) -> RecordBatch {
    let columns = batch.columns().iter().map(|column| -> ArrayRef {
        if !matches!(column.data_type(), DataType::Binary | DataType::BinaryView | DataType::LargeBinary) {
            return Arc::clone(column);
        }
        let states = cast(column, &DataType::Binary).unwrap();
        let tampered = states
            .as_any()
            .downcast_ref::<BinaryArray>()
            .unwrap()
            .iter()
            .map(|state| state.map(|state| [&[99], &state[1..]].concat()));
        cast(&BinaryArray::from_iter(tampered), column.data_type()).unwrap()
    });
    RecordBatch::try_new(batch.schema(), columns.collect()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_becomes_something_else_while_it_is_read_fails_the_build() {
    let test = sales(3_000_000).await;
    let file = test.path("sales/part-0.parquet");
    let (kept, text, texts) = (test.path("kept"), test.path("text"), test.path("texts.parquet"));
    std::fs::copy(&file, &kept).unwrap();
    std::fs::write(&text, "shop,buyer,amount\n1,2,3\n".repeat(1000)).unwrap();
    let shops = StringArray::from_iter_values((0..1000).map(|n| format!("shop {n}")));
    write_parquet(&texts, &[batch!("shop" => shops, "buyer" => Int64Array::from(vec![1; 1000]))]);
    for other in [text, texts] {
        let session = test.engine.session(Default::default());
        let building = tokio::spawn(async move { session.query("BUILD CUBE c").await.map(|_| ()) });
        eventually("rows are read", PATIENCE, || {
            building.is_finished() || test.engine.build_progress().iter().any(|job| job.rows_read > 0)
        });
        replace(&other, &file);
        let error = building.await.unwrap().unwrap_err();
        assert_eq!(error.message, "files of table `public.sales` changed while the segment was built");
        assert_eq!(test.run("SHOW JOBS").await[0][3], "failed");
        assert_eq!(test.run("SHOW CUBES").await[0][2], "not built");
        let failure = test.try_run(SUM).await.unwrap_err();
        assert_ne!(failure.kind, ErrorKind::Internal, "{failure:?}");
        replace(&kept, &file);
        test.check_miss(SUM, "has not been built").await;
    }
    test.run("BUILD CUBE c").await;
    test.check_hit(SUM).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_is_gone_or_something_else_after_a_build_is_never_answered_for() {
    let test = sales(10_000).await;
    test.run("SET nyala.check_files = on").await;
    test.run("BUILD CUBE c").await;
    test.check_hit(SUM).await;
    let file = test.path("sales/part-0.parquet");
    let (kept, text, texts) = (test.path("kept"), test.path("text"), test.path("texts.parquet"));
    std::fs::copy(&file, &kept).unwrap();
    std::fs::write(&text, "shop,buyer,amount\n1,2,3\n".repeat(1000)).unwrap();
    let shops = StringArray::from_iter_values((0..1000).map(|n| format!("shop {n}")));
    write_parquet(&texts, &[batch!("shop" => shops, "buyer" => Int64Array::from(vec![1; 1000]))]);
    for other in [text, texts] {
        replace(&other, &file);
        let failure = test.try_run(SUM).await.unwrap_err();
        assert!(
            matches!(failure.kind, ErrorKind::Unreadable | ErrorKind::Data | ErrorKind::InvalidValue),
            "{failure:?}"
        );
        let failure = test.try_run("BUILD CUBE c").await.unwrap_err();
        assert!(
            matches!(failure.kind, ErrorKind::Unreadable | ErrorKind::Data | ErrorKind::InvalidValue),
            "{failure:?}"
        );
        assert_eq!(test.run("SHOW CUBES").await[0][2], "stale");
        replace(&kept, &file);
        test.check_miss(SUM, "changed since it was built").await;
        test.run("BUILD CUBE c").await;
        test.check_hit(SUM).await;
    }
    std::fs::remove_file(&file).unwrap();
    let gone = test.try_run(SUM).await;
    assert!(gone.as_ref().map_or(true, Vec::is_empty), "rows that are gone are answered for: {gone:?}");
    assert_eq!(test.run("SHOW CUBES").await[0][2], "stale");
    replace(&kept, &file);
    test.check_same(SUM).await;
    test.run("BUILD CUBE c").await;
    test.check_hit(SUM).await;
}

/// Replaces a file at once, as a program does that writes files.
fn replace(with: &Path, file: &Path) {
    let beside: PathBuf = file.with_extension("new");
    std::fs::copy(with, &beside).unwrap();
    std::fs::rename(beside, file).unwrap();
}

/// Files of a failed build are deleted in the background; a build that begins meanwhile must not reuse them.
#[tokio::test(flavor = "multi_thread")]
async fn a_rebuild_on_the_heels_of_a_failed_build_keeps_its_files() {
    let test = sales(300_000).await;
    let mut caught = 0;
    for _ in 0..20 {
        let session = test.engine.session(Default::default());
        let building = tokio::spawn(async move { session.query("BUILD CUBE c").await.map(|_| ()) });
        // Only finished cuboids could be reused.
        let done = || test.engine.build_progress().iter().any(|job| job.cuboids_done > 0);
        while !building.is_finished() && !done() {
            tokio::task::yield_now().await;
        }
        let job = test.engine.build_progress().first().map(|job| job.id.0);
        let cancelled = match job {
            Some(job) => test.try_run(&format!("CANCEL JOB {job}")).await.is_ok(),
            None => false,
        };
        let ended = building.await.unwrap();
        caught += usize::from(cancelled && ended.is_err());
        test.run("BUILD CUBE c").await;
        if caught == 3 {
            break;
        }
    }
    assert!(caught > 0, "no build was caught between two cuboids");
    // The deletions are over after this time.
    tokio::time::sleep(Duration::from_secs(2)).await;
    reopen_snapshot(&test).await;
    let findings = test.run("CHECK CUBE c SAMPLE 12").await;
    assert!(findings.iter().all(|row| row[3] == "ok"), "{findings:?}");
    assert_eq!(test.run("SHOW SEGMENTS").await.len(), 1);
    for query in [DISTINCT, SUM] {
        test.check_hit(query).await;
    }
}
