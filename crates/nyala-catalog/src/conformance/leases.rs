//! Leases and nodes, within one process.

use std::sync::Arc;
use std::time::Duration;

use nyala_model::{NodeEntry, NodeId};

use super::fixtures::*;
use crate::CatalogError;
use crate::lease::{Fence, Lease};

const LONG: Duration = Duration::from_secs(60);
/// The hold of a lease that ends before the next statement.
const ENDED: Duration = Duration::ZERO;

fn other() -> NodeId {
    NodeId("there".to_owned())
}

pub async fn one_node_at_a_time_holds_a_lease(backend: &dyn Backend) {
    let store = backend.open().await;
    let first = Lease::take(&store, "cube 1", &node()).await.unwrap().unwrap();
    assert!(first.is_held());
    assert!(Lease::take(&store, "cube 1", &other()).await.unwrap().is_none());
    let second = Lease::take(&store, "cube 2", &other()).await.unwrap().unwrap();
    let held: Vec<_> =
        store.leases().await.unwrap().into_iter().map(|lease| (lease.name, lease.owner)).collect();
    assert_eq!(held, [("cube 1".to_owned(), node()), ("cube 2".to_owned(), other())]);
    let token = first.fence().token;
    drop((first, second));
    // The drop returns before the lease is given back.
    let taken = loop {
        match Lease::take(&store, "cube 1", &other()).await.unwrap() {
            Some(taken) => break taken,
            None => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    };
    assert!(taken.fence().token > token);
}

pub async fn a_lease_ends_unless_it_is_renewed(backend: &dyn Backend) {
    let store = backend.open().await;
    let first = store.take_lease("upkeep", &node(), LONG).await.unwrap().unwrap();
    assert!(store.renew_lease("upkeep", first, ENDED).await.unwrap());
    assert!(store.leases().await.unwrap().is_empty());
    // An ended lease cannot be renewed, even if no node has taken it since: other nodes rely on its end.
    assert!(!store.renew_lease("upkeep", first, LONG).await.unwrap());
    assert!(store.leases().await.unwrap().is_empty());
    let second = store.take_lease("upkeep", &other(), LONG).await.unwrap().unwrap();
    assert!(second > first);
    assert!(!store.renew_lease("upkeep", first, LONG).await.unwrap());
    store.release_lease("upkeep", first).await.unwrap();
    let held = store.leases().await.unwrap();
    assert_eq!((held.len(), held[0].token), (1, second.0));
    assert!(held[0].left_ms > 50_000 && held[0].left_ms <= 60_000, "{held:?}");
}

pub async fn changes_under_a_lost_lease_are_refused(backend: &dyn Backend) {
    let subject = Subject::open(backend).await;
    let store = backend.open().await;
    let shared = Arc::clone(&subject.store);
    let fence = |token| Fence { lease: "cube 1".to_owned(), token };
    let first = fence(shared.take_lease("cube 1", &node(), LONG).await.unwrap().unwrap());
    subject.catalog.commit_under(std::slice::from_ref(&first), create_table("a")).await.unwrap();
    shared.renew_lease("cube 1", first.token, ENDED).await.unwrap();
    // The lease has ended, but no other node has taken it.
    let refused =
        subject.catalog.commit_under(std::slice::from_ref(&first), create_table("b")).await.unwrap_err();
    assert!(matches!(refused, CatalogError::LeaseLost { .. }), "{refused}");
    // The message mentions other nodes only if the catalog is shared.
    assert_eq!(refused.to_string().contains("another node"), shared.is_shared(), "{refused}");
    let second = fence(shared.take_lease("cube 1", &other(), LONG).await.unwrap().unwrap());
    let refused =
        subject.catalog.commit_under(std::slice::from_ref(&first), create_table("b")).await.unwrap_err();
    assert!(matches!(refused, CatalogError::LeaseLost { .. }), "{refused}");
    subject.catalog.commit_under(std::slice::from_ref(&second), create_table("c")).await.unwrap();
    assert_eq!(table_names(&store.load().await.unwrap()), ["public.a", "public.c"]);
    // The same node takes the lease again: changes under its former token are refused.
    let third = fence(shared.take_lease("cube 1", &other(), LONG).await.unwrap().unwrap());
    assert!(subject.catalog.commit_under(std::slice::from_ref(&second), create_table("d")).await.is_err());
    shared.release_lease("cube 1", third.token).await.unwrap();
    assert!(subject.catalog.commit_under(std::slice::from_ref(&third), create_table("e")).await.is_err());
}

pub async fn a_node_knows_itself(backend: &dyn Backend) {
    let store = backend.open().await;
    let entry =
        NodeEntry { id: node(), address: "127.0.0.1:7433".to_owned(), running: 7, ..NodeEntry::default() };
    let nodes = store.beat(&entry, LONG).await.unwrap();
    assert_eq!(nodes.len(), 1);
    assert_eq!(NodeEntry { age_ms: 0, ..nodes[0].clone() }, entry);
    store.leave(&node(), entry.started_at_ms).await.unwrap();
}
