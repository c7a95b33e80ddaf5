//! The query history.

use nyala_model::{CubeId, CuboidUse, QueryHistoryEntry, QueryShape, ShapeCondition, ShapeTable};

use super::fixtures::*;

pub async fn queries_are_listed_by_when_they_were_asked(backend: &dyn Backend) {
    let subject = Subject::open(backend).await;
    let version = subject.catalog.snapshot().version;
    let mut full = asked("b", 20);
    full.shape = QueryShape {
        tables: vec![ShapeTable {
            table: name("sales"),
            alias: "sales \"2\"".to_owned(),
            left: Some(vec![condition("a = b")]),
        }],
        joins: vec![condition("c = d")],
        filters: vec!["x = ?".to_owned()],
        filtered: vec!["x".to_owned()],
        group: vec!["y".to_owned(), "'z'".to_owned()],
        sets: vec![vec![0, 1], vec![]],
        aggregates: vec!["sum(q)".to_owned()],
    };
    (full.total_us, full.max_us, full.rows, full.misses) = (u64::MAX, 1 << 40, 7, 2);
    (full.miss_reason, full.last_miss_ms) = (Some("no cuboid has all of (x)".to_owned()), 19);
    full.answers = vec![CuboidUse {
        cube: CubeId(3),
        name: name("revenue"),
        cuboid: vec!["x".to_owned(), "y".to_owned()],
        times: 4,
        last_ms: 20,
    }];
    subject
        .catalog
        .record_queries(&node(), &[asked("a", 10), full.clone(), asked("c", 30)], 10)
        .await
        .unwrap();
    let reopened = Subject::open(backend).await;
    let expected = [asked("c", 30), full, asked("a", 10)];
    assert_eq!(reopened.catalog.query_history(&node()).await.unwrap(), expected);
    assert_eq!(reopened.catalog.snapshot().version, version);
}

pub async fn queries_are_replaced_and_forgotten(backend: &dyn Backend) {
    let subject = Subject::open(backend).await;
    subject
        .catalog
        .record_queries(&node(), &[asked("a", 10), asked("b", 20), asked("c", 30)], 3)
        .await
        .unwrap();
    let mut again = asked("a", 40);
    again.asked = 2;
    subject.catalog.record_queries(&node(), &[again.clone(), asked("d", 25)], 3).await.unwrap();
    let expected = [again, asked("c", 30), asked("d", 25)];
    assert_eq!(subject.catalog.query_history(&node()).await.unwrap(), expected);
}

pub async fn nothing_recorded_is_nothing_lost(backend: &dyn Backend) {
    let subject = Subject::open(backend).await;
    assert!(subject.catalog.query_history(&node()).await.unwrap().is_empty());
    subject.catalog.record_queries(&node(), &[asked("a", 10)], 3).await.unwrap();
    subject.catalog.record_queries(&node(), &[], 3).await.unwrap();
    assert_eq!(subject.catalog.query_history(&node()).await.unwrap(), [asked("a", 10)]);
}

fn condition(sql: &str) -> ShapeCondition {
    ShapeCondition { aliases: vec!["a".to_owned(), "b".to_owned()], sql: sql.to_owned() }
}

fn asked(id: &str, last_asked_ms: u64) -> QueryHistoryEntry {
    QueryHistoryEntry {
        id: id.to_owned(),
        shape: QueryShape::default(),
        asked: 1,
        total_us: 1500,
        max_us: 1500,
        rows: 1,
        misses: 0,
        missed_us: 1500,
        miss_reason: None,
        last_miss_ms: 0,
        answers: Vec::new(),
        last_asked_ms,
    }
}
