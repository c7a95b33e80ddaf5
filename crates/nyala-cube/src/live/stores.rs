//! The disk stores of this process.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use nyala_model::{CatalogSnapshot, DiskStoreEntry, NodeId};
use nyala_storage::oplog::MemoryBudget;

use super::store::OpenStore;

type ByName = BTreeMap<String, Arc<OpenStore>>;

/// All disk stores, by name. Finding one takes no lock, even during changes.
#[derive(Debug)]
pub struct LiveStores {
    data_dir: PathBuf,
    node: NodeId,
    /// Memory that they share, if it is limited.
    budget: Option<Arc<MemoryBudget>>,
    stores: ArcSwap<ByName>,
    changing: Mutex<()>,
}

impl LiveStores {
    /// Starts to open every store of this node, all at once. Together they keep at most `limit_bytes` in memory; 0 means no limit.
    pub fn start(data_dir: &Path, node: &NodeId, snapshot: &CatalogSnapshot, limit_bytes: u64) -> Self {
        let budget = (limit_bytes > 0).then(|| Arc::new(MemoryBudget::new(limit_bytes)));
        let start = |(name, entry): (&String, &Arc<DiskStoreEntry>)| {
            let store = match node.owns(&entry.node) {
                true => OpenStore::start(Arc::clone(entry), data_dir, budget.clone()),
                false => OpenStore::elsewhere(Arc::clone(entry), data_dir, node),
            };
            (name.clone(), store)
        };
        let stores: ByName = snapshot.disk_stores.iter().map(start).collect();
        Self {
            data_dir: data_dir.to_owned(),
            node: node.clone(),
            budget,
            stores: ArcSwap::from_pointee(stores),
            changing: Mutex::new(()),
        }
    }

    /// The store of this name.
    pub fn find(&self, name: &str) -> Option<Arc<OpenStore>> {
        self.stores.load().get(name).cloned()
    }

    /// All stores, by name.
    pub fn all(&self) -> Vec<Arc<OpenStore>> {
        self.stores.load().values().cloned().collect()
    }

    /// Adds and removes stores that other nodes made or dropped.
    pub fn follow(&self, snapshot: &CatalogSnapshot) {
        let is_elsewhere = |store: &Arc<OpenStore>| !self.node.owns(store.node());
        let known = self.stores.load();
        let others = || snapshot.disk_stores.values().filter(|entry| !self.node.owns(&entry.node));
        // A store may have been dropped, and another one with its name made on a third node, since the last call.
        let is_same = others()
            .all(|entry| known.get(&entry.name).is_some_and(|store| *store.node() == entry.node))
            && known.values().filter(|store| is_elsewhere(store)).count() == others().count();
        if is_same {
            return;
        }
        self.change(|stores| {
            stores.retain(|_, store| !is_elsewhere(store));
            stores.extend(others().map(|entry| {
                let store = OpenStore::elsewhere(Arc::clone(entry), &self.data_dir, &self.node);
                (entry.name.clone(), store)
            }));
        });
    }

    /// Opens a store without adding it to the list.
    pub async fn open(&self, entry: DiskStoreEntry) -> nyala_sql::error::Result<Arc<OpenStore>> {
        let store = OpenStore::start(Arc::new(entry), &self.data_dir, self.budget.clone());
        store.opened().await?;
        Ok(store)
    }

    /// Adds a store to the list, where statements find it.
    pub fn add(&self, store: Arc<OpenStore>) {
        self.change(|stores| stores.insert(store.name().to_owned(), store));
    }

    /// Removes a store from the list. It stays open.
    pub fn remove(&self, name: &str) -> Option<Arc<OpenStore>> {
        self.change(|stores| stores.remove(name))
    }

    fn change<T>(&self, change: impl FnOnce(&mut ByName) -> T) -> T {
        let _one_at_a_time = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut stores = self.stores.load().as_ref().clone();
        let outcome = change(&mut stores);
        self.stores.store(Arc::new(stores));
        outcome
    }

    /// Closes a store. It blocks.
    pub fn close(store: &OpenStore) {
        store.close();
    }

    /// Closes all stores, each on a thread of its own, and waits for them.
    pub fn close_all(&self) {
        std::thread::scope(|scope| {
            for store in self.all() {
                scope.spawn(move || store.close());
            }
        });
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// A catalog with a disk store `far` of this node.
    fn far(node: &str) -> CatalogSnapshot {
        let entry = DiskStoreEntry {
            name: "far".to_owned(),
            folder: "stores/far".to_owned(),
            options: BTreeMap::new(),
            leftovers: Default::default(),
            node: NodeId(node.to_owned()),
        };
        let disk_stores = BTreeMap::from([(entry.name.clone(), Arc::new(entry))]);
        CatalogSnapshot { disk_stores, ..CatalogSnapshot::default() }
    }

    /// Otherwise statements about its tables would be sent to the previous node for ever.
    #[test]
    fn a_store_that_was_made_anew_on_another_node_is_looked_for_there() {
        let here = NodeId("here".to_owned());
        let stores = LiveStores::start(Path::new("nowhere"), &here, &far("n1"), 0);
        let node = || stores.find("far").map(|store| store.node().0.clone());
        assert_eq!(node().unwrap(), "n1");
        stores.follow(&far("n2"));
        assert_eq!(node().unwrap(), "n2");
        stores.follow(&CatalogSnapshot::default());
        assert_eq!(node(), None);
    }
}
