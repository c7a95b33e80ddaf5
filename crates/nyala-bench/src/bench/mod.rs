//! `nyala bench`: how many queries a server handles, how long they take, and which part limits them.
//!
//! It knows servers by their protocols only, so that PostgreSQL and others are measured by the same means.
//! Its report is meant to hold against doubt:
//!
//! - Every answer is read to its end and its rows and columns are counted; a wrong answer is an error, and an
//!   error never counts as handled.
//! - With a fixed arrival rate, times count from when a query *should* have begun. A server that stalls for a
//!   second delays all queries that arrive in that second, and not only the one it was serving.
//! - Queries without an answer when time was up count with the time they had waited.
//! - Numbers of clients may be measured in turns, so that a machine that is slower at times slows all of them.
//! - It measures itself: its own CPU time, and how many `SELECT 1` the same door, mode and number of clients reach.
//!
//! ```text
//! query files ─ workload ─▶ rounds ─▶ load: clients, pace ─▶ door: PostgreSQL or HTTP ─▶ server
//!                                      └─▶ recorder ─▶ report: table, JSON, HTML
//! ```

mod command;
mod door;
mod host;
mod load;
mod report;
mod rounds;
mod workload;

pub use command::{BenchArgs, command};
