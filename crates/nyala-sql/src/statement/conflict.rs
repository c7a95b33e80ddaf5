//! ON CONFLICT of an INSERT, which DataFusion's planner refuses.
//!
//! An INSERT replaces whole rows. DO UPDATE does the same if it gives every column of the row that is not
//! part of the key its new value. Whether it does can be checked only once the table is known.

use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, ConflictTarget, DoUpdate, Expr, Insert, OnConflict, OnConflictAction,
    OnInsert,
};

use nyala_model::QualifiedName;

use super::versions::{folded, is, last};
use super::writing::{IfExists, fold_targets};
use crate::error::{ErrorKind, QueryError, Result};

/// The columns of an ON CONFLICT, to be checked against those of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The columns that the clause names as the key; none if it names none.
    target: Option<Vec<String>>,
    /// The columns of DO UPDATE; none for DO NOTHING.
    replaced: Option<Replaced>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Replaced {
    /// Columns that get the values of the new row.
    set: Vec<String>,
    /// Columns that the INSERT names; none if it names none, which means all.
    inserted: Option<Vec<String>>,
}

/// Takes the ON CONFLICT out of the statement.
pub fn take(insert: &mut Insert) -> Result<(IfExists, Option<Conflict>)> {
    let conflict = match insert.on.take() {
        None => return Ok((IfExists::Replace, None)),
        Some(OnInsert::OnConflict(conflict)) => conflict,
        Some(other) => return Err(unsupported(format!("`INSERT …{other}` is not supported"))),
    };
    let target = target_of(&conflict)?;
    Ok(match conflict.action {
        OnConflictAction::DoNothing => (IfExists::Keep, Some(Conflict { target, replaced: None })),
        OnConflictAction::DoUpdate(update) => {
            let replaced = Some(replaced(update, insert)?);
            (IfExists::Replace, Some(Conflict { target, replaced }))
        }
    })
}

/// The columns that the clause names as the key; none if it names none.
fn target_of(conflict: &OnConflict) -> Result<Option<Vec<String>>> {
    match &conflict.conflict_target {
        None => Ok(None),
        Some(ConflictTarget::Columns(columns)) => Ok(Some(columns.iter().map(folded).collect())),
        Some(ConflictTarget::OnConstraint(_)) => {
            Err(unsupported("ON CONFLICT ON CONSTRAINT is not supported")
                .hint("name the columns of the primary key: `ON CONFLICT (column, …)`"))
        }
    }
}

/// Fails if the clause names other columns than those of the key.
pub fn check_target(conflict: &OnConflict, key: &[String]) -> Result<()> {
    let key: Vec<&str> = key.iter().map(String::as_str).collect();
    Conflict { target: target_of(conflict)?, replaced: None }.check(&key, &[])
}

fn replaced(mut update: DoUpdate, insert: &Insert) -> Result<Replaced> {
    fold_targets(&mut update.assignments)?;
    let set: Option<Vec<String>> = update.assignments.iter().map(excluded).collect();
    let Some(set) = set.filter(|_| update.selection.is_none()) else {
        return Err(unsupported("this ON CONFLICT … DO UPDATE is not supported").hint(
            "set each column that is not of the key to EXCLUDED.column, without WHERE; a plain INSERT replaces rows \
             with the same key, too",
        ));
    };
    let names = &insert.columns;
    let inserted = (!names.is_empty()).then(|| names.iter().filter_map(last).map(folded).collect());
    Ok(Replaced { set, inserted })
}

/// The column, if the assignment gives it the value of the same column of the new row.
fn excluded(assignment: &Assignment) -> Option<String> {
    let AssignmentTarget::ColumnName(target) = &assignment.target else { return None };
    let Expr::CompoundIdentifier(parts) = &assignment.value else { return None };
    let [table, column] = parts.as_slice() else { return None };
    let (target, column) = (folded(last(target)?), folded(column));
    (is(table, "excluded") && target == column).then_some(column)
}

