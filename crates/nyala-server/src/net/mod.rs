//! Connections of every door: accepting, bounding and encrypting them.

mod accept;
pub(crate) mod keepalive;
pub(crate) mod pending;
pub mod tls;

pub(crate) use accept::{Accept, attend_all};
