//! Columns that JOIN … USING and NATURAL JOIN merge.
//!
//! ```text
//! SELECT *, k + 1 FROM a FULL JOIN b USING (k)
//! SELECT coalesce(a.k, b.k) AS k, a.x, b.y, coalesce(a.k, b.k) + 1 FROM a FULL JOIN b ON a.k = b.k
//! ```
//!
//! The planner takes the column of one table for the merged one, also where the other table has the value. So such joins get
//! conditions here, and names of merged columns become what they stand for.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Distinct, ExcludeSelectItem, Expr, Ident, JoinConstraint, JoinOperator, ObjectName,
    OrderBy, OrderByKind, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, TableAlias,
    TableFactor, TableWithJoins, Value, VisitMut, VisitorMut, WildcardAdditionalOptions,
};

use super::clauses::unsupported;
use super::snippets::{parse_expr, parse_query};
use super::titles::{marked, title_of, unmarked};
use super::versions::folded;
use crate::error::{ErrorKind, QueryError, Result};

/// What is known of the relations in a FROM.
#[derive(Clone, Copy)]
pub struct Known<'a> {
    /// The columns of a relation, without those that its alias names; none if they are not known.
    pub columns_of: &'a dyn Fn(&TableFactor) -> Option<Vec<String>>,
    /// A column that no NATURAL JOIN merges.
    pub hidden: &'a str,
}

/// Gives the joins of a SELECT that merge columns conditions; whether enough is known of their tables. Otherwise the SELECT stays
/// as it is.
pub fn merge_columns(select: &mut Select, order_by: Option<&mut OrderBy>, known: Known<'_>) -> Result<bool> {
    if !select.from.iter().any(merges) {
        return Ok(true);
    }
    let mut from = select.from.clone();
    let Some(side) = side_of_from(&mut from, known)? else { return Ok(false) };
    let Some(projection) = side.shown(&select.projection)? else { return Ok(false) };
    select.from = from;
    select.projection = projection;
    let mut references = References { side: &side, kept: &[], depth: 0 };
    let _ = select.projection.visit(&mut references);
    let _ = select.selection.visit(&mut references);
    let _ = select.group_by.visit(&mut references);
    let _ = select.having.visit(&mut references);
    let _ = select.named_window.visit(&mut references);
    let _ = select.qualify.visit(&mut references);
    merge_in_keys(select, order_by, &side);
    Ok(true)
}

/// A name in DISTINCT ON and ORDER BY is that of an item of the SELECT list, if there is one. A `*` may have any.
fn merge_in_keys(select: &mut Select, order_by: Option<&mut OrderBy>, side: &Side) {
    let Select { distinct, projection, .. } = select;
    let on = match distinct {
        Some(Distinct::On(keys)) => keys.as_mut_slice(),
        _ => &mut [],
    };
    let orders = match order_by {
        Some(OrderBy { kind: OrderByKind::Expressions(orders), .. }) => orders.as_mut_slice(),
        _ => &mut [],
    };
    let kept: Vec<String> = projection.iter().filter_map(|item| side.merged_item(item)).collect();
    let is_item = |key: &Expr| {
        matches!(key, Expr::Identifier(name)
            if projection.iter().any(|item| title_of(item).is_none_or(|title| title == folded(name))))
    };
    for key in on.iter_mut().chain(orders.iter_mut().map(|order| &mut order.expr)) {
        if !is_item(key) {
            let _ = key.visit(&mut References { side, kept: &kept, depth: 0 });
        }
    }
}

/// Refuses joins that nothing has merged, where the planner would take a merged column from the wrong table.
pub fn refuse_unmerged(select: &Select) -> Result<()> {
    let shows_all = select.projection.iter().any(|item| matches!(item, SelectItem::Wildcard(_)));
    select.from.iter().try_for_each(|from| refuse_in(from, shows_all))
}

fn refuse_in(from: &TableWithJoins, shows_all: bool) -> Result<()> {
    let refuse_table = |table: &TableFactor| match table {
        TableFactor::NestedJoin { table_with_joins, alias } => {
            refuse_in(table_with_joins, shows_all || alias.is_some())
        }
        _ => Ok(()),
    };
    refuse_table(&from.relation)?;
    for join in &from.joins {
        refuse_table(&join.relation)?;
        let is_wrong = match Kept::by(&join.join_operator) {
            Kept::Both | Kept::Right => true,
            Kept::Left => shows_all,
            Kept::Neither => false,
        };
        if is_wrong && is_merging(&join.join_operator) {
            return Err(unsupported(
                "USING or NATURAL in an outer join of tables whose columns are not known",
                "join by ON, or put the tables before it in a subquery with a name",
            ));
        }
    }
    Ok(())
}

