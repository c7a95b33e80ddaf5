//! Lists of files in remote stores. Lists in use are renewed in the background, so that statements do not wait for stores.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use nyala_sql::error::Result;
use object_store::ObjectStore;
use tokio::runtime::Handle;
use tokio::sync::OnceCell;

use super::delta::DeltaLogs;
use super::layout::Layout;
use super::listing::{Found, list};

/// Above this number of lists, the expired ones are dropped.
const MAX_LISTS: usize = 10_000;
/// A list that no statement used for this time is not renewed.
const IDLE: Duration = Duration::from_secs(600);
/// Lists that are renewed at the same time in the background.
const AT_ONCE: usize = 8;

/// A layout in the store with this URL.
type Place = (String, Layout);

/// Lists by their location.
pub struct FileLists {
    lists: Mutex<HashMap<Place, Known>>,
    logs: DeltaLogs,
    valid_for: Duration,
}

/// A list, and its use.
struct Known {
    listed: Arc<Listed>,
    store: Arc<dyn ObjectStore>,
    used: Instant,
}

/// One list. Statements that want it at the same time wait for one request.
struct Listed {
    began: Instant,
    files: OnceCell<Arc<Vec<Found>>>,
}

impl Listed {
    fn begin() -> Arc<Self> {
        Arc::new(Self { began: Instant::now(), files: OnceCell::new() })
    }

    async fn get(
        &self,
        lists: &FileLists,
        store: (&str, &Arc<dyn ObjectStore>),
        layout: &Layout,
    ) -> Result<Arc<Vec<Found>>> {
        self.files.get_or_try_init(|| lists.ask_store(store, layout)).await.cloned()
    }
}

impl fmt::Debug for FileLists {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileLists").field("valid_for", &self.valid_for).finish_non_exhaustive()
    }
}

impl FileLists {
    /// Lists are valid for this time. On a runtime, lists in use are renewed before they expire.
    pub fn new(valid_for: Duration) -> Arc<Self> {
        let lists = Arc::new(Self { lists: Mutex::default(), logs: DeltaLogs::default(), valid_for });
        if let (Ok(runtime), false) = (Handle::try_current(), valid_for.is_zero()) {
            runtime.spawn(ask_again(Arc::downgrade(&lists), valid_for / 2));
        }
        lists
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Place, Known>> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The data files of a layout, from a list that is still valid. `anew` asks the store in any case.
    pub async fn get(
        &self,
        (url, store): (&str, &Arc<dyn ObjectStore>),
        layout: &Layout,
        anew: bool,
    ) -> Result<Arc<Vec<Found>>> {
        let place = (url.to_owned(), layout.clone());
        let listed = self.find(place, store, anew);
        listed.get(self, (url, store), layout).await
    }

    /// The data files of a layout, as they are now.
    pub async fn ask_store(
        &self,
        (url, store): (&str, &Arc<dyn ObjectStore>),
        layout: &Layout,
    ) -> Result<Arc<Vec<Found>>> {
        match layout.delta() {
            Some(table) => {
                let version = self.logs.read((url, store), table).await?;
                Ok(Arc::new(version.files.iter().map(Found::from).collect()))
            }
            None => Ok(Arc::new(list(store.as_ref(), layout).await?)),
        }
    }

    /// The logs of Delta tables.
    pub fn logs(&self) -> &DeltaLogs {
        &self.logs
    }

    fn find(&self, place: Place, store: &Arc<dyn ObjectStore>, anew: bool) -> Arc<Listed> {
        let mut lists = self.lock();
        if let Some(known) = lists.get_mut(&place)
            && !anew
            && known.listed.began.elapsed() < self.valid_for
        {
            known.used = Instant::now();
            return Arc::clone(&known.listed);
        }
        if lists.len() >= MAX_LISTS {
            lists.retain(|_, known| known.listed.began.elapsed() < self.valid_for);
        }
        let listed = Listed::begin();
        let known = Known { listed: Arc::clone(&listed), store: Arc::clone(store), used: Instant::now() };
        lists.insert(place, known);
        listed
    }

    /// Forgets all lists, after files were written or found to have changed.
    pub fn forget(&self) {
        self.lock().clear();
    }

    /// Renews all lists in use, and drops the others.
    async fn ask(&self) {
        let used: Vec<(Place, Arc<dyn ObjectStore>)> = {
            let mut lists = self.lock();
            lists.retain(|_, known| known.used.elapsed() < IDLE);
            lists.iter().map(|(place, known)| (place.clone(), Arc::clone(&known.store))).collect()
        };
        let asked: Vec<BoxFuture<'_, ()>> =
            used.into_iter().map(|(place, store)| self.ask_for(place, store).boxed()).collect();
        stream::iter(asked).buffer_unordered(AT_ONCE).collect::<()>().await;
    }

    async fn ask_for(&self, place: Place, store: Arc<dyn ObjectStore>) {
        let listed = Listed::begin();
        // If the store fails, the next statement that needs the list asks again and gets the error.
        if listed.get(self, (&place.0, &store), &place.1).await.is_ok()
            && let Some(known) = self.lock().get_mut(&place)
            && known.listed.began < listed.began
        {
            known.listed = listed;
        }
    }
}

/// Renews lists in use at intervals, until the lists are dropped.
async fn ask_again(lists: Weak<FileLists>, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        let Some(lists) = lists.upgrade() else { return };
        lists.ask().await;
    }
}
