//! The life of a segment: begun, filled, published, replaced.

use nyala_model::{CubeId, KeyRange, SegmentDamage, SegmentEntry, SegmentId, SegmentRange, SegmentState};

use super::fixtures::*;
use crate::Change;

pub async fn a_segment_is_built_then_published(backend: &dyn Backend) {
    let subject = with_cube(backend).await;
    let segment = subject.begin("revenue").await;
    let building = SegmentEntry {
        id: segment,
        state: SegmentState::Building,
        range: SegmentRange::Whole,
        sources: sources(),
        location: "file:///segments/".to_owned(),
        source_rows: 0,
        built_at_ms: 0,
        droppable_joins: vec![],
        key_bounds: None,
        cuboids: vec![],
        damage: None,
        node: node(),
    };
    assert_eq!(subject.cube("revenue").segments, std::slice::from_ref(&building));
    subject.make(add(segment, 1, 10)).await;
    subject.make(add(segment, 0, 1)).await;
    subject.make(publish(segment)).await;
    let ready = SegmentEntry {
        state: SegmentState::Ready,
        source_rows: 6_000_000,
        built_at_ms: 1_700_000_000_000,
        droppable_joins: vec![3, 1],
        key_bounds: Some((i64::MIN, i64::MAX)),
        cuboids: vec![cuboid(1, 10), cuboid(0, 1)],
        ..building
    };
    assert_eq!(subject.cube("revenue").segments, [ready]);
}

pub async fn a_building_segment_survives_a_reopen(backend: &dyn Backend) {
    let subject = with_cube(backend).await;
    let segment = subject.begin("revenue").await;
    subject.make(add(segment, 1, 10)).await;
    drop(subject);
    let subject = Subject::open(backend).await;
    let found = subject.cube("revenue").segments[0].clone();
    assert_eq!(
        (found.id, found.state, found.cuboids),
        (segment, SegmentState::Building, vec![cuboid(1, 10)])
    );
    subject.make(add(segment, 0, 1)).await;
    subject.make(publish(segment)).await;
}

pub async fn publishing_replaces_ready_segments_only(backend: &dyn Backend) {
    let subject = with_cube(backend).await;
    subject.make(create_cube("other", &["sales"])).await;
    let bystander = subject.begin("other").await;
    subject.make(publish(bystander)).await;
    let (first, second, third) =
        (subject.begin("revenue").await, subject.begin("revenue").await, subject.begin("revenue").await);
    subject.make(publish(second)).await;
    assert_eq!(ids(&subject, "revenue"), [first, second, third]);
    subject.make(publish(first)).await;
    assert_eq!(ids(&subject, "revenue"), [first, third]);
    subject.make(publish(third)).await;
    assert_eq!(ids(&subject, "revenue"), [third]);
    assert_eq!(ids(&subject, "other"), [bystander]);
}

pub async fn a_range_replaces_what_it_holds(backend: &dyn Backend) {
    let subject = with_cube(backend).await;
    let keys = |from, to| SegmentRange::Keys(KeyRange { from, to });
    let mut ready = Vec::new();
    for range in [keys(0, 10), keys(10, 20), keys(20, 30), SegmentRange::Nulls] {
        let segment = subject.begin_range("revenue", range).await;
        subject.make(publish(segment)).await;
        ready.push(segment);
    }
    let merged = subject.begin_range("revenue", keys(0, 20)).await;
    subject.make(publish(merged)).await;
    assert_eq!(ids(&subject, "revenue"), [ready[2], ready[3], merged]);
    let askew = subject.begin_range("revenue", keys(15, 30)).await;
    let message = format!("segment `{askew}` shares rows with segment `{merged}`, which has others besides");
    subject.refuse(publish(askew), &message).await;
    assert_eq!(ids(&subject, "revenue"), [ready[2], ready[3], merged, askew]);
}

pub async fn a_damaged_segment_gives_way_to_what_shares_rows_with_it(backend: &dyn Backend) {
    let subject = with_cube(backend).await;
    let keys = |from, to| SegmentRange::Keys(KeyRange { from, to });
    let (wide, other) = (
        subject.begin_range("revenue", keys(0, 30)).await,
        subject.begin_range("revenue", keys(30, 40)).await,
    );
    let damage = |reason: &str| SegmentDamage { file: "1-0.parquet".to_owned(), reason: reason.to_owned() };
    let mark = |segment, reason| Change::MarkDamaged { segment, damage: damage(reason) };
    subject.make(publish(wide)).await;
    subject.make(mark(wide, "first")).await;
    subject.make(publish(other)).await;
    for segment in &subject.cube("revenue").segments {
        let damaged = segment.id == wide;
        let state = if damaged { SegmentState::Damaged } else { SegmentState::Ready };
        assert_eq!((segment.state, segment.damage.clone()), (state, damaged.then(|| damage("first"))));
    }
    let part = subject.begin_range("revenue", keys(10, 20)).await;
    subject.make(publish(part)).await;
    assert_eq!(ids(&subject, "revenue"), [other, part]);
    subject
        .refuse(
            mark(wide, "gone"),
            &format!("segment `{wide}` does not exist; SHOW SEGMENTS lists what does"),
        )
        .await;
}

