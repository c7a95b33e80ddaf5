//! `nyala doctor`: checks a configuration and its surroundings before a server starts. Nothing that it makes stays.

mod addresses;
mod bucket;
mod catalog;
mod check;
mod clock;
mod command;
mod configuration;
mod encryption;
mod folders;
mod logins;
mod node;
mod report;
mod resources;

pub use command::{DoctorArgs, command};
