//! The nodes that share the catalog, and the way to them.

mod build_unit;
mod control;
mod cuboid_homes;
mod elsewhere;
mod membership;
mod neighbours;
mod version;
mod view;

pub use build_unit::BuildUnit;
pub use control::{Control, ControlAction, ControlAnswer};
pub use cuboid_homes::CuboidNodes;
pub use elsewhere::{
    Alone, Follow, Forwarded, ForwardedLoad, Forwarding, LoadPart, LoadThere, OtherNodes, is_of_node,
    node_not_reached, not_confirmed, not_reached,
};
pub use membership::{Nodes, StatementsOf};
pub use neighbours::NodeCaches;
pub use version::{VERSION, check_version};
