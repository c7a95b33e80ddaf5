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

pub use base::BaseState;
pub use bytes::bytes_of_text;
pub use context::{ContextSource, SnapshotContext};
pub use extension::SessionExtension;
pub use guards::PARAMETER;
pub use lists::lists_may_overlap;
pub use overflow::check_overflow_in;
pub use physical::is_plain;
pub use rounding::round_casts_in;
pub use settings::SettingValue;
pub use settings::{Settings, unknown as unknown_setting};

/// The one database that clients see.
pub const DATABASE: &str = "nyala";
/// The schema of names without one, unless the session chose another.
pub const DEFAULT_SCHEMA: &str = "public";
