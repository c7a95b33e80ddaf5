//! The nodes that share the catalog, and the way to them.

mod control;
mod elsewhere;
mod membership;

pub use control::{Control, ControlAction, ControlAnswer};
pub use elsewhere::{Alone, Forwarded, Forwarding, OtherNodes, not_confirmed, not_reached};
pub use membership::{Nodes, StatementsOf};
