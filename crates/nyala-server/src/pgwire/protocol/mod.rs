//! Messages: connections from their first byte to their last, and the work that each message asks for.

pub mod cancel;
pub mod connection;
pub mod counted;
pub mod extended;
pub mod listen;
pub mod login;
pub mod messages;
pub mod portal;
pub mod scram;
pub mod server;
pub mod silence;
pub mod simple;
pub mod startup;
pub mod stream;
pub mod transaction;

pub use listen::{Listener, LocalSocket};
pub use server::serve;
