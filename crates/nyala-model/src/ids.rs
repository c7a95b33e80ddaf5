//! Newtype ids: a `CubeId` cannot be passed where a `TableId` is meant.
//!
//! ```compile_fail
//! use nyala_model::{CubeId, TableId};
//! let cube: CubeId = TableId(1);
//! ```

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id!(
    /// A registered table; never reused within one catalog.
    TableId
);
id!(
    /// A cube; never reused within one catalog.
    CubeId
);
id!(
    /// One segment of one cube; a rebuilt range gets a new id.
    SegmentId
);
id!(
    /// A background job, a build for instance.
    JobId
);
id!(
    /// Counts catalog transactions. In one history of a catalog, two snapshots with one version hold the same contents.
    SnapshotVersion
);

/// Names a change of a catalog, whatever its version: after a shared catalog went back to an older state, its versions are given
/// again, to other changes. Empty if there was no change yet, and in a catalog that one node has to itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChangeId(pub Arc<str>);

/// A node: one data folder. Its name is made when the folder is, and goes where the folder goes.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeId(pub String);

impl NodeId {
    /// Whether the node `self` owns an entry with this owner. Entries that were written before there were nodes have
    /// no owner: they belong to the only node of their catalog.
    pub fn owns(&self, owner: &Self) -> bool {
        owner.0.is_empty() || owner == self
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
