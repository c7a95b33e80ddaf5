//! Building blocks of terminal clients of a server: encryption, passwords, connections over HTTP, splitting of texts into
//! statements, spans of time, errors with hints.
//!
//! `nyala sql`, `nyala ping` and the load generator use it. This crate deliberately knows no part of the server.

pub mod http;
mod password;
pub mod report;
pub mod span;
pub mod split;
pub mod tls;
