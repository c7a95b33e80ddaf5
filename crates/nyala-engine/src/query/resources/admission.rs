//! Admission of queries to slots.
//!
//! A query from cuboids takes less time than queueing, and little memory: it is always admitted. Any other
//! query that reads files takes a slot of its resource group. Without a free one it waits for a limited
//! time, unless too many wait already. So large queries use bounded resources, however many clients send.
//!
//! Short and long queries have as many slots each and separate queues: a query that takes a tenth of a
//! second never waits for one that takes minutes. Queries that other nodes compute have slots and queues of
//! their own, since they use the threads of those nodes: this node's part of the slots of all executors.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
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
    /// Slots of queries that read few rows.
    Short,
    /// Slots of all other queries.
    Long,
}

/// Which threads a query uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Site {
    /// Threads of this node.
    Here,
    /// Threads of executors.
    Spread,
}

/// The resource groups.
#[derive(Debug)]
pub struct Admission {
    /// The groups by name; the default group is among them.
    groups: BTreeMap<String, Arc<Group>>,
    /// Slots of a group that are for the threads of this node, if the configuration gives no other number.
    own_slots: usize,
}

/// Queries that share slots.
#[derive(Debug)]
pub struct Group {
    pub name: String,
    config: GroupConfig,
    /// Slots for long queries that compute here, and as many again for short ones.
    pub size: usize,
    /// Slots for long queries that other nodes compute, and as many again for short ones.
    spread_size: AtomicUsize,
    /// The limiting keys of the configuration, for the error of a refusal.
    limits: &'static str,
    refused: AtomicU64,
    here: Queues,
    spread: Queues,
    group_queue: usize,
}

/// The queues of all groups for the same threads.
#[derive(Debug, Clone)]
struct Queues {
    short: Arc<FairQueue>,
    long: Arc<FairQueue>,
}

impl Queues {
    fn new(make: impl Fn() -> Arc<FairQueue>) -> Self {
        Self { short: make(), long: make() }
    }

    fn all(&self) -> [&Arc<FairQueue>; 2] {
        [&self.short, &self.long]
    }

    fn count(&self, group_queue: usize) -> (usize, usize) {
        let counts = self.all().map(|queue| queue.count(group_queue));
        counts.into_iter().fold((0, 0), |sum, count| (sum.0 + count.0, sum.1 + count.1))
    }
}

impl Admission {
    /// A group without `slots` has twice as many as `threads`.
    pub fn new(config: &AdmissionConfig, threads: usize) -> Self {
        let mut configs = config.groups.clone();
        configs.entry(DEFAULT_GROUP.to_owned()).or_default();
        let own_slots = 2 * threads.max(1);
        let size = |config: &GroupConfig| if config.slots == 0 { own_slots } else { config.slots };
        let queue = || {
            let group_queues = configs.values().map(|config| (config.weight.max(1), size(config)));
            FairQueue::new(group_queues, config.slots, config.user_slots)
        };
        let (here, spread) = (Queues::new(queue), Queues::new(queue));
        let limits = match (config.slots, config.user_slots) {
            (0, 0) => "`slots` of the group",
            (_, 0) => "`slots` of the group and of [admission], which bounds all groups",
            (0, _) => "`slots` of the group and `user_slots` of [admission]",
            (_, _) => "`slots` of the group, and `slots` and `user_slots` of [admission]",
        };
        let groups = configs.into_iter().enumerate().map(|(group_queue, (name, config))| {
            let (here, spread) = (here.clone(), spread.clone());
            let (size, refused) = (size(&config), AtomicU64::new(0));
            let spread_size = AtomicUsize::new(size);
            let group = Group { name, config, size, spread_size, limits, refused, here, spread, group_queue };
            (group.name.clone(), Arc::new(group))
        });
        Self { groups: groups.collect(), own_slots }
    }

    /// Slots of a group that are for the threads of this node, if the configuration gives no other number.
    pub fn own_slots(&self) -> usize {
        self.own_slots
    }

    /// Sets the slots of each group for queries that other nodes compute, unless the configuration says how many.
    pub fn resize_spread(&self, slots: usize) {
        for group in self.groups.values().filter(|group| group.config.slots == 0) {
            group.spread_size.store(slots, Ordering::Relaxed);
            group.spread.all().into_iter().for_each(|queue| queue.resize(group.group_queue, slots));
        }
    }

    /// Queries that other nodes compute, or that wait for it.
    pub fn spread(&self) -> usize {
        let counts = self.groups.values().map(|group| group.spread.count(group.group_queue));
        counts.map(|(running, waiting)| running + waiting).sum()
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
        let (here, spread) = (self.here.count(self.group_queue), self.spread.count(self.group_queue));
        (here.0 + spread.0, here.1 + spread.1)
    }

    /// Slots for long queries that other nodes compute, and as many again for short ones.
    pub fn spread_size(&self) -> usize {
        self.spread_size.load(Ordering::Relaxed)
    }

    /// Waits for a slot. Dropping the wait gives up the place.
    pub async fn admit(&self, queue: Queue, site: Site, entry: &Entry) -> Result<Slot> {
        let most = self.config.queue_length;
        let (queues, size) = match site {
            Site::Here => (&self.here, self.size),
            Site::Spread => (&self.spread, self.spread_size()),
        };
        let line = match queue {
            Queue::Short => &queues.short,
            Queue::Long => &queues.long,
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
            // A full group queue dropped the place: the fair queue itself lives as long as the server.
            Ok(Err(_)) => Err(self.too_many(format!(
                "{most} wait for a slot of resource group `{}`, most of them of this user",
                self.name
            ))),
            Err(_) => Err(self.too_many(format!(
                "waited {timeout:?} for one of {} slots of resource group `{}`",
                size, self.name
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
