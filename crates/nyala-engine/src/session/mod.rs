//! The context in which a query is planned: one catalog snapshot with its tables, cubes, functions and settings.

mod base;
mod behind_filters;
mod context;
mod cubes;
mod derived_values;
mod distinct_sums;
mod extension;
mod false_claims;
mod filter_in_scan;
mod forget;
mod groups_in_scan;
mod hide_casts;
mod insert_yields;
mod interruptible;
mod interruptible_rules;
mod keys;
mod keys_by_place;
mod null_safe_joins;
mod pass;
mod physical;
mod pinned_filters;
mod planner;
mod push_filters;
mod qualified_constants;
mod schema;
mod settings;
mod tables;
mod temporary;
pub mod titles;
mod union_names;
mod views;
mod windows;
mod wrapped_rule;
mod yielding;

pub use base::BaseState;
pub use context::{ContextSource, SnapshotContext};
pub use extension::SessionExtension;
pub use forget::{Forgotten, forget, forgotten};
pub use insert_yields::{insert_yields, remove_checks, remove_yields};
pub use pass::{Pass, PassExec};
pub use physical::is_plain;
pub use settings::{SettingValue, Settings, unknown as unknown_setting};
pub use temporary::{TEMPORARY_SCHEMA, Temporary};
pub use windows::interrupted;
pub use yielding::is_yield;

/// The one database that clients see.
pub const DATABASE: &str = "nyala";
/// The schema of names without one, unless the session chose another.
pub const DEFAULT_SCHEMA: &str = "public";
