//! The connections of this process, for functions that act on sessions: their list, their signals and notifications, and their
//! advisory locks.

mod backend;
mod functions;
mod locks;
mod registry;

pub use backend::{Action, Asleep, Backend, Notification, Signals};
pub use functions::{WITH_SESSION, register};
pub use registry::{BACKENDS, Backends};
