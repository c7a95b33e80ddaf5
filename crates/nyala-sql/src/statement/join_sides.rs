//! The columns of a FROM, or of one side of a join: for `*`, and for names of columns that joins have merged.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, ExcludeSelectItem, Expr, Ident, JoinConstraint, JoinOperator, ObjectName, SelectItem,
    SelectItemQualifiedWildcardKind, TableAlias, TableFactor, Value, VisitMut, WildcardAdditionalOptions,
};

use super::clauses::unsupported;
use super::join_constraint::{Kept, constraint_mut, constraint_of};
use super::outside_subqueries::change_outside_subqueries;
use super::snippets::parse_expr;
use super::titles::unmarked;
use super::versions::folded;
use crate::error::{ErrorKind, QueryError, Result};

/// The columns of a FROM, or of one side of a join, in the order of `*`.
#[derive(Debug, Default)]
pub struct Side {
    parts: Vec<Part>,
}

#[derive(Debug)]
enum Part {
    /// A column that a join has merged.
    Merged { name: String, value: Box<Expr> },
    /// The columns of a relation, without those that were merged.
    Relation {
        name: Option<Ident>,
        /// Whether the relation is named with its schema: the planner does not find it for `name.*`.
        in_schema: bool,
        columns: Option<Vec<String>>,
        merged: Vec<String>,
    },
}

impl Side {
    /// The columns of one relation, with the names that its alias gives them; none if they are not known.
    pub fn of(table: &TableFactor, columns: Option<Vec<String>>) -> Self {
        let columns = renamed(columns, alias_of(table));
        let in_schema = matches!(table, TableFactor::Table { name, alias: None, .. } if name.0.len() > 1);
        let relation = Part::Relation { name: relation(table), in_schema, columns, merged: Vec::new() };
        Self { parts: vec![relation] }
    }

    /// The columns of both sides, without a join.
    pub fn beside(mut self, right: Self) -> Self {
        self.parts.extend(right.parts);
        self
    }

    /// The names of all columns; none if they are not known.
    pub fn names(&self) -> Option<Vec<String>> {
        let mut names = Vec::new();
        for part in &self.parts {
            match part {
                Part::Merged { name, .. } => names.push(name.clone()),
                Part::Relation { columns, merged, .. } => {
                    names.extend(columns.as_ref()?.iter().filter(|name| !merged.contains(name)).cloned());
                }
            }
        }
        Some(names)
    }

    /// The names of the columns of one relation, merged or not.
    pub fn names_of(&self, relation: &str) -> Option<Vec<String>> {
        self.parts.iter().find_map(|part| match part {
            Part::Relation { name: Some(name), columns, .. } if folded(name) == relation => columns.clone(),
            _ => None,
        })
    }

    /// The names that both sides have; none if they are not known.
    fn common(&self, right: &Self, hidden: &str) -> Option<Vec<String>> {
        let (left, right) = (self.names()?, right.names()?);
        Some(left.into_iter().filter(|name| name != hidden && right.contains(name)).collect())
    }

    /// Joins two sides; none if too little is known about their columns.
    pub fn join(
        mut self,
        mut right: Self,
        operator: &mut JoinOperator,
        hidden: &str,
    ) -> Result<Option<Self>> {
        let kept = Kept::by(operator);
        let names: Vec<String> = match constraint_of(operator) {
            Some(JoinConstraint::Using(names)) => {
                names.iter().filter_map(|name| name.0.last()?.as_ident().map(folded)).collect()
            }
            Some(JoinConstraint::Natural) => match self.common(&right, hidden) {
                Some(names) => names,
                None => return Ok(None),
            },
            Some(JoinConstraint::On(_) | JoinConstraint::None) | None => {
                let both = self.beside(right);
                if let Some(JoinConstraint::On(condition)) = constraint_mut(operator) {
                    both.replace_names(condition, &[]);
                }
                return Ok(Some(both));
            }
        };
        let (mut merged, mut conditions) = (Vec::new(), Vec::new());
        for name in names {
            let of_both = (self.take(&name, "left")?, right.take(&name, "right")?);
            let (Some(of_left), Some(of_right)) = of_both else { return Ok(None) };
            conditions.push(operation(of_left.clone(), BinaryOperator::Eq, of_right.clone()));
            let value = match kept {
                Kept::Both => parse_expr(&format!("coalesce({of_left}, {of_right})"))?,
                Kept::Right => of_right,
                Kept::Left | Kept::Neither => of_left,
            };
            merged.push(Part::Merged { name, value: Box::new(value) });
        }
        if let Some(constraint) = constraint_mut(operator) {
            let all = conditions.into_iter().reduce(|all, next| operation(all, BinaryOperator::And, next));
            let always = || Expr::Value(Value::Boolean(true).into());
            *constraint = JoinConstraint::On(all.unwrap_or_else(always));
        }
        Ok(Some(Self { parts: merged }.beside(self).beside(right)))
    }

