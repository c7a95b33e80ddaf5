//! Statements that are no queries, one file each; those about cubes and live tables are in rooms of their own.

pub mod commands;
pub mod ddl;
pub mod explain;
pub mod show_history;
pub mod show_setting;
pub mod show_tables;

mod backup;
mod cache;
pub mod kill;
mod relations;
mod roles;
mod unneeded;
