//! Decides which tables of a statement show the versions of their rows.
//!
//! DataFusion knows no column that exists but is not part of `*`. So its planner finds a live table in two forms, with the
//! column and without it. The table that a statement updates or deletes from has the column, because the write is conditional
//! on it, and so has each table whose version is named. If there are such tables, all others are read from [`PLAIN`]:
//!
//! ```text
//! DELETE FROM a WHERE id IN (SELECT id FROM (SELECT * FROM a EXCEPT SELECT * FROM b) d)
//!             │                                            └─┬──────────────────┘
//!       with versions                    "_plain"."public"."a" AS a, "_plain"."public"."b" AS b
//! ```
//!
//! A name belongs to the innermost enclosing SELECT with a table that has the column. If that is possible only
//! through a query in FROM or WITH, the tables of that query show the column, so that it is part of the query's `*`.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Insert, Join, JoinConstraint, JoinOperator, ObjectName, ObjectNamePart, Query, Select,
    SetExpr, TableFactor, TableObject, TableWithJoins, Visit, VisitMut, Visitor,
};
use nyala_model::QualifiedName;

use super::hiding::{Hiding, plain};

/// The catalog in which no live table has the column of versions. It exists while live tables elsewhere have the column.
pub const PLAIN: &str = "_plain";

/// How the names in a statement refer to live tables.
#[derive(Clone, Copy)]
pub struct LiveNames<'a> {
    /// The column with the versions of rows, in lower case.
    pub row_version: &'a str,
    /// The live table of a name, if there is one.
    pub find: &'a (dyn Fn(&ObjectName) -> Option<QualifiedName> + Sync),
}

/// Keeps the versions that a query names; returns whether it names any.
pub fn show_versions(query: &mut Query, live: LiveNames<'_>) -> bool {
    Versions::of(&*query, false, live).hide(query)
}

/// An identifier as DataFusion's planner and PostgreSQL read it: without quotes, ASCII letters become lower case.
pub fn folded(ident: &Ident) -> String {
    match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_ascii_lowercase(),
    }
}

/// Whether an identifier means `name`, which is in lower case.
pub fn is(ident: &Ident, name: &str) -> bool {
    match ident.quote_style {
        Some(_) => ident.value == name,
        None => ident.value.eq_ignore_ascii_case(name),
    }
}

pub fn last(name: &ObjectName) -> Option<&Ident> {
    name.0.last()?.as_ident()
}

/// The tables of a statement, in the order of the walk.
pub struct Versions<'a> {
    live: LiveNames<'a>,
    /// Whether any table shows versions.
    any: bool,
    /// The live tables that must not show versions; none for other tables.
    hidden: Vec<Option<QualifiedName>>,
}

impl<'a> Versions<'a> {
    /// Searches a statement. If it `writes`, its first table is the target of the write.
    pub fn of(tree: &impl Visit, writes: bool, live: LiveNames<'a>) -> Self {
        let mut names = Names { live, scopes: Vec::new(), open: Vec::new(), tables: Vec::new() };
        names.enter(Scope::default());
        let _ = tree.visit(&mut names);
        let shown = names.shown(writes);
        let any = names.tables.iter().zip(&shown).any(|(table, shown)| table.is_some() && *shown);
        let hidden = names.tables.into_iter().zip(shown).map(|(table, shown)| table.filter(|_| !shown));
        Self { live, any, hidden: hidden.collect() }
    }

    /// Takes the tables without versions from [`PLAIN`], if any table shows versions; returns whether one
    /// does. The statement may have lost its last part since it was searched, but no other.
    pub fn hide(self, tree: &mut impl VisitMut) -> bool {
        if self.any {
            let _ = tree.visit(&mut Hiding::new(self.hidden, self.live.row_version));
        }
        self.any
    }
}

/// Searches and changes an INSERT: its table has versions if the INSERT names their column.
pub fn of_insert(insert: &mut Insert, live: LiveNames<'_>) -> bool {
    let named =
        insert.columns.iter().any(|column| last(column).is_some_and(|column| is(column, live.row_version)));
    // A list of values is not searched: it may be long, and names no columns.
    let source = insert.source.as_deref_mut().filter(|query| !matches!(*query.body, SetExpr::Values(_)));
    let read = source.is_some_and(|query| {
        let found = Versions::of(&*query, false, live);
        Versions { any: found.any || named, ..found }.hide(query)
    });
    if read
        && !named
        && let TableObject::TableName(target) = &mut insert.table
        && let Some(table) = (live.find)(&*target)
    {
        *target = plain(&table);
    }
    named || read
}

