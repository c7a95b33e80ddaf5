//! Statements that the door answers itself, or that have a protocol of their own: settings, PREPARE, COPY.

pub mod arguments;
pub mod command;
pub mod copy;
pub mod copy_out;
pub mod cursors;
pub mod notices;
pub mod session_commands;
pub mod set_values;
pub mod setting_commands;
mod setting_definitions;
pub mod settings;
