//! PostgreSQL's meaning of expressions, where DataFusion gives them another.
//!
//! Each difference is one [`Meaning`] in a file of its own; [`TABLE`] has them all, in the order in which they are
//! applied. One driver applies them to plans and to single expressions:
//!
//! ```text
//! text ─▶ names ─▶ Types ─▶ DataFusion's coercion ─▶ Constants ─▶ cubes ─▶ Optimizer ─▶ Operators
//! ```
//!
//! - [`lower_plan`] for queries, as rules of the analyzer and the optimizer, and before operators are chosen;
//! - [`lower_expr`] for an expression that is computed without a query: a DEFAULT, a column of RETURNING;
//! - [`assign()`] for one value that is written to a column: a literal of INSERT, a parameter.
//!
//! `docs/reference/semantics.md` says for each meaning what DataFusion does and what Nyala does.

mod arguments;
mod arrays;
mod assign;
mod bounded;
mod bytes;
pub mod cast_facts;
mod casts;
mod categories;
mod choices;
mod compared_casts;
mod constants;
mod dates;
mod decimals;
mod driver;
mod expressions;
mod guards;
mod integers;
mod interval_groups;
mod intervals;
mod kept_operators;
mod lists;
mod marks;
mod moments;
mod named_casts;
mod overflow;
mod padding;
mod places;
pub mod pruning;
mod quotients;
mod repeated_keys;
mod rounding;
mod rules;
mod sets;
mod shared_rows;
mod similar;
mod subqueries;
mod text_constants;
mod texts;
mod time_texts;
mod times;
mod unknowns;
mod unnamed;
mod uuids;
mod varying;
mod widths;
mod written_types;
mod zeros;
mod zones;

use std::fmt::Debug;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::Expr;

pub use assign::{assign, assign_column};
pub use casts::{as_it_is, is_constant};
pub use categories::check_assignment;
pub use decimals::{DecimalsMeetFloats, exact};
pub use driver::{lower_expr, lower_plan};
pub use guards::{PARAMETER, is_volatile};
pub use intervals::IntervalsInOrder;
pub use lists::lists_may_overlap;
pub use marks::MARK;
pub use rules::MeaningsOf;
pub use shared_rows::SharedRows;
pub use times::TimesOfOneUnit;
pub use unknowns::UnknownTypes;
pub use unnamed::{is_unnamed, is_unnamed_aggregate, unnamed_functions};
pub use varying::varies;
pub use written_types::{WrittenTypes, written_value};

/// A difference between PostgreSQL's meaning of an expression and DataFusion's.
pub trait Meaning: Debug + Send + Sync {
    /// The name of the meaning in the reference.
    fn name(&self) -> &'static str;

    /// Whether the meaning may rewrite this expression. Parts of the expression are asked on their own.
    fn concerns(&self, expr: &Expr) -> bool;

    /// Rewrites an expression whose parts were rewritten before.
    fn rewrite(&self, expr: Expr, scope: &Scope<'_>) -> Result<Transformed<Expr>>;
}

/// The surroundings of an expression.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    /// The columns that the expression may name.
    pub schema: &'a DFSchema,
    /// The settings of the session.
    pub config: &'a ConfigOptions,
    /// Whether the expression decides which rows are kept: then false and NULL mean the same at its top.
    pub is_condition: bool,
}

/// When a meaning is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Before DataFusion settles the types of all sides of an operator.
    Types,
    /// When types are settled, before cubes are matched: what is constant gets its value.
    Constants,
    /// Before each pass of DataFusion's optimizer, to keep its rules from wrong rewrites. Cubes are matched by then, and
    /// operators of other crates in the plan are left alone.
    Optimizer,
    /// Before operators are chosen. Rules and cubes know operators and casts, and not the functions that compute them.
    Operators,
}

/// All meanings, by phase and in their order within it.
pub const TABLE: &[(Phase, &[&dyn Meaning])] = &[
    (
        Phase::Types,
        &[
            &named_casts::NamedCasts,
            &marks::Marks,
            &written_types::WrittenTypes(None),
            &unknowns::UnknownTypes,
            &integers::WholeNumbers,
            &categories::MatchingTypes,
            &integers::ArrayLengths,
            &arrays::ListsOfPostgres,
            &uuids::UuidTexts,
            &time_texts::BytesTexts,
            &times::TimesOfOneUnit,
            &dates::Now,
            &dates::MoreParts,
            &dates::DatesAndIntervals,
            &zones::SessionZone,
            &intervals::IntervalsInOrder,
            &dates::NumbersAreNoDates,
            &arguments::Arguments,
            &expressions::RegularExpressions,
            &similar::SimilarTo,
            &similar::EscapedByBackslash,
            &padding::Padding,
            &decimals::PlainZero,
            &places::DecimalPlaces,
            &decimals::DecimalsMeetFloats,
            &choices::CaseOfNumbers,
            &choices::ShiftsOfOneType,
            &quotients::ExactArithmetic,
            &widths::DecimalsOfOneWidth,
        ],
    ),
    (
        Phase::Constants,
        &[
            &texts::ConstantTexts,
            &dates::DatesAgainstTimes,
            &time_texts::TimeTexts,
            &time_texts::PlainTexts { of: rounding::Of::Constants },
            &rounding::Rounding { of: rounding::Of::Constants },
            &constants::ConstantsRight,
            &lists::DisjointLists,
            &overflow::ConstantsFit,
            &choices::ChoicesOnce,
        ],
    ),
    (
        Phase::Optimizer,
        &[
            &rounding::Rounding { of: rounding::Of::Choices },
            &time_texts::PlainTexts { of: rounding::Of::Choices },
            &casts::KeepCasts,
            &guards::KeepCase,
            &kept_operators::KeepOperators,
        ],
    ),
    (
        Phase::Operators,
        &[
            &zeros::EqualZeros,
            &lists::ComputedValues,
            &repeated_keys::RepeatedKeys,
            &overflow::Overflow,
            &rounding::Rounding { of: rounding::Of::Everything },
            &time_texts::PlainTexts { of: rounding::Of::Everything },
            &bounded::BoundCalls,
            &compared_casts::ComparedCasts,
        ],
    ),
];

/// The meanings of a phase.
fn meanings_of(phase: Phase) -> &'static [&'static dyn Meaning] {
    TABLE.iter().find(|(of, _)| *of == phase).map_or(&[], |(_, meanings)| meanings)
}
