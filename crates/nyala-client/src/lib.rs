//! Building blocks of terminal clients of a server: encryption, splitting of texts into statements, errors
//! with hints.
//!
//! `nyala sql` and the load generator use it. This crate deliberately knows no part of the server.

pub mod report;
pub mod split;
pub mod tls;
