//! Plans that are ready to run, by the shape of their text.
//!
//! ```text
//! text ──lift──▶ shape, values ──cache──▶ Template ──values──▶ physical plan ──▶ rows
//!                    └── not there, or not to be used now ──▶ planning as ever, and the second time
//!                                                             a template is made in the background
//! ```
//!
//! A template is a physical plan over cuboids in memory whose filters compare with parameters. Giving it values
//! means to choose blocks of the cuboids anew and to copy a handful of operators; nothing is parsed, rewritten
//! or optimised. Planning without values is what makes it right: whatever a rule could have concluded
//! from a value, it did not. If such a plan would read other cuboids than the plan for the values at hand, the
//! shape has no template, and each of its texts may have one.
//!
//! Only chains of operators in one partition over memory are kept, or over nothing as for `SELECT 1`, because for them
//! planning takes longer than running. They know the listings of files and the catalog only through the context they were made
//! in; another context means other templates.

mod cache;
mod parameter;
mod recall;
mod template;
mod values;

pub(super) use cache::PlanCache;
pub use cache::PlanCacheStats;
pub(super) use recall::Made;
pub(super) use template::{Template, answers_of, check_constant, is_fit};
pub(super) use values::integer;