/// A query, a SELECT, or the statement around them.
#[derive(Default)]
struct Scope {
    outer: Option<usize>,
    /// The relations in FROM.
    relations: Vec<Relation>,
    /// For each use of the column's name: its qualifier, if it has one.
    names: Vec<Option<String>>,
    is_query: bool,
    /// For a query: the SELECTs and queries that give its rows.
    arms: Vec<usize>,
    /// For a query: the queries in its WITH, each with its scope as soon as it may be named.
    with: Vec<(String, Option<usize>)>,
    recursive: bool,
}

impl Scope {
    /// A query or SELECT directly in this scope begins. The first ones are the queries in WITH.
    fn begins(&mut self, inner: usize) {
        match self.with.iter_mut().find(|(_, scope)| scope.is_none()) {
            Some((_, scope)) if self.recursive => *scope = Some(inner),
            Some(_) => {}
            None if self.is_query => self.arms.push(inner),
            None => {}
        }
    }

    /// A query or SELECT directly in this scope ends.
    fn ends(&mut self, inner: usize) {
        if !self.recursive
            && let Some((_, scope)) = self.with.iter_mut().find(|(_, scope)| scope.is_none())
        {
            *scope = Some(inner);
        }
    }
}

struct Relation {
    called: Option<String>,
    source: Source,
}

#[derive(Clone, Copy)]
enum Source {
    /// A live table.
    Table(usize),
    /// The scope of a query.
    Query(usize),
}

/// Collects the tables of a statement, and the uses of the name of the version column.
struct Names<'a> {
    live: LiveNames<'a>,
    scopes: Vec<Scope>,
    /// The scopes that the walk has entered, the innermost last.
    open: Vec<usize>,
    /// All relations in FROM with a table's name: the live table that each is; none for others.
    tables: Vec<Option<QualifiedName>>,
}

impl Names<'_> {
    fn enter(&mut self, scope: Scope) {
        self.scopes.push(Scope { outer: self.open.last().copied(), ..scope });
        self.open.push(self.scopes.len() - 1);
    }

    fn current(&mut self) -> Option<&mut Scope> {
        self.scopes.get_mut(*self.open.last()?)
    }

    fn begins(&mut self) {
        let inner = self.scopes.len();
        if let Some(scope) = self.current() {
            scope.begins(inner);
        }
    }

    fn named(&mut self, qualifier: Option<String>) {
        if let Some(scope) = self.current() {
            scope.names.push(qualifier);
        }
    }

    fn relation(&mut self, factor: &TableFactor) -> Option<Relation> {
        match factor {
            TableFactor::Table { name, alias, args, .. } => {
                let with = if args.is_none() { self.in_with(name) } else { None };
                let live = if args.is_none() && with.is_none() { (self.live.find)(name) } else { None };
                let at = live.as_ref().map(|_| self.tables.len());
                self.tables.push(live);
                let called = alias.as_ref().map(|alias| &alias.name).or_else(|| last(name));
                let source = with.map(Source::Query).or(at.map(Source::Table))?;
                Some(Relation { called: called.map(folded), source })
            }
            // The walk enters the query of the derived table next.
            TableFactor::Derived { alias, .. } => Some(Relation {
                called: alias.as_ref().map(|alias| folded(&alias.name)),
                source: Source::Query(self.scopes.len()),
            }),
            _ => None,
        }
    }

    /// The scope of the query in WITH that has this name.
    fn in_with(&self, name: &ObjectName) -> Option<usize> {
        let [ObjectNamePart::Identifier(name)] = name.0.as_slice() else { return None };
        let name = folded(name);
        let mut around = self.open.iter().rev().filter_map(|at| self.scopes.get(*at));
        around.find_map(|scope| scope.with.iter().find_map(|(known, scope)| scope.filter(|_| *known == name)))
    }

    /// Records a use of the name in USING.
    fn joined_by(&mut self, table: &TableWithJoins) {
        let version = self.live.row_version;
        let mut columns = table.joins.iter().flat_map(using);
        if columns.any(|column| last(column).is_some_and(|column| is(column, version))) {
            self.named(None);
        }
    }

    /// For each table: whether it shows versions.
    fn shown(&self, writes: bool) -> Vec<bool> {
        let mut shown = vec![false; self.tables.len()];
        if let Some(target) = shown.first_mut() {
            *target = writes;
        }
        for (at, scope) in self.scopes.iter().enumerate() {
            for qualifier in &scope.names {
                self.show_meant(at, qualifier.as_deref(), &mut shown);
            }
        }
        shown
    }

    fn show_meant(&self, from: usize, qualifier: Option<&str>, shown: &mut [bool]) {
        let mut around = Some(from);
        while let Some(at) = around {
            if self.show(at, qualifier, shown, &mut HashSet::new()) {
                return;
            }
            around = self.scopes.get(at).and_then(|scope| scope.outer);
        }
    }

    /// Marks the tables to which a name can refer in a scope; returns whether there are any.
    fn show(
        &self,
        at: usize,
        qualifier: Option<&str>,
        shown: &mut [bool],
        seen: &mut HashSet<usize>,
    ) -> bool {
        // A recursive query reads itself, so that each scope is visited once.
        let Some(scope) = self.scopes.get(at).filter(|_| seen.insert(at)) else { return false };
        let meant =
            |relation: &&Relation| qualifier.is_none_or(|name| relation.called.as_deref() == Some(name));
        let mut found = false;
        for relation in scope.relations.iter().filter(meant) {
            if let Source::Table(table) = relation.source
                && let Some(shown) = shown.get_mut(table)
            {
                *shown = true;
                found = true;
            }
        }
        if found {
            return true;
        }
        for relation in scope.relations.iter().filter(meant) {
            if let Source::Query(query) = relation.source {
                found |= self.show(query, None, shown, seen);
            }
        }
        for arm in &scope.arms {
            found |= self.show(*arm, qualifier, shown, seen);
        }
        found
    }
}

