//! A part of a build, as one node gives it to another.

use nyala_catalog::{Fence, LeaseToken, Permit};
use nyala_model::{JobId, NodeId, QualifiedName, SegmentRange, SnapshotVersion};

/// Segments that one node makes of a cube, in one pass over their rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildUnit {
    /// The job.
    pub job: JobId,
    /// The node that runs the job.
    pub node: NodeId,
    /// The version of its program.
    pub program: String,
    /// The cube.
    pub cube: QualifiedName,
    /// The rows of each segment.
    pub ranges: Vec<SegmentRange>,
    /// The leases under which segments are recorded, with the tokens that they were taken with: the cube's, and the job's.
    pub leases: Vec<(String, u64)>,
    /// The catalog of the job; the other node must know it.
    pub version: SnapshotVersion,
    /// Whether another node has begun it, and may not know yet that it is not to go on.
    pub again: bool,
}

impl BuildUnit {
    /// The right to record what is made.
    pub fn permit(&self) -> Permit {
        let fence =
            |(lease, token): &(String, u64)| Fence { lease: lease.clone(), token: LeaseToken(*token) };
        Permit::lent(self.leases.iter().map(fence).collect())
    }
}
