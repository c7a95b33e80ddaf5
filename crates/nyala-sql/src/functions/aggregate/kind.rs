//! The operations of one aggregate on one group.

use std::fmt::Debug;

use arrow::array::ArrayRef;
use datafusion::common::Result;

use super::groups::{GroupList, Measured, Rows};

/// How an aggregate keeps its groups. The state of a group is one column of bytes.
pub trait Kind: Debug + Send + Sync + 'static {
    /// The data of a group. The default is a group without rows.
    type Group: Default + Debug + Measured + Send + Sync;

    /// The same aggregate without any data.
    fn fresh(&self) -> Self;

    /// Adds rows to their groups. `rows` leaves out filtered rows, and rows with a null as first value.
    fn update(
        &mut self,
        groups: &mut GroupList<Self::Group>,
        rows: &Rows<'_>,
        values: &[ArrayRef],
    ) -> Result<()>;

    /// Adds a state that some other instance encoded.
    fn merge(&mut self, group: &mut Self::Group, state: &[u8]) -> Result<()>;

    /// Appends the state of a group.
    fn encode(&self, group: &mut Self::Group, out: &mut Vec<u8>) -> Result<()>;

    /// The values of groups, which stay as they are.
    fn finish(&self, groups: &mut [Self::Group]) -> Result<ArrayRef>;

    /// Frees data of groups that were emitted; `groups` are the remaining ones. Returns whether they changed.
    fn forget(&mut self, _groups: &mut [Self::Group]) -> Result<bool> {
        Ok(false)
    }

    /// Bytes that belong to no single group.
    fn shared_bytes(&self) -> usize {
        0
    }
}
