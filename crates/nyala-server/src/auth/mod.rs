//! Authentication of clients by passwords and tokens.
//!
//! The PostgreSQL door asks for a proof by SCRAM-SHA-256 ([`scram`](crate::pgwire)), the HTTP door for a password
//! or for a token that a password was exchanged for. The engine decides the privileges of the role.

mod authenticator;
mod credentials;
mod proofs;
mod shared_tokens;
mod tokens;

pub use authenticator::Authenticator;
pub(crate) use authenticator::Refusal;
pub(crate) use credentials::Credentials;
pub(crate) use tokens::{Ends, key as token_key};