fn using(join: &Join) -> &[ObjectName] {
    match &join.join_operator {
        JoinOperator::Join(JoinConstraint::Using(columns))
        | JoinOperator::Inner(JoinConstraint::Using(columns))
        | JoinOperator::Left(JoinConstraint::Using(columns))
        | JoinOperator::LeftOuter(JoinConstraint::Using(columns))
        | JoinOperator::Right(JoinConstraint::Using(columns))
        | JoinOperator::RightOuter(JoinConstraint::Using(columns))
        | JoinOperator::FullOuter(JoinConstraint::Using(columns))
        | JoinOperator::LeftSemi(JoinConstraint::Using(columns))
        | JoinOperator::RightSemi(JoinConstraint::Using(columns))
        | JoinOperator::LeftAnti(JoinConstraint::Using(columns))
        | JoinOperator::RightAnti(JoinConstraint::Using(columns)) => columns,
        _ => &[],
    }
}

impl Visitor for Names<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        self.begins();
        let with = query.with.as_ref();
        let names = with.into_iter().flat_map(|with| &with.cte_tables);
        self.enter(Scope {
            is_query: true,
            with: names.map(|cte| (folded(&cte.alias.name), None)).collect(),
            recursive: with.is_some_and(|with| with.recursive),
            ..Scope::default()
        });
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        if let Some(inner) = self.open.pop()
            && let Some(scope) = self.current()
        {
            scope.ends(inner);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        self.begins();
        self.enter(Scope::default());
        for table in &select.from {
            self.joined_by(table);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, _: &Select) -> ControlFlow<()> {
        self.open.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        if let TableFactor::NestedJoin { table_with_joins, .. } = factor {
            self.joined_by(table_with_joins);
        }
        if let Some(relation) = self.relation(factor)
            && let Some(scope) = self.current()
        {
            scope.relations.push(relation);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        let parts = match expr {
            Expr::Identifier(column) => std::slice::from_ref(column),
            Expr::CompoundIdentifier(parts) => parts.as_slice(),
            _ => return ControlFlow::Continue(()),
        };
        if let [before @ .., column] = parts
            && is(column, self.live.row_version)
        {
            self.named(before.last().map(folded));
        }
        ControlFlow::Continue(())
    }
}
