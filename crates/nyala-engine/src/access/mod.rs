//! Who a session acts for, and what passwords are checked with.

mod identity;
mod password;

pub use identity::Identity;
pub use password::{ScramVerifier, check_password, new_password};
