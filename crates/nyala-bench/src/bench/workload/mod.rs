//! Workloads: queries with parameters that are drawn anew for each execution.
//!
//! A file holds statements that end with `;`. Comments before a statement describe it; before the first
//! `-- name:` they declare parameters for the whole file:
//!
//! ```sql
//! -- param region: AFRICA | AMERICA | ASIA
//! -- param year: 1992..1997
//!
//! -- name: revenue of two years
//! -- columns: 2
//! -- param next: year + 1
//! SELECT d_year, sum(lo_revenue) FROM … WHERE c_region = {{region}} AND d_year IN ({{year}}, {{next}}) …;
//! ```
//!
//! A hole becomes a literal or, where the mode sends parameters, `$1` and a value beside the text.

mod builtin;
mod declaration;
mod definition;
mod file;
mod hole;
mod query;
mod random;
mod value;

pub use file::{Workload, read, select_one};
pub use query::Query;
pub use random::Random;
pub use value::Value;