/// Whether a join in a FROM merges columns.
pub fn merges(from: &TableWithJoins) -> bool {
    let within = |table: &TableFactor| match table {
        TableFactor::NestedJoin { table_with_joins, .. } => merges(table_with_joins),
        _ => false,
    };
    within(&from.relation)
        || from.joins.iter().any(|join| within(&join.relation) || is_merging(&join.join_operator))
}

fn is_merging(operator: &JoinOperator) -> bool {
    matches!(constraint_of(operator), Some(JoinConstraint::Using(_) | JoinConstraint::Natural))
}

/// What `*` gives of a FROM, or of one side of a join.
#[derive(Debug, Default)]
pub struct Side {
    parts: Vec<Part>,
}

#[derive(Debug)]
enum Part {
    /// A column that a join has merged.
    Merged { name: String, value: Box<Expr> },
    /// The columns of a relation, but for those that were merged.
    Relation {
        name: Option<Ident>,
        /// Whether the name is written behind that of its schema: `name.*` finds no such table.
        in_schema: bool,
        columns: Option<Vec<String>>,
        merged: Vec<String>,
    },
}

/// The columns of a whole FROM, whose joins get conditions; none if too little is known.
pub fn side_of_from(from: &mut [TableWithJoins], known: Known<'_>) -> Result<Option<Side>> {
    let mut all = Side::default();
    for from in from {
        let Some(side) = side_of_joins(from, known)? else { return Ok(None) };
        all = all.beside(side);
    }
    Ok(Some(all))
}

fn side_of_joins(from: &mut TableWithJoins, known: Known<'_>) -> Result<Option<Side>> {
    let Some(mut left) = side_of(&mut from.relation, known)? else { return Ok(None) };
    for join in &mut from.joins {
        let Some(right) = side_of(&mut join.relation, known)? else { return Ok(None) };
        let Some(joined) = left.join(right, &mut join.join_operator, known.hidden)? else { return Ok(None) };
        left = joined;
    }
    Ok(Some(left))
}

fn side_of(table: &mut TableFactor, known: Known<'_>) -> Result<Option<Side>> {
    match table {
        TableFactor::NestedJoin { table_with_joins, alias: None } => {
            return side_of_joins(table_with_joins, known);
        }
        TableFactor::NestedJoin { table_with_joins, alias: Some(alias) } if merges(table_with_joins) => {
            let Some(derived) = as_query(table_with_joins, alias, known)? else { return Ok(None) };
            *table = derived;
        }
        _ => {}
    }
    let table: &TableFactor = table;
    let columns = renamed((known.columns_of)(table), alias_of(table));
    let in_schema = matches!(table, TableFactor::Table { name, alias: None, .. } if name.0.len() > 1);
    let relation = Part::Relation { name: relation(table), in_schema, columns, merged: Vec::new() };
    Ok(Some(Side { parts: vec![relation] }))
}

/// Joins in brackets with an alias, which hides their tables, as a query.
fn as_query(joins: &TableWithJoins, alias: &TableAlias, known: Known<'_>) -> Result<Option<TableFactor>> {
    let mut joins = joins.clone();
    let Some(mut items) = side_of_joins(&mut joins, known)?.and_then(|side| side.items()) else {
        return Ok(None);
    };
    // The planner allows no two columns of one name.
    let mut titles: Vec<String> = Vec::new();
    for (position, item) in items.iter_mut().enumerate() {
        let Some(title) = title_of(item) else { continue };
        let again = match item {
            SelectItem::UnnamedExpr(expr) if titles.contains(&title) => Some(expr.clone()),
            _ => None,
        };
        if let Some(expr) = again {
            let alias = Ident::with_quote('"', marked(position, &title));
            *item = SelectItem::ExprWithAlias { expr, alias };
        }
        titles.push(title);
    }
    let mut subquery = parse_query("SELECT 1")?;
    if let SetExpr::Select(select) = subquery.body.as_mut() {
        (select.projection, select.from) = (items, vec![joins]);
    }
    Ok(Some(TableFactor::Derived { lateral: false, subquery, alias: Some(alias.clone()), sample: None }))
}

