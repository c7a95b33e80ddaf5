//! Who is at the door: passwords and tokens, and what becomes of them.
//!
//! The PostgreSQL door asks for a proof by SCRAM-SHA-256 ([`scram`](crate::pgwire)), the HTTP door for a password
//! or for a token that a password was exchanged for. What the one at the door may do is the engine's affair.

mod authenticator;
mod credentials;
mod tokens;

pub use authenticator::Authenticator;
pub(crate) use authenticator::Refusal;
pub(crate) use credentials::Credentials;