    /// Merges the column of this name: `*` no longer shows it in its relation. None if it is not known which relation has it.
    fn take(&mut self, column: &str, side: &str) -> Result<Option<Expr>> {
        let having = |has: Option<bool>| {
            let parts = self.parts.iter().enumerate();
            parts.filter(|(_, part)| part.has(column) == has).map(|(at, _)| at).collect::<Vec<_>>()
        };
        match (having(Some(true)).as_slice(), having(None).as_slice()) {
            ([at], _) | ([], [at]) => Ok(self.take_of(*at, column)),
            ([], []) => {
                let message =
                    format!("column `{column}` specified in USING clause does not exist in {side} table");
                Err(QueryError::new(ErrorKind::UndefinedColumn, message))
            }
            ([], _) => Ok(None),
            _ => {
                let message = format!("common column name `{column}` appears more than once in {side} table");
                Err(QueryError::new(ErrorKind::AmbiguousColumn, message)
                    .hint("join by ON, with the name of a table before the column"))
            }
        }
    }

    fn take_of(&mut self, at: usize, column: &str) -> Option<Expr> {
        if let Some(Part::Relation { name, merged, .. }) = self.parts.get_mut(at) {
            let taken = column_of(name.as_ref()?, column);
            merged.push(column.to_owned());
            return Some(taken);
        }
        match self.parts.remove(at) {
            Part::Merged { value, .. } => Some(*value),
            Part::Relation { .. } => None,
        }
    }

    /// The value that the name of a merged column stands for; none for other names, and for names that several columns have.
    fn meaning(&self, name: &Ident) -> Option<&Expr> {
        let name = folded(name);
        let mut having = self.parts.iter().filter(|part| part.has(&name) == Some(true));
        match (having.next(), having.next()) {
            (Some(Part::Merged { value, .. }), None) => Some(value),
            _ => None,
        }
    }

    /// Replaces names of merged columns by their values, except those in `kept` and those in subqueries.
    pub fn replace_names(&self, part: &mut impl VisitMut, kept: &[String]) {
        change_outside_subqueries(part, |expr| {
            if let Expr::Identifier(name) = expr
                && !kept.contains(&folded(name))
                && let Some(value) = self.meaning(name)
            {
                *expr = value.clone();
            }
        });
    }

    /// The name of an item that is a merged column with its own name.
    pub fn merged_item(&self, item: &SelectItem) -> Option<String> {
        let SelectItem::ExprWithAlias { expr, alias } = item else { return None };
        (self.meaning(alias) == Some(expr)).then(|| folded(alias))
    }

    /// A SELECT list with `*` and names of merged columns written out; none if too little is known.
    pub fn shown(&self, list: &[SelectItem]) -> Result<Option<Vec<SelectItem>>> {
        let mut items = Vec::with_capacity(list.len());
        for item in list {
            match item {
                SelectItem::Wildcard(options) => {
                    if !names_all(options) {
                        return Err(unsupported("a clause behind `*` beside USING", "name the columns"));
                    }
                    let Some(all) = self.items() else { return Ok(None) };
                    items.extend(all);
                }
                SelectItem::UnnamedExpr(Expr::Identifier(name)) => {
                    items.push(match self.meaning(name).cloned() {
                        Some(expr) => SelectItem::ExprWithAlias { expr, alias: name.clone() },
                        None => item.clone(),
                    });
                }
                _ => items.push(item.clone()),
            }
        }
        Ok(Some(items))
    }

