//! Identities of sessions, and the check of passwords.

mod identity;
mod password;

pub use identity::Identity;
pub use password::{ScramVerifier, check_password, new_password};
