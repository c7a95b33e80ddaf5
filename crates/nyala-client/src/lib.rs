//! What a program at a terminal needs to be a client of a server: encryption, statements of a text, and errors with the next
//! step.
//!
//! `nyala sql` and the load generator are such programs. This crate deliberately knows nothing of what runs in a server.

pub mod report;
pub mod split;
pub mod tls;
