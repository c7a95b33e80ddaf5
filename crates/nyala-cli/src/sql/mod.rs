//! `nyala sql`: statements from the command line, a file or a prompt, run in this process or by a
//! server.

mod batch;
mod client;
mod command;
mod embedded;
mod meta;
mod output;
mod remote;
mod repl;
mod table;
mod target;

pub use client::Outcome;
pub use command::command;
pub use output::duration;
pub use target::connect;
