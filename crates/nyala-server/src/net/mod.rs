//! Connections of every door: accepting, bounding and encrypting them.

mod accept;
mod certificate;
pub(crate) mod keepalive;
pub(crate) mod pending;
pub mod tls;
pub mod validity;

pub use accept::{Accept, attend_all};