/// The columns with the names that an alias gives the first ones.
pub fn renamed(columns: Option<Vec<String>>, alias: Option<&TableAlias>) -> Option<Vec<String>> {
    let given = alias.map(|alias| alias.columns.as_slice()).unwrap_or_default();
    if given.is_empty() {
        return columns;
    }
    let others = columns.unwrap_or_default().into_iter().skip(given.len());
    Some(given.iter().map(|column| folded(&column.name)).chain(others).collect())
}

impl Side {
    fn beside(mut self, right: Self) -> Self {
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

    /// Joins two sides; none if too little is known of them.
    fn join(mut self, mut right: Self, operator: &mut JoinOperator, hidden: &str) -> Result<Option<Self>> {
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
                    let _ = condition.visit(&mut References { side: &both, kept: &[], depth: 0 });
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

    /// Takes the column of a name, which `*` does not give as a column of its relation any more; none if it is not known which it is.
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

    /// What the name of a merged column stands for; none for other names, and for those that several columns have.
    fn meaning(&self, name: &Ident) -> Option<&Expr> {
        let name = folded(name);
        let mut having = self.parts.iter().filter(|part| part.has(&name) == Some(true));
        match (having.next(), having.next()) {
            (Some(Part::Merged { value, .. }), None) => Some(value),
            _ => None,
        }
    }

    /// The name of an item that is a merged column with its own name.
    fn merged_item(&self, item: &SelectItem) -> Option<String> {
        let SelectItem::ExprWithAlias { expr, alias } = item else { return None };
        (self.meaning(alias) == Some(expr)).then(|| folded(alias))
    }

    /// A SELECT list in which `*` and names of merged columns are written out; none if too little is known.
    fn shown(&self, list: &[SelectItem]) -> Result<Option<Vec<SelectItem>>> {
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

    /// What `*` stands for; none if a relation has no name.
    fn items(&self) -> Option<Vec<SelectItem>> {
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
                        // A name that was made for a column is not shown.
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
    /// Whether it gives a column of this name; none if that is not known.
    fn has(&self, column: &str) -> Option<bool> {
        match self {
            Self::Merged { name, .. } => Some(name == column),
            Self::Relation { merged, .. } if merged.iter().any(|name| name == column) => Some(false),
            Self::Relation { columns, .. } => Some(columns.as_ref()?.iter().any(|name| name == column)),
        }
    }
}

/// Of which sides a join keeps the rows that have no partner.
#[derive(Clone, Copy)]
enum Kept {
    Neither,
    Left,
    Right,
    Both,
}

impl Kept {
    fn by(operator: &JoinOperator) -> Self {
        match operator {
            JoinOperator::Left(_) | JoinOperator::LeftOuter(_) => Self::Left,
            JoinOperator::Right(_) | JoinOperator::RightOuter(_) => Self::Right,
            JoinOperator::FullOuter(_) => Self::Both,
            _ => Self::Neither,
        }
    }
}

/// The constraint of a join of PostgreSQL.
pub fn constraint_of(operator: &JoinOperator) -> Option<&JoinConstraint> {
    match operator {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint)
        | JoinOperator::Right(constraint)
        | JoinOperator::RightOuter(constraint)
        | JoinOperator::FullOuter(constraint) => Some(constraint),
        _ => None,
    }
}

fn constraint_mut(operator: &mut JoinOperator) -> Option<&mut JoinConstraint> {
    match operator {
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint)
        | JoinOperator::Right(constraint)
        | JoinOperator::RightOuter(constraint)
        | JoinOperator::FullOuter(constraint) => Some(constraint),
        _ => None,
    }
}

/// Replaces names of merged columns, in the query itself and not in its subqueries.
struct References<'a> {
    side: &'a Side,
    /// Names that stay.
    kept: &'a [String],
    depth: usize,
}

impl VisitorMut for References<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.depth == 0
            && let Expr::Identifier(name) = expr
            && !self.kept.contains(&folded(name))
            && let Some(value) = self.side.meaning(name)
        {
            *expr = value.clone();
        }
        ControlFlow::Continue(())
    }
}

/// Whether a `*` stands for all columns, as they are.
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

/// The name by which columns of a table are found.
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
