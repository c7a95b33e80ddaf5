//! The context in which a query is planned: one catalog snapshot with its tables, cubes, functions and settings.

mod arrays;
mod base;
mod bytes;
mod casts;
mod constants;
mod context;
mod cubes;
mod extension;
mod filter_in_scan;
mod groups_in_scan;
mod guards;
mod insert_yields;
mod interruptible;
mod interruptible_rules;
mod lists;
mod overflow;
mod physical;
mod planner;
mod rounding;
mod schema;
mod settings;
mod tables;
mod texts;
mod times;
mod windows;
mod yielding;

pub(crate) use base::BaseState;
pub(crate) use bytes::bytes_of_text;
pub(crate) use context::{ContextSource, SnapshotContext};
pub use extension::SessionExtension;
pub(crate) use guards::PARAMETER;
pub(crate) use lists::lists_may_overlap;
pub(crate) use overflow::check_overflow_in;
pub(crate) use physical::is_plain;
pub(crate) use rounding::round_casts_in;
pub use settings::SettingValue;
pub(crate) use settings::{Settings, unknown as unknown_setting};

/// The one database that clients see.
pub(crate) const DATABASE: &str = "nyala";
/// The schema of names without one, unless the session chose another.
pub(crate) const DEFAULT_SCHEMA: &str = "public";
