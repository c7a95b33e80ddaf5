//! `CREATE CUBE`, `BUILD CUBE` with its kin, and `RECOMMEND CUBE`, parsed.

use std::fmt;

use datafusion::sql::sqlparser::ast::{Expr, Ident, ObjectName, Query};
use nyala_model::Step;

use super::options::{StatementOption, show_options};

/// The parts of a `CREATE CUBE` statement.
#[derive(Debug, Clone)]
pub struct CreateCube {
    /// Name of the new cube.
    pub name: ObjectName,
    /// Whether an existing cube is no error.
    pub if_not_exists: bool,
    /// How the cube is divided into segments.
    pub partition: Option<PartitionClause>,
    /// Automatic work on the cube's segments.
    pub options: Vec<StatementOption>,
    /// The SELECT, as written.
    pub query: Box<Query>,
}

/// `PARTITION BY RANGE (column) EVERY step`
#[derive(Debug, Clone)]
pub struct PartitionClause {
    /// A column of the first table in FROM.
    pub column: String,
    /// The step, if it is one of days or months. None for a step in seconds, and without EVERY.
    pub step: Option<Step>,
    /// The step in seconds, if it is shorter than a day.
    pub seconds: Option<i64>,
    /// The step as written.
    pub text: String,
}

/// The parts of a `BUILD CUBE` statement and its kin.
#[derive(Debug, Clone)]
pub struct BuildCube {
    /// The action.
    pub action: BuildAction,
    /// The cube.
    pub name: ObjectName,
    /// Whether the statement lasts as long as its job, and cancels the job if it is cancelled. If not, its answer is the job's number.
    pub waits: bool,
    /// The first value of the range, and the first after it; all ranges when absent.
    pub range: Option<(Expr, Expr)>,
}

/// An action on the segments of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuildAction {
    /// Builds missing and stale segments; all segments if the cube has one only.
    Build,
    /// Builds all segments anew.
    Refresh,
    /// Makes one segment of all.
    Merge,
}

/// The parts of a `RECOMMEND CUBE` statement.
#[derive(Debug, Clone)]
pub struct Recommend {
    /// The queries that the cube is to answer.
    pub scope: RecommendFor,
    /// The budget.
    pub options: Vec<StatementOption>,
}

/// The queries that a recommendation is for.
#[derive(Debug, Clone)]
pub enum RecommendFor {
    /// Queries whose tables are all in this schema.
    Schema(Ident),
    /// Queries that read this table.
    Table(ObjectName),
}

impl fmt::Display for CreateCube {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let condition = if self.if_not_exists { "IF NOT EXISTS " } else { "" };
        write!(f, "CREATE CUBE {condition}{}", self.name)?;
        if let Some(clause) = &self.partition {
            write!(f, " PARTITION BY RANGE ({})", Ident::with_quote('"', &clause.column))?;
            if !clause.text.is_empty() {
                write!(f, " EVERY {}", clause.text)?;
            }
        }
        if !self.options.is_empty() {
            write!(f, " WITH {}", show_options(&self.options))?;
        }
        write!(f, " AS {}", self.query)
    }
}

impl fmt::Display for BuildCube {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match self.action {
            BuildAction::Build => "BUILD",
            BuildAction::Refresh => "REFRESH",
            BuildAction::Merge => "MERGE",
        };
        write!(f, "{verb} CUBE {}", self.name)?;
        if !self.waits {
            f.write_str(" WITH (wait = off)")?;
        }
        match &self.range {
            Some((from, to)) => write!(f, " FROM {from} TO {to}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Recommend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.scope {
            RecommendFor::Schema(name) => write!(f, "RECOMMEND CUBE FOR SCHEMA {name}")?,
            RecommendFor::Table(name) => write!(f, "RECOMMEND CUBE FOR TABLE {name}")?,
        }
        match self.options.as_slice() {
            [] => Ok(()),
            options => write!(f, " WITH {}", show_options(options)),
        }
    }
}
