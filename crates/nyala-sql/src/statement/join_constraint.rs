//! The constraint of a join in FROM, and the sides whose unmatched rows it keeps.

use datafusion::sql::sqlparser::ast::{JoinConstraint, JoinOperator, TableFactor, TableWithJoins};

/// The constraint of a join that PostgreSQL has, as a reference that is mutable if `$operator` is.
macro_rules! constraint {
    ($operator:expr) => {
        match $operator {
            JoinOperator::Join(constraint)
            | JoinOperator::Inner(constraint)
            | JoinOperator::Left(constraint)
            | JoinOperator::LeftOuter(constraint)
            | JoinOperator::Right(constraint)
            | JoinOperator::RightOuter(constraint)
            | JoinOperator::FullOuter(constraint) => Some(constraint),
            _ => None,
        }
    };
}

/// The constraint of a join that PostgreSQL has; none for other joins.
pub fn constraint_of(operator: &JoinOperator) -> Option<&JoinConstraint> {
    constraint!(operator)
}

/// The constraint of a join that PostgreSQL has, to be replaced.
pub fn constraint_mut(operator: &mut JoinOperator) -> Option<&mut JoinConstraint> {
    constraint!(operator)
}

/// Whether a join in a FROM merges columns, by USING or NATURAL.
pub fn merges(from: &TableWithJoins) -> bool {
    let within = |table: &TableFactor| match table {
        TableFactor::NestedJoin { table_with_joins, .. } => merges(table_with_joins),
        _ => false,
    };
    within(&from.relation)
        || from.joins.iter().any(|join| within(&join.relation) || is_merging(&join.join_operator))
}

/// Whether a join merges columns.
pub fn is_merging(operator: &JoinOperator) -> bool {
    matches!(constraint_of(operator), Some(JoinConstraint::Using(_) | JoinConstraint::Natural))
}

/// The sides of a join whose unmatched rows are in its result.
#[derive(Clone, Copy)]
pub enum Kept {
    Neither,
    Left,
    Right,
    Both,
}

impl Kept {
    pub fn by(operator: &JoinOperator) -> Self {
        match operator {
            JoinOperator::Left(_) | JoinOperator::LeftOuter(_) => Self::Left,
            JoinOperator::Right(_) | JoinOperator::RightOuter(_) => Self::Right,
            JoinOperator::FullOuter(_) => Self::Both,
            _ => Self::Neither,
        }
    }
}
