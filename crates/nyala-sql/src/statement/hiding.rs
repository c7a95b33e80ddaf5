//! Reads tables from the catalog [`PLAIN`], where no live table has the column with the versions of its rows.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectName, ObjectNamePart, Select, SelectItem, SelectItemQualifiedWildcardKind, TableAlias,
    TableFactor, TableWithJoins, VisitorMut,
};
use nyala_model::QualifiedName;

use super::versions::{PLAIN, folded, is};

/// Replaces the next table that the walk visits by that in [`PLAIN`], where this is wanted.
pub struct Hiding<'a> {
    /// For each table still to come: the live table to read from [`PLAIN`]; none if the table stays.
    hidden: std::vec::IntoIter<Option<QualifiedName>>,
    /// Tables with a schema in their names: the name in the statement, and the new one.
    renamed: Vec<(Vec<String>, ObjectName)>,
    /// The column with the versions of rows, in lower case.
    row_version: &'a str,
}

impl<'a> Hiding<'a> {
    pub fn new(hidden: Vec<Option<QualifiedName>>, row_version: &'a str) -> Self {
        Self { hidden: hidden.into_iter(), renamed: Vec::new(), row_version }
    }

    /// Drops `_version` from `SELECT *, _version`: `*` contains the column, because the statement names it.
    fn name_once(&self, projection: &mut Vec<SelectItem>) {
        if projection.iter().any(|item| matches!(item, SelectItem::Wildcard(_))) {
            let is_version = |item: &SelectItem| matches!(item, SelectItem::UnnamedExpr(Expr::Identifier(name)) if is(name, self.row_version));
            projection.retain(|item| !is_version(item));
        }
    }

    /// The new name of the table that the qualifier of a `*` refers to, if the table is in `from`.
    fn now(&self, name: &ObjectName, from: &[&ObjectName]) -> Option<ObjectName> {
        let parts = folded_parts(name);
        let mut known = self.renamed.iter().filter(|(written, _)| *written == parts).map(|(_, now)| now);
        known.find(|now| from.contains(now)).cloned()
    }
}

impl VisitorMut for Hiding<'_> {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table { name, alias, .. } = factor
            && let Some(Some(table)) = self.hidden.next()
        {
            let now = plain(&table);
            // Columns must still be found, and named, by the name that the statement has for the table.
            if alias.is_none() {
                if let [ObjectNamePart::Identifier(own)] = name.0.as_slice() {
                    let name = own.clone();
                    *alias = Some(TableAlias { explicit: true, name, columns: Vec::new(), at: None });
                } else {
                    self.renamed.push((folded_parts(name), now.clone()));
                }
            }
            *name = now;
        }
        ControlFlow::Continue(())
    }

    /// Renames the qualifier of a `*`: the planner compares it with the whole name of a table, and that of a column with a part of it.
    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        self.name_once(&mut select.projection);
        if self.renamed.is_empty() {
            return ControlFlow::Continue(());
        }
        let mut from = Vec::new();
        select.from.iter().for_each(|table| without_alias(table, &mut from));
        for item in &mut select.projection {
            if let SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) = item
                && let Some(now) = self.now(name, &from)
            {
                *name = now;
            }
        }
        ControlFlow::Continue(())
    }
}

/// The name of a live table in [`PLAIN`].
pub fn plain(table: &QualifiedName) -> ObjectName {
    let parts = [PLAIN, table.schema.as_str(), table.name.as_str()];
    ObjectName::from(Vec::from(parts.map(|part| Ident::with_quote('"', part))))
}

fn folded_parts(name: &ObjectName) -> Vec<String> {
    name.0.iter().filter_map(ObjectNamePart::as_ident).map(folded).collect()
}

/// Adds the tables of a FROM that have no alias.
fn without_alias<'a>(table: &'a TableWithJoins, found: &mut Vec<&'a ObjectName>) {
    let joined = table.joins.iter().map(|join| &join.relation);
    for factor in std::iter::once(&table.relation).chain(joined) {
        match factor {
            TableFactor::Table { name, alias: None, .. } => found.push(name),
            TableFactor::NestedJoin { table_with_joins, alias: None } => {
                without_alias(table_with_joins, found);
            }
            _ => {}
        }
    }
}
