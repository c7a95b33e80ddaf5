//! The context in which a query is planned: one catalog snapshot with its tables, cubes, functions and settings.
//!
//! - A snapshot is opened in `context`, over what all snapshots share (`base`): its `tables`, which a `schema` finds, `views` and
//!   `cubes`. Other crates add to it (`extension`), also tables that are made when they are read (`made_table`).
//! - A session has `settings`, and `temporary` tables.
//! - While names are resolved: `titles` of columns, `derived_values`, `keys`, `shared_queries`.
//! - Rules of DataFusion's optimizer that would change an answer are held back: `keys` removes what they would misread, and
//!   `wrapped_logical_rule` puts code around them, which is in `distinct_sums`, `null_safe_joins`, `pinned_filters`,
//!   `qualified_constants` and `union_names`.
//! - `planner` makes operators, and `physical_rules` chooses the rules that change them: `wrapped_physical_rule` is DataFusion's with
//!   something around it (`behind_filters`, `false_claims`, `keys_by_place`), `push_filters` takes the place of one, and
//!   `filter_in_scan`, `groups_in_scan`, `hide_casts` and `insert_yields` are further ones. Some read their context (`context_rule`).
//! - Operators that `pass` rows on: `forget` and `yielding`. `shared_rows` computes what several places of a plan read.
//! - What would compute on without end is told that its statement must end: `interruptible_expr`, `interruptible_rules`,
//!   `interruptible_windows`.

mod base;
mod behind_filters;
mod context;
mod context_rule;
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
mod interruptible_expr;
mod interruptible_rules;
mod interruptible_windows;
mod keys;
mod keys_by_place;
mod made_table;
mod merged_joins;
mod null_safe_joins;
mod pass;
mod physical_rules;
mod pinned_filters;
mod planner;
mod push_filters;
mod qualified_constants;
mod schema;
mod settings;
mod shared_queries;
mod shared_rows;
mod sort_keys;
mod tables;
mod temporary;
pub mod titles;
mod union_names;
mod views;
mod wrapped_logical_rule;
mod wrapped_physical_rule;
mod yielding;

pub use base::BaseState;
pub use context::{ContextSource, SnapshotContext};
pub use extension::SessionExtension;
pub use forget::{Forgotten, forget, forgotten};
pub use insert_yields::{insert_yields, remove_checks, remove_yields};
pub use interruptible_windows::interrupted;
pub use made_table::{MadeRows, MadeTable};
pub use pass::{Pass, PassExec};
pub use physical_rules::is_plain;
pub use settings::{SettingValue, Settings, schema_in_path, schemas_in_path, unknown as unknown_setting};
pub use temporary::{TEMPORARY_SCHEMA, Temporary};
pub use views::view_of;
pub use yielding::is_yield;

/// The one database that clients see.
pub const DATABASE: &str = "nyala";
/// The schema of names without one, unless the session chose another.
pub const DEFAULT_SCHEMA: &str = "public";
