//! The version of the program, which nodes compare before one does a part of another's work.
//!
//! Operators travel between nodes in the form of DataFusion, which may mean something else by them in another version, and states of
//! aggregates may differ. Whole statements and requests travel as texts and numbers, and may be of any version that speaks the protocol.

use nyala_model::{NodeEntry, NodeId};
use nyala_sql::error::Result;

use super::elsewhere::not_reached;

/// The version of this program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Whether a node runs the same program.
pub fn is_of_this_version(node: &NodeEntry) -> bool {
    node.version == VERSION
}

/// Refuses to do a part of the work of a node that runs the program of this version: the list of nodes may be older than its start.
///
/// # Errors
/// The other node runs another version, and then does without this one.
pub fn check_version(own: &NodeId, asking: &NodeId, version: &str) -> Result<()> {
    if version == VERSION {
        return Ok(());
    }
    let theirs = if version.is_empty() { "an older one" } else { version };
    Err(not_reached(own, &format!("it runs version {VERSION}, and node `{asking}` {theirs}")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::query::nodes::is_of_node;

    #[test]
    fn parts_of_another_version_go_to_another_node() {
        let (own, asking) = (NodeId("n1".to_owned()), NodeId("n2".to_owned()));
        check_version(&own, &asking, VERSION).unwrap();
        for (version, told) in [("0.0.9", "node `n2` 0.0.9"), ("", "node `n2` an older one")] {
            let refused = check_version(&own, &asking, version).unwrap_err();
            assert!(is_of_node(&refused) && refused.message.ends_with(told), "{refused}");
        }
    }
}
