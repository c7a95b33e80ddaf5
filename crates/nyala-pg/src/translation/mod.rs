//! SQL of PostgreSQL's clients and tools, as the engine takes it.
//!
//! ```text
//! rewrite ─┬─▶ dialect        spellings, and queries of tools, by their shape
//!          ├─▶ object_casts   casts to `regclass` and the like
//!          ├─▶ system_columns columns that every table has, such as `tableoid`
//!          ├─▶ session_functions, session_tables   values of the session
//!          ├─▶ empty_tables   joins with system tables that have no rows
//!          └─▶ placeholders   parameters that a rewritten statement would have lost
//! ```
//!
//! `walk` visits a statement with rules; `snippets` parses the pieces that rules put in.

/// Name of the dialect, for sessions with translated texts.
pub const DIALECT: &str = "postgresql";

pub mod dialect;
pub mod empty_tables;
pub mod object_casts;
pub mod placeholders;
pub mod rewrite;
pub mod session_facts;
mod session_functions;
mod session_tables;
pub mod snippets;
pub mod system_columns;
pub mod walk;

pub use session_tables::NAMES as SESSION_TABLES;
