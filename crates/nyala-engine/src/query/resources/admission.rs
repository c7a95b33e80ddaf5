//! Admission of queries to slots.
//!
//! A query from cuboids takes less time than queueing, and little memory: it is always admitted. Any other
//! query that reads files takes a slot of its resource group. Without a free one it waits for a limited
//! time, unless too many wait already. So large queries use bounded resources, however many clients send.
//!
//! Short and long queries have as many slots each and separate queues: a query that takes a tenth of a
//! second never waits for one that takes minutes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nyala_model::CatalogSnapshot;
use nyala_model::config::{AdmissionConfig, GroupConfig};
use nyala_sql::error::{ErrorKind, QueryError, Result};

use super::fair_queue::{FairQueue, Slot};
use crate::access::Identity;
use crate::query::activity::{Entry, Phase};
use crate::query::options::SessionOptions;

/// The group of sessions without another one.
const DEFAULT_GROUP: &str = "default";

/// Which slots a query waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queue {
    /// It reads few rows.
    Short,
    /// Any other.
    Long,
}

/// The resource groups.
#[derive(Debug)]
pub struct Admission {
    /// By name; the default among them.
    groups: BTreeMap<String, Arc<Group>>,
}

/// Queries that share slots.
#[derive(Debug)]
pub struct Group {
    pub name: String,
    config: GroupConfig,
    /// Slots for long queries, and as many again for short ones.
    pub size: usize,
    /// The limiting keys of the configuration, for the error of a refusal.
    limits: &'static str,
    refused: AtomicU64,
    short: Arc<FairQueue>,
    long: Arc<FairQueue>,
    group_queue: usize,
}

impl Admission {
    /// A group without `slots` has twice as many as `threads`.
    pub fn new(config: &AdmissionConfig, threads: usize) -> Self {
        let mut configs = config.groups.clone();
        configs.entry(DEFAULT_GROUP.to_owned()).or_default();
        let size = |config: &GroupConfig| if config.slots == 0 { 2 * threads.max(1) } else { config.slots };
        let line = || {
            let group_queues = configs.values().map(|config| (config.weight.max(1), size(config)));
            FairQueue::new(group_queues, config.slots, config.user_slots)
        };
        let (short, long) = (line(), line());
        let limits = match (config.slots, config.user_slots) {
            (0, 0) => "`slots` of the group",
            (_, 0) => "`slots` of the group and of [admission], which bounds all groups",
            (0, _) => "`slots` of the group and `user_slots` of [admission]",
            (_, _) => "`slots` of the group, and `slots` and `user_slots` of [admission]",
        };
        let groups = configs.into_iter().enumerate().map(|(group_queue, (name, config))| {
            let (short, long) = (Arc::clone(&short), Arc::clone(&long));
            let (size, refused) = (size(&config), AtomicU64::new(0));
            (name.clone(), Arc::new(Group { name, config, size, limits, refused, short, long, group_queue }))
        });
        Self { groups: groups.collect() }
    }

    /// All groups by name.
    pub fn groups(&self) -> impl Iterator<Item = &Arc<Group>> {
        self.groups.values()
    }

    /// The group that a session chose with `nyala.resource_group`, else the first that names its user, else
    /// the first that names its schema, else the default.
    pub fn group(
        &self,
        chosen: &str,
        owner: &SessionOptions,
        schema: &str,
        catalog: &CatalogSnapshot,
    ) -> Result<&Arc<Group>> {
        let named = |name: &str| {
            self.groups.get(name).ok_or_else(|| {
                QueryError::new(ErrorKind::InvalidParameter, format!("there is no resource group `{name}`"))
                    .hint("`SELECT * FROM system.resource_groups` lists them; RESET nyala.resource_group")
            })
        };
        if !chosen.is_empty() {
            let group = named(chosen)?;
            group.require_member(&owner.identity, catalog)?;
            return Ok(group);
        }
        let of_user = self.groups.values().find(|group| group.config.users.contains(&owner.user));
        let of_schema =
            || self.groups.values().find(|group| group.config.schemas.iter().any(|own| own == schema));
        match of_user.or_else(of_schema) {
            Some(group) => Ok(group),
            None => named(DEFAULT_GROUP),
        }
    }
}

impl Group {
    /// Greatest memory of one of its queries, in bytes; none if only the whole is limited.
    pub fn query_memory_bytes(&self) -> Option<usize> {
        Some(self.config.query_memory_bytes).filter(|bytes| *bytes > 0)
    }

    /// Fails if the session may not choose this group.
    fn require_member(&self, identity: &Identity, catalog: &CatalogSnapshot) -> Result<()> {
        let roles = &self.config.roles;
        let may =
            roles.is_empty() || identity.may_everything(catalog) || identity.is_member_of_any(catalog, roles);
        if may {
            return Ok(());
        }
        let message = format!(
            "resource group `{}` is for superusers and members of `{}`",
            self.name,
            roles.join("`, `")
        );
        Err(QueryError::new(ErrorKind::PermissionDenied, message)
            .hint("RESET nyala.resource_group, or ask a superuser for the membership"))
    }

    /// Its weight relative to other groups.
    pub fn weight(&self) -> usize {
        self.config.weight
    }

    /// How many of its queries compute, and how many wait.
    pub fn count(&self) -> (usize, usize) {
        let (short, long) = (self.short.count(self.group_queue), self.long.count(self.group_queue));
        (short.0 + long.0, short.1 + long.1)
    }

    /// Waits for a slot. Dropping the wait gives up the place.
    pub async fn admit(&self, queue: Queue, entry: &Entry) -> Result<Slot> {
        let most = self.config.queue_length;
        let line = match queue {
            Queue::Short => &self.short,
            Queue::Long => &self.long,
        };
        let place = line.enter(self.group_queue, &entry.owner.user, most);
        let mut place = place.ok_or_else(|| {
            self.too_many(format!("{most} wait for a slot of resource group `{}` already", self.name))
        })?;
        if let Ok(slot) = place.try_recv() {
            return Ok(slot);
        }
        entry.enter(Phase::Queued);
        let timeout = Duration::from_millis(self.config.queue_timeout_ms);
        let slot = tokio::time::timeout(timeout, place).await;
        entry.enter(Phase::Planning);
        match slot {
            Ok(Ok(slot)) => Ok(slot),
            // A full group_queue dropped the place: the line itself lives as long as the server.
            Ok(Err(_)) => Err(self.too_many(format!(
                "{most} wait for a slot of resource group `{}`, most of them of this user",
                self.name
            ))),
            Err(_) => Err(self.too_many(format!(
                "waited {timeout:?} for one of {} slots of resource group `{}`",
                self.size, self.name
            ))),
        }
    }

    /// Queries refused since the start.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    fn too_many(&self, message: String) -> QueryError {
        self.refused.fetch_add(1, Ordering::Relaxed);
        QueryError::new(ErrorKind::TooManyQueries, format!("too many queries: {message}"))
            .hint(format!("try again later, or raise {}", self.limits))
    }
}
