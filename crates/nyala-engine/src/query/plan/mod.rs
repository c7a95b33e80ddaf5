//! Statements as plans, before anything runs: functions of a statement, a snapshot and settings.

pub mod budget;
pub mod cost_class;
pub mod exact;
pub mod kept;
pub mod logical;
pub mod origins;
pub mod parameters;
pub mod parts;
pub mod physical;
pub mod placeholders;
pub mod reads;
pub mod returning;