impl Conflict {
    /// Refuses a clause that needs a key, for a table without one.
    pub fn check_without_key(&self, table: &QualifiedName) -> Result<()> {
        if self.target.is_none() && self.replaced.is_none() {
            return Ok(());
        }
        let message = format!("ON CONFLICT needs a primary key, and table `{table}` has none");
        Err(QueryError::new(ErrorKind::InvalidDefinition, message)
            .hint("make a table with PRIMARY KEY (column, …), and insert these rows into it"))
    }

    /// Refuses a clause that the table cannot serve, with the columns of its `key` and all its `columns`.
    pub fn check(&self, key: &[&str], columns: &[&str]) -> Result<()> {
        if let Some(target) = &self.target
            && !(target.iter().all(|column| key.contains(&column.as_str()))
                && key.iter().all(|column| has(target, column)))
        {
            let (given, key) = (target.join(", "), key.join(", "));
            let message = format!("ON CONFLICT ({given}) does not name the primary key, which is ({key})");
            return Err(unsupported(message)
                .hint(format!("write `ON CONFLICT ({key})`; nothing else is unique in a live table")));
        }
        match &self.replaced {
            Some(replaced) => replaced.check(key, columns),
            None => Ok(()),
        }
    }
}

impl Replaced {
    fn check(&self, key: &[&str], columns: &[&str]) -> Result<()> {
        let inserted = |column: &str| self.inserted.as_ref().is_none_or(|names| has(names, column));
        let known = |column: &str| columns.contains(&column) || self.inserted.is_some() && inserted(column);
        if let Some(unknown) = self.set.iter().find(|column| !known(column)) {
            let message = format!("column `{unknown}` does not exist");
            return Err(QueryError::new(ErrorKind::UndefinedColumn, message)
                .hint("`DESCRIBE table` lists the columns of a table"));
        }
        let left = columns.iter().filter(|column| !key.contains(column));
        let left = left.filter(|column| !(has(&self.set, column) && inserted(column)));
        let left: Vec<String> = left.map(|column| format!("`{column}`")).collect();
        if left.is_empty() {
            return Ok(());
        }
        let left = left.join(", ");
        let message =
            format!("ON CONFLICT … DO UPDATE replaces the whole row, and nothing is said of {left}");
        Err(unsupported(message).hint(
            "name every column in the INSERT, and set each that is not of the key to EXCLUDED.column; UPDATE changes some \
             columns and leaves the others",
        ))
    }
}

fn has(names: &[String], column: &str) -> bool {
    names.iter().any(|name| name == column)
}

fn unsupported(message: impl Into<String>) -> QueryError {
    QueryError::new(ErrorKind::Unsupported, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn the_target_is_the_key_in_any_order() {
        for (target, fits) in [
            (None, true),
            (Some("k l"), true),
            (Some("l k"), true),
            (Some("k"), false),
            (Some("k l a"), false),
            (Some("a"), false),
        ] {
            let conflict = Conflict { target: target.map(names), replaced: None };
            assert_eq!(conflict.check(&["k", "l"], &["k", "l", "a"]).is_ok(), fits, "{target:?}");
        }
    }

    #[test]
    fn a_row_is_replaced_as_a_whole() {
        for (set, inserted, expected) in [
            ("a b", None, ""),
            ("b a", Some("k a b"), ""),
            ("k a b", None, ""),
            ("a b _version", Some("k a b _version"), ""),
            ("a", None, "nothing is said of `b`"),
            ("a b", Some("k b"), "nothing is said of `a`"),
            ("k", Some("k"), "nothing is said of `a`, `b`"),
            ("a b c", None, "column `c` does not exist"),
        ] {
            let replaced = Replaced { set: names(set), inserted: inserted.map(names) };
            let checked = replaced.check(&["k"], &["k", "a", "b"]);
            let error = checked.err().map(|error| error.message).unwrap_or_default();
            let fits = if expected.is_empty() { error.is_empty() } else { error.ends_with(expected) };
            assert!(fits, "{set} {inserted:?}: {error}");
        }
    }
}
