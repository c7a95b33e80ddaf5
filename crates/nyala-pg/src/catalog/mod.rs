//! The system tables and functions that clients of PostgreSQL ask for.
//!
//! ```text
//! snapshot ─▶ database ─┬─▶ tables              pg_catalog: relations, objects, statistics, activity
//!                       ├─▶ information_schema  with standard_names, views without rows
//!                       └─▶ call                functions: descriptions, object_names, privileges
//! ```

mod activity;
mod call;
mod cells;
mod column_types;
mod database;
mod descriptions;
mod functions;
mod information_schema;
mod no_catalogs;
mod object_names;
mod objects;
mod oids;
mod privileges;
mod provider;
mod relations;
mod standard_names;
mod static_names;
mod statistics;
mod tables;
mod text_functions;
mod views;

pub use column_types::{ColumnType, array_element};
pub use database::{DATABASE, Relation, user_relation};
pub use functions::OWNER;
pub use privileges::WITH_ROLE;
pub use provider::PgCatalog;
pub use tables::is_known;