    /// The items that `*` stands for; none if a relation has no name.
    pub fn items(&self) -> Option<Vec<SelectItem>> {
        let mut items = Vec::new();
        for part in &self.parts {
            match part {
                Part::Merged { name, value } => items.push(SelectItem::ExprWithAlias {
                    expr: value.as_ref().clone(),
                    alias: Ident::with_quote('"', name.as_str()),
                }),
                Part::Relation { name, in_schema, columns, merged } => {
                    let relation = name.as_ref()?;
                    match columns {
                        // Columns with a generated name are not written out.
                        Some(columns) if columns.iter().all(|name| unmarked(name) == name) => {
                            let own = columns.iter().filter(|name| !merged.contains(name));
                            items.extend(own.map(|name| SelectItem::UnnamedExpr(column_of(relation, name))));
                        }
                        _ if *in_schema => return None,
                        _ => items.push(all_but(relation, merged)),
                    }
                }
            }
        }
        Some(items)
    }
}

impl Part {
    /// Whether the part has a column of this name; none if that is not known.
    fn has(&self, column: &str) -> Option<bool> {
        match self {
            Self::Merged { name, .. } => Some(name == column),
            Self::Relation { merged, .. } if merged.iter().any(|name| name == column) => Some(false),
            Self::Relation { columns, .. } => Some(columns.as_ref()?.iter().any(|name| name == column)),
        }
    }
}

/// The columns, of which the first ones have the names that an alias gives them.
pub fn renamed(columns: Option<Vec<String>>, alias: Option<&TableAlias>) -> Option<Vec<String>> {
    let given = alias.map(|alias| alias.columns.as_slice()).unwrap_or_default();
    if given.is_empty() {
        return columns;
    }
    let others = columns.unwrap_or_default().into_iter().skip(given.len());
    Some(given.iter().map(|column| folded(&column.name)).chain(others).collect())
}

/// Whether a `*` has no clause that leaves out or changes columns.
pub fn names_all(options: &WildcardAdditionalOptions) -> bool {
    options.opt_ilike.is_none()
        && options.opt_exclude.is_none()
        && options.opt_except.is_none()
        && options.opt_replace.is_none()
        && options.opt_rename.is_none()
}

/// All columns of a relation but for some.
fn all_but(relation: &Ident, columns: &[String]) -> SelectItem {
    let columns =
        columns.iter().map(|column| ObjectName::from(vec![Ident::with_quote('"', column.as_str())]));
    let columns: Vec<ObjectName> = columns.collect();
    let options = WildcardAdditionalOptions {
        opt_exclude: (!columns.is_empty()).then_some(ExcludeSelectItem::Multiple(columns)),
        ..WildcardAdditionalOptions::default()
    };
    let name = ObjectName::from(vec![relation.clone()]);
    SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options)
}

fn alias_of(table: &TableFactor) -> Option<&TableAlias> {
    match table {
        TableFactor::Table { alias, .. }
        | TableFactor::Derived { alias, .. }
        | TableFactor::Function { alias, .. }
        | TableFactor::TableFunction { alias, .. }
        | TableFactor::UNNEST { alias, .. }
        | TableFactor::NestedJoin { alias, .. } => alias.as_ref(),
        _ => None,
    }
}

/// The name that qualifies the columns of a table.
pub fn relation(table: &TableFactor) -> Option<Ident> {
    match (alias_of(table), table) {
        (Some(alias), _) => Some(alias.name.clone()),
        (None, TableFactor::Table { name, .. }) => name.0.last()?.as_ident().cloned(),
        (None, _) => None,
    }
}

fn column_of(relation: &Ident, column: &str) -> Expr {
    Expr::CompoundIdentifier(vec![relation.clone(), Ident::with_quote('"', column)])
}

fn operation(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}
