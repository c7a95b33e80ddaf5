//! Who may compute at once.
//!
//! A query from cuboids is over before it could be queued, and needs little memory: it is always
//! admitted. Any other query that reads files takes a slot of its resource group, or waits for one in the order of arrival, for a
//! while and if not too many wait already. So what large queries hold is bounded, whoever sends how many.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use nyala_model::config::{AdmissionConfig, GroupConfig};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::activity::{Entry, Phase};
use super::session::SessionOptions;
use crate::error::{ErrorKind, QueryError, Result};

/// The group of whoever is in no other.
const DEFAULT_GROUP: &str = "default";

/// The resource groups.
#[derive(Debug)]
pub(super) struct Admission {
    groups: BTreeMap<String, Arc<Group>>,
    default: Arc<Group>,
}

/// Queries that share slots.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) name: String,
    config: GroupConfig,
    slots: Arc<Semaphore>,
    /// Slots there are.
    pub(super) size: usize,
    waiting: AtomicUsize,
}

/// The right to compute, until it is dropped.
#[derive(Debug)]
pub(super) struct Slot {
    _permit: OwnedSemaphorePermit,
}

impl Admission {
    /// `threads` is how many slots a group has that says nothing else.
    pub(super) fn new(config: &AdmissionConfig, threads: usize) -> Self {
        let group = |name: &str, config: &GroupConfig| {
            let size = if config.slots == 0 { 2 * threads.max(1) } else { config.slots };
            Arc::new(Group {
                name: name.to_owned(),
                config: config.clone(),
                slots: Arc::new(Semaphore::new(size)),
                size,
                waiting: AtomicUsize::new(0),
            })
        };
        let groups: BTreeMap<_, _> =
            config.groups.iter().map(|(name, config)| (name.clone(), group(name, config))).collect();
        let default = groups.get(DEFAULT_GROUP).cloned();
        let default = default.unwrap_or_else(|| group(DEFAULT_GROUP, &GroupConfig::default()));
        Self { groups, default }
    }

    /// All groups by name.
    pub(super) fn groups(&self) -> Vec<&Arc<Group>> {
        let others = self.groups.values().filter(|group| group.name != DEFAULT_GROUP);
        std::iter::once(&self.default).chain(others).collect()
    }

    /// The group that a session chose with `nyala.resource_group`, else the first that names its user or
    /// schema, else the default.
    pub(super) fn group(&self, chosen: &str, owner: &SessionOptions, schema: &str) -> Result<&Arc<Group>> {
        if !chosen.is_empty() {
            let found = self.groups().into_iter().find(|group| group.name == chosen);
            return found.ok_or_else(|| {
                QueryError::new(ErrorKind::InvalidParameter, format!("there is no resource group `{chosen}`"))
                    .hint("`SELECT * FROM system.resource_groups` lists them; RESET nyala.resource_group")
            });
        }
        let claims = |group: &&Arc<Group>| {
            group.config.users.contains(&owner.user) || group.config.schemas.iter().any(|own| own == schema)
        };
        Ok(self.groups.values().find(claims).unwrap_or(&self.default))
    }
}

impl Group {
    /// Most memory one of its queries may hold, in bytes; none if only the whole is limited.
    pub(super) fn query_memory_bytes(&self) -> Option<usize> {
        Some(self.config.query_memory_bytes).filter(|bytes| *bytes > 0)
    }

    pub(super) fn running(&self) -> usize {
        self.size.saturating_sub(self.slots.available_permits())
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// A slot, as soon as there is one. Going away while waiting leaves nothing behind.
    pub(super) async fn admit(&self, entry: &Entry) -> Result<Slot> {
        if let Ok(permit) = Arc::clone(&self.slots).try_acquire_owned() {
            return Ok(Slot { _permit: permit });
        }
        let _waiting = Waiting::begin(self)?;
        entry.enter(Phase::Queued);
        let timeout = Duration::from_millis(self.config.queue_timeout_ms);
        let permit = tokio::time::timeout(timeout, Arc::clone(&self.slots).acquire_owned()).await;
        entry.enter(Phase::Planning);
        match permit {
            Ok(Ok(permit)) => Ok(Slot { _permit: permit }),
            Ok(Err(_)) => Err(QueryError::new(ErrorKind::ShuttingDown, "the server is stopping")),
            Err(_) => Err(self.too_many(format!(
                "waited {} s for one of {} slots of resource group `{}`",
                timeout.as_secs(),
                self.size,
                self.name
            ))),
        }
    }

    fn too_many(&self, message: String) -> QueryError {
        QueryError::new(ErrorKind::TooManyQueries, format!("too many queries: {message}"))
            .hint("try again later, or raise `slots` of the group under [admission]")
    }
}

/// Counts as waiting until it is dropped.
struct Waiting<'a>(&'a Group);

impl<'a> Waiting<'a> {
    fn begin(group: &'a Group) -> Result<Self> {
        let most = group.config.queue_length;
        let before = group.waiting.fetch_add(1, Ordering::Relaxed);
        let waiting = Self(group);
        if before >= most {
            let message = format!("{most} wait for a slot of resource group `{}` already", group.name);
            return Err(group.too_many(message));
        }
        Ok(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}
