//! The HTTP door: SQL in, JSON, CSV or Arrow out; health and metrics beside it.

mod body;
mod changes;
mod compress;
mod compressed;
mod console;
mod door;
pub mod formats;
mod front;
mod health;
mod jobs;
mod openapi;
mod profiles;
mod queries;
mod query;
mod request;
mod router;
mod rows;
mod whole;

pub use door::HttpDoor;
pub use router::{kylin_router, router};
