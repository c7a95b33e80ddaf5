//! Lists of files in remote stores, kept for a short time: dashboards would ask the store again and again.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nyala_sql::error::Result;
use object_store::ObjectStore;
use tokio::sync::OnceCell;

use super::layout::Layout;
use super::listing::{Found, list};

/// So many lists are kept.
const MAX_LISTS: usize = 10_000;

/// A layout in the store with this URL.
type Place = (String, Layout);

/// Lists by their location.
pub struct FileLists {
    lists: Mutex<HashMap<Place, Arc<Listed>>>,
    valid_for: Duration,
}

/// One list. Statements that want it at the same time wait for one request.
struct Listed {
    began: Instant,
    files: OnceCell<Arc<Vec<Found>>>,
}

impl fmt::Debug for FileLists {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileLists").field("valid_for", &self.valid_for).finish_non_exhaustive()
    }
}

impl FileLists {
    /// Lists are used for so long after they were asked for.
    pub fn new(valid_for: Duration) -> Self {
        Self { lists: Mutex::default(), valid_for }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Place, Arc<Listed>>> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The data files of a layout, as they were a short time ago at the most. `anew` asks the store in any case.
    pub async fn get(
        &self,
        (url, store): (&str, &dyn ObjectStore),
        layout: &Layout,
        anew: bool,
    ) -> Result<Arc<Vec<Found>>> {
        let key = (url.to_owned(), layout.clone());
        let listed = {
            let mut lists = self.lock();
            if lists.len() >= MAX_LISTS {
                lists.retain(|_, listed| listed.began.elapsed() < self.valid_for);
            }
            let known = lists.get(&key).filter(|listed| !anew && listed.began.elapsed() < self.valid_for);
            match known {
                Some(listed) => Arc::clone(listed),
                None => {
                    let listed = Arc::new(Listed { began: Instant::now(), files: OnceCell::new() });
                    lists.insert(key, Arc::clone(&listed));
                    listed
                }
            }
        };
        let files = listed.files.get_or_try_init(|| async { Ok(Arc::new(list(store, layout).await?)) }).await;
        files.cloned()
    }

    /// Forgets all lists, after files were written or found to have changed.
    pub fn forget(&self) {
        self.lock().clear();
    }
}
