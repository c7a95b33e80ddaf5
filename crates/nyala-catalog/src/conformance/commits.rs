//! Versions, publication, and many writers at once.

use std::sync::Arc;
use std::time::Duration;

use super::fixtures::*;
use crate::Catalog;

pub async fn versions_count_changes(backend: &dyn Backend) {
    let subject = Subject::open(backend).await;
    let first = subject.catalog.snapshot().version.0;
    for n in 1..=5 {
        let committed = subject.make(create_table(&format!("t{n}"))).await;
        assert_eq!(committed.snapshot.version.0, first + n);
        subject.forgive(lenient(create_table("t1"))).await;
        assert!(subject.commit(create_table("t1")).await.is_err());
    }
    assert_eq!(*Subject::open(backend).await.catalog.snapshot(), *subject.catalog.snapshot());
}

pub async fn watchers_find_what_was_announced(backend: &dyn Backend) {
    let subject = Subject::open(backend).await;
    let mut watch = subject.catalog.watch();
    assert_eq!(*watch.borrow_and_update(), subject.catalog.snapshot().version);
    let committed = subject.make(create_table("sales")).await;
    watch.changed().await.unwrap();
    assert_eq!(*watch.borrow_and_update(), committed.snapshot.version);
    subject.forgive(lenient(create_table("sales"))).await;
    assert!(!watch.has_changed().unwrap());
}

pub async fn twenty_tasks_commit_at_once(backend: &dyn Backend) {
    let catalog = Catalog::open(backend.open().await).await.unwrap();
    let first = catalog.snapshot().version.0;
    let watcher = tokio::spawn(versions_until(catalog.clone(), first + 20));
    let writers: Vec<_> = (0..20).map(|n| tokio::spawn(create_and_check(catalog.clone(), n))).collect();
    for writer in writers {
        writer.await.unwrap();
    }
    let seen = watcher.await.unwrap();
    assert!(seen.is_sorted(), "{seen:?}");
    assert_eq!(catalog.snapshot().version.0, first + 20);
    assert_eq!(*catalog.snapshot(), backend.open().await.load().await.unwrap());
}

pub async fn two_processes_share_one_store(backend: &dyn Backend) {
    let (a, b) = (Subject::open(backend).await, Subject::open(backend).await);
    let writers: Vec<_> =
        (0..20).map(|n| tokio::spawn(create_and_check([&a, &b][n % 2].catalog.clone(), n))).collect();
    for writer in writers {
        writer.await.unwrap();
    }
    let (a, b) = (a.catalog.refresh().await.unwrap(), b.catalog.refresh().await.unwrap());
    assert_eq!(table_names(&a).len(), 20);
    assert_eq!(*a, *b);
}

pub async fn a_commit_outlives_its_caller(backend: &dyn Backend) {
    let catalog = Catalog::open(backend.open().await).await.unwrap();
    let mut watch = catalog.watch();
    watch.mark_unchanged();
    // The time-out polls the commit once, which begins it, and then drops its future.
    let _ = tokio::time::timeout(Duration::ZERO, catalog.commit(create_table("sales"))).await;
    tokio::time::timeout(Duration::from_secs(30), watch.changed()).await.unwrap().unwrap();
    assert_eq!(table_names(&catalog.snapshot()), ["public.sales"]);
}

pub async fn unchanged_entries_are_shared(backend: &dyn Backend) {
    let (subject, other) = (Subject::open(backend).await, Subject::open(backend).await);
    let before = subject.make(create_table("sales")).await.snapshot;
    let after = subject.make(create_table("stock")).await.snapshot;
    other.catalog.refresh().await.unwrap();
    other.make(create_table("shops")).await;
    let refreshed = subject.catalog.refresh().await.unwrap();
    assert_eq!(table_names(&refreshed), ["public.sales", "public.shops", "public.stock"]);
    for later in [after, refreshed] {
        assert!(Arc::ptr_eq(&before.tables[&name("sales")], &later.tables[&name("sales")]));
    }
}

pub async fn old_snapshots_stay_as_they_were(backend: &dyn Backend) {
    let subject = Subject::open(backend).await;
    subject.make(create_table("sales")).await;
    let before = subject.make(create_cube("revenue", &["sales"])).await.snapshot;
    let copy = (*before).clone();
    let segment = subject.begin("revenue").await;
    subject.make(publish(segment)).await;
    subject.make(drop_cube("revenue")).await;
    assert!(before.cubes[&name("revenue")].segments.is_empty());
    assert_eq!(*before, copy);
}

async fn create_and_check(catalog: Catalog, n: usize) {
    let table = format!("t{n}");
    let committed = catalog.commit(create_table(&table)).await.unwrap();
    let current = catalog.snapshot();
    assert!(committed.snapshot.tables.contains_key(&name(&table)));
    assert!(current.tables.contains_key(&name(&table)));
    assert!(current.version >= committed.snapshot.version);
}

/// Reads snapshots as fast as it can until `last` is published.
async fn versions_until(catalog: Catalog, last: u64) -> Vec<u64> {
    let mut seen = vec![catalog.snapshot().version.0];
    while seen.last().is_some_and(|version| *version < last) {
        seen.push(catalog.snapshot().version.0);
        tokio::task::yield_now().await;
    }
    seen
}
