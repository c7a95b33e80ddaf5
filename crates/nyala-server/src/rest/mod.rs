//! The HTTP door: SQL in, JSON, CSV or Arrow out; health and metrics beside it.

mod body;
mod caller;
mod changes;
mod compressed;
mod connections;
mod errors;
pub mod formats;
mod health;
mod jobs;
mod login;
mod origin;
mod place;
mod profiles;
mod queries;
mod query;
mod request;
mod router;
mod rows;
mod serve;
mod whole;

pub use connections::{Connections, Peer};
pub use errors::ApiError;
pub use health::{Phase, Readiness};
pub use router::{Shared, router};
pub use serve::serve;
