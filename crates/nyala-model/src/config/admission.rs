//! Settings of admission: resource groups, and the slots of large queries.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::values::size;
use super::{InvalidConfig, check};

/// Admission of large queries.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AdmissionConfig {
    /// Resource groups by name. Sessions without a group are in `default`. Default none.
    pub groups: BTreeMap<String, GroupConfig>,
    /// Large queries of all groups that run at once; groups divide them by weight. 0 means the sum of the
    /// slots of all groups. Default 0.
    pub slots: usize,
    /// Large queries of one user that run at once; further ones wait. 0 means no such limit. Default 0.
    pub user_slots: usize,
}

/// Queries that share slots. Queries answered by cuboids need no slot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GroupConfig {
    /// Queries that run at once; 0 means two for each thread. More share memory and time. Default 0.
    pub slots: usize,
    /// Its share of the slots of all groups, relative to the other weights, at least 1. Default 1.
    pub weight: usize,
    /// Queries that may wait for a slot; more are refused. Default 1000.
    pub queue_length: usize,
    /// How long a query waits for a slot before it is refused, in milliseconds. Default 60000.
    pub queue_timeout_ms: u64,
    /// Memory limit of one query, in bytes, before it spills or fails; 0 means its share of all. Default 0.
    #[serde(deserialize_with = "size")]
    pub query_memory_bytes: usize,
    /// Users of the group. Default none.
    pub users: Vec<String>,
    /// Schemas of sessions that belong to the group, unless their user is in one. Default none.
    pub schemas: Vec<String>,
    /// Roles with members that may choose the group by `SET nyala.resource_group`, besides superusers.
    /// Default none: every role may.
    pub roles: Vec<String>,
}

impl Default for GroupConfig {
    fn default() -> Self {
        Self {
            slots: 0,
            weight: 1,
            queue_length: 1000,
            queue_timeout_ms: 60_000,
            query_memory_bytes: 0,
            users: Vec::new(),
            schemas: Vec::new(),
            roles: Vec::new(),
        }
    }
}

impl AdmissionConfig {
    pub(super) fn validate(&self) -> Result<(), InvalidConfig> {
        for group in self.groups.values() {
            check(group.weight > 0, "admission.groups.NAME.weight", "at least 1", &group.weight)?;
        }
        Ok(())
    }
}
