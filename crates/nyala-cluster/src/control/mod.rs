//! Small requests between nodes, as actions of Arrow Flight: one message there, one back.

mod messages;
mod send;
mod serve;

pub use send::ask;
pub use serve::answer;
