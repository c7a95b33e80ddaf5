//! HTTP below its routes: connections, their places, logins, origins of web pages, and errors.

mod caller;
mod connections;
mod errors;
mod place;
mod serve;
mod shared;

pub mod login;
pub mod origin;

pub use caller::{Caller, caller};
pub use connections::{Connections, OpenConnection, Peer};
pub use errors::ApiError;
pub use serve::serve;
pub use shared::{Phase, Readiness, Shared};
