//! Cached plans, found by the shape of their text.
//!
//! ```text
//! text ──lift──▶ shape, values ──cache──▶ Template ──values──▶ physical plan ──▶ rows
//!                    └── absent, or unusable now ──▶ normal planning, and the second time
//!                                                a template is made in the background
//! ```
//!
//! A template is a physical plan over cuboids in memory; its filters compare with parameters. Binding
//! values chooses blocks of the cuboids anew and copies a handful of operators; nothing is parsed,
//! rewritten or optimised. A template is correct because it is planned without values: no rule can have
//! concluded anything from one. If such a plan would read other cuboids than the plan for the values at
//! hand, the shape has no template, and each of its texts may have one.
//!
//! Only chains of operators in one partition are kept, over memory, or over nothing as for `SELECT 1`: they
//! take longer to plan than to run. They know the catalog and the listings of files only through the
//! context they were made in; another context needs other templates.

mod cache;
mod parameter;
mod template;

pub use cache::{KeptQuery, Known, PlanBasis, PlanCache, PlanCacheStats, PlanKey};
pub use template::{Answers, Template, answers_of, check_constant, is_fit};