pub async fn a_ready_segment_is_immutable(backend: &dyn Backend) {
    let subject = with_cube(backend).await;
    let segment = subject.begin("revenue").await;
    subject.make(publish(segment)).await;
    let message = format!("segment `{segment}` is ready and cannot be changed any more; begin a new segment");
    subject.refuse(add(segment, 1, 10), &message).await;
    subject.refuse(publish(segment), &message).await;
}

pub async fn a_cuboid_is_replaced_where_it_stands(backend: &dyn Backend) {
    let subject = with_cube(backend).await;
    let segment = subject.begin("revenue").await;
    for (bits, rows) in [(1, 10), (0, 1), (1, 20)] {
        subject.make(add(segment, bits, rows)).await;
    }
    assert_eq!(subject.cube("revenue").segments[0].cuboids, [cuboid(1, 20), cuboid(0, 1)]);
}

pub async fn dropped_segments_are_gone(backend: &dyn Backend) {
    let subject = with_cube(backend).await;
    let (building, ready) = (subject.begin("revenue").await, subject.begin("revenue").await);
    subject.make(add(building, 1, 10)).await;
    subject.make(publish(ready)).await;
    let message = format!("segment `{ready}` is ready and cannot be changed any more; begin a new segment");
    subject.refuse(Change::DropUnfinished { segment: ready }, &message).await;
    subject.make(Change::DropUnfinished { segment: building }).await;
    assert_eq!(ids(&subject, "revenue"), [ready]);
    subject.make(Change::DropSegment { segment: ready }).await;
    assert_eq!(ids(&subject, "revenue"), []);
    let last = subject.begin("revenue").await;
    subject.make(add(last, 1, 10)).await;
    subject.make(drop_cube("revenue")).await;
    let gone = format!("segment `{last}` does not exist; SHOW SEGMENTS lists what does");
    subject.refuse(publish(last), &gone).await;
}

pub async fn segments_are_dropped_together(backend: &dyn Backend) {
    let subject = with_cube(backend).await;
    subject.make(create_cube("other", &["sales"])).await;
    let keys = |from| SegmentRange::Keys(KeyRange { from, to: from + 10 });
    let mut all = Vec::new();
    for from in [0, 10, 20] {
        let segment = subject.begin_range("revenue", keys(from)).await;
        subject.make(add(segment, 1, 10)).await;
        subject.make(publish(segment)).await;
        all.push(segment);
    }
    let (building, far) = (subject.begin_range("revenue", keys(30)).await, subject.begin("other").await);
    let before = subject.catalog.snapshot().version;
    let gone = vec![all[0], all[2], building, SegmentId(999)];
    subject.make(Change::DropSegments { segments: gone.clone() }).await;
    assert_eq!(subject.catalog.snapshot().version.0, before.0 + 1);
    assert_eq!((ids(&subject, "revenue"), ids(&subject, "other")), (vec![all[1]], vec![far]));
    subject.forgive(Change::DropSegments { segments: gone }).await;
}

pub async fn missing_ids_are_refused(backend: &dyn Backend) {
    let subject = with_cube(backend).await;
    let begin = Change::BeginSegment {
        cube: CubeId(999),
        revision: 0,
        location: String::new(),
        range: SegmentRange::Whole,
        sources: vec![],
        node: node(),
    };
    subject.refuse(begin, "cube `999` does not exist; SHOW CUBES lists what does").await;
    let segment = SegmentId(999);
    for change in [add(segment, 1, 1), publish(segment), Change::DropSegment { segment }] {
        subject.refuse(change, "segment `999` does not exist; SHOW SEGMENTS lists what does").await;
    }
}

async fn with_cube(backend: &dyn Backend) -> Subject {
    let subject = Subject::open(backend).await;
    subject.make(create_table("sales")).await;
    subject.make(create_cube("revenue", &["sales"])).await;
    subject
}

fn add(segment: SegmentId, bits: u64, rows: u64) -> Change {
    Change::AddCuboid { segment, cuboid: cuboid(bits, rows) }
}

fn ids(subject: &Subject, cube: &str) -> Vec<SegmentId> {
    subject.cube(cube).segments.iter().map(|segment| segment.id).collect()
}
