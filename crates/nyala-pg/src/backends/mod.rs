//! The connections of this process, as functions of sessions see them: which there are, what they are told, and the locks
//! that they hold.

mod backend;
mod functions;
mod locks;
mod registry;

pub use backend::{Action, Asleep, Backend, Notification, Signals};
pub use functions::{WITH_SESSION, register};
pub use registry::{BACKENDS, Backends};
