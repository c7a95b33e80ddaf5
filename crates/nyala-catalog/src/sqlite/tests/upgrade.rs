//! Files of older formats.

use std::sync::Arc;

use nyala_model::CubeEntry;

use crate::conformance::fixtures::*;
use crate::sqlite::mark::path_of;
use crate::{Catalog, Change, SqliteStore};

/// Format 3 has neither numbers of measures nor the measures of a cuboid.
#[tokio::test]
async fn measures_get_their_positions_as_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalog.db");
    let catalog = Catalog::open_sqlite(&path).await.unwrap();
    catalog.commit(create_table("sales")).await.unwrap();
    let mut wide = definition(&["sales"]);
    for number in 1..12 {
        wide.measures.push(nyala_model::Measure { number, ..wide.measures[0].clone() });
    }
    wide.next_measure = 12;
    wide.grouping_sets.push(nyala_model::DimensionSet::from_bits(u64::MAX));
    let create = Change::CreateCube {
        name: name("revenue"),
        definition: wide,
        statement: String::new(),
        if_not_exists: false,
    };
    let cube: CubeEntry = {
        let snapshot = catalog.commit(create).await.unwrap().snapshot;
        snapshot.cubes[&name("revenue")].as_ref().clone()
    };
    let begin = Change::BeginSegment {
        cube: cube.id,
        revision: 0,
        location: String::new(),
        range: nyala_model::SegmentRange::Whole,
        sources: vec![],
        node: nyala_model::NodeId::default(),
    };
    let segment = catalog.commit(begin).await.unwrap().segment.unwrap();
    let whole = nyala_model::CuboidEntry { measures: 12, ..cuboid(1, 10) };
    catalog.commit(Change::AddCuboid { segment, cuboid: whole }).await.unwrap();
    let before = catalog.snapshot();
    let store = SqliteStore::open(&path).await.unwrap();
    for statement in [
        "DELETE FROM nyala_meta WHERE key IN ('writes', 'restored_at_ms')",
        "ALTER TABLE segments DROP COLUMN damage",
        "ALTER TABLE cuboids DROP COLUMN measures",
        "ALTER TABLE cuboids DROP COLUMN repeats",
        "ALTER TABLE cuboids DROP COLUMN wider",
        "UPDATE cubes SET definition = json_remove(definition, '$.next_measure', '$.revision')",
        "UPDATE cubes SET definition = json_set(definition, '$.measures', (SELECT \
         json_group_array(json_remove(value, '$.number')) FROM json_each(definition, '$.measures')))",
        "ALTER TABLE jobs DROP COLUMN rows_total",
        "ALTER TABLE jobs DROP COLUMN retries",
        "ALTER TABLE jobs DROP COLUMN node",
        "ALTER TABLE query_history DROP COLUMN missed_us",
        "ALTER TABLE segments DROP COLUMN node",
        "DROP TABLE roles",
        "ALTER TABLE tables ADD COLUMN format TEXT NOT NULL DEFAULT 'parquet'",
        "ALTER TABLE tables ADD COLUMN location TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE tables ADD COLUMN partition_columns TEXT NOT NULL DEFAULT '[]'",
        "ALTER TABLE tables ADD COLUMN options TEXT NOT NULL DEFAULT '{}'",
        "UPDATE tables SET location = source ->> '$.external.location', \
         partition_columns = source -> '$.external.partition_columns', \
         options = source -> '$.external.options'",
        "ALTER TABLE tables DROP COLUMN source",
        "DROP TABLE disk_stores",
        "UPDATE nyala_meta SET value = 3 WHERE key = 'schema_version'",
    ] {
        sqlx::query(statement).execute(&store.writer).await.unwrap();
    }
    for table in ["nyala_meta", "schemas", "tables", "cubes", "segments", "cuboids", "jobs", "query_history"]
    {
        let drop = format!("ALTER TABLE {table} DROP COLUMN checksum");
        sqlx::query(sqlx::AssertSqlSafe(drop)).execute(&store.writer).await.unwrap();
    }
    store.close().await;
    std::fs::remove_file(path_of(&path)).unwrap();
    let mut expected = before.as_ref().clone();
    // Files of format 3 have no checksums; a segment that was being built is forgotten.
    expected.cubes.values_mut().for_each(|cube| Arc::make_mut(cube).segments.clear());
    assert_eq!(*Catalog::open_sqlite(&path).await.unwrap().snapshot(), expected);
}
