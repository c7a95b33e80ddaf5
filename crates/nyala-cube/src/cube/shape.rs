//! The shape of an aggregation: its form as SQL, without the values that it compares with.

use std::collections::{BTreeMap, BTreeSet};

use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr::Placeholder;
use datafusion::sql::sqlparser::keywords::ALL_KEYWORDS;
use datafusion::sql::unparser::Unparser;
use datafusion::sql::unparser::dialect::Dialect;
use nyala_model::{QueryShape, ShapeCondition, ShapeTable};

use super::block::{Block, instance_of, instances_of};
use super::expression::{Equalities, column_pair};

/// The shape of `block`; none if an expression of it cannot be written as SQL.
pub fn shape_of(block: &Block) -> Option<QueryShape> {
    let shaper = Shaper { aliases: aliases(block) };
    let mut shape = QueryShape { tables: shaper.tables(block)?, ..QueryShape::default() };
    let mut filtered = BTreeSet::new();
    for join in spanning(&block.predicates) {
        shape.joins.push(shaper.condition(&join)?);
    }
    for predicate in &block.predicates {
        match is_join(predicate) {
            true => {}
            false => {
                shape.filters.push(shaper.sql(&without_values(predicate)?)?);
                filtered.extend(predicate.column_refs().into_iter().cloned());
            }
        }
    }
    let filtered = filtered.into_iter().map(|column| shaper.sql(&Expr::Column(column)));
    shape.filtered = sorted(filtered.collect::<Option<_>>()?);
    shape.filters = sorted(shape.filters);
    shape.joins = sorted(shape.joins);
    shape.group = block.group.iter().map(|group| shaper.sql(group)).collect::<Option<_>>()?;
    shape.sets = sets(block);
    if shape.sets.is_empty() {
        shape.group = sorted(shape.group);
    }
    let aggregates = block.aggregates.iter().map(|call| shaper.sql(call)).collect::<Option<_>>()?;
    shape.aggregates = sorted(aggregates);
    Some(shape)
}

/// Whether `predicate` is an equality of columns of two tables.
fn is_join(predicate: &Expr) -> bool {
    column_pair(predicate).is_some() && instances_of(predicate).len() > 1
}

/// The joins among `predicates` in one spelling: of columns that are all equal, each is compared with the column of the
/// table that has most joins, which is the fact table of a star.
fn spanning(predicates: &[Expr]) -> Vec<Expr> {
    let joins: Vec<&Expr> = predicates.iter().filter(|predicate| is_join(predicate)).collect();
    let equal = Equalities::of(joins.iter().copied());
    let mut degrees: BTreeMap<Option<usize>, usize> = BTreeMap::new();
    let mut classes: BTreeMap<Column, BTreeSet<Column>> = BTreeMap::new();
    for column in joins.iter().flat_map(|join| join.column_refs()) {
        *degrees.entry(instance_of(column)).or_default() += 1;
        classes.entry(equal.representative(column)).or_default().insert(column.clone());
    }
    let mut all = Vec::new();
    for class in classes.values() {
        let tables: BTreeSet<Option<usize>> = class.iter().map(instance_of).collect();
        let center = class.iter().max_by_key(|column| {
            (degrees.get(&instance_of(column)).copied(), std::cmp::Reverse((*column).clone()))
        });
        match center.filter(|_| tables.len() == class.len()) {
            Some(center) => {
                let others = class.iter().filter(|column| *column != center);
                all.extend(others.map(|other| Expr::Column(center.clone()).eq(Expr::Column(other.clone()))));
            }
            // A table with two of the columns has a condition of its own.
            None => {
                let own = joins
                    .iter()
                    .filter(|join| join.column_refs().iter().all(|column| class.contains(column)));
                all.extend(own.map(|join| (*join).clone()));
            }
        }
    }
    all
}

fn sets(block: &Block) -> Vec<Vec<usize>> {
    let members =
        |members: &[bool]| members.iter().enumerate().filter(|(_, m)| **m).map(|(i, _)| i).collect();
    block.sets.iter().map(|set| members(&set.members)).collect()
}

fn sorted<T: Ord>(mut items: Vec<T>) -> Vec<T> {
    items.sort();
    items.dedup();
    items
}

/// A name for each instance: the name of its table, with a number from the second occurrence on. Occurrences are
/// counted by how they are joined and used, so that queries that name equal joins in another order have one shape.
fn aliases(block: &Block) -> Vec<String> {
    let mut order: Vec<usize> = (0..block.instances.len()).collect();
    order.sort_by_cached_key(|i| role_of(block, *i));
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let mut names = vec![String::new(); order.len()];
    for i in order {
        let (Some(instance), Some(slot)) = (block.instances.get(i), names.get_mut(i)) else { continue };
        let name = instance.table.name.as_str();
        let count = seen.entry(name).and_modify(|count| *count += 1).or_insert(1);
        *slot = if *count == 1 { name.to_owned() } else { format!("{name}_{count}") };
    }
    names
}

/// The conditions of instance `i`, and then the groups and aggregates that read it, with its own columns marked.
fn role_of(block: &Block, i: usize) -> (Vec<String>, Vec<String>) {
    let marked = |expr: &Expr| {
        let named = expr.clone().transform_up(|expr| {
            Ok(match expr {
                Expr::Column(column) => {
                    let instance = instance_of(&column);
                    let table = instance.and_then(|i| block.instances.get(i));
                    let table = table.map(|instance| instance.table.name.as_str()).unwrap_or_default();
                    let name = if instance == Some(i) { "self" } else { table };
                    Transformed::yes(Expr::Column(Column::new(Some(name), column.name)))
                }
                other => Transformed::no(other),
            })
        });
        let Some((left, right)) = named.as_ref().ok().and_then(|named| column_pair(&named.data)) else {
            return named.map(|named| named.data.to_string()).unwrap_or_default();
        };
        format!("{} = {}", left.max(right), left.min(right))
    };
    let of = |exprs: &mut dyn Iterator<Item = &Expr>| {
        sorted(exprs.filter(|expr| instances_of(expr).contains(&i)).map(marked).collect())
    };
    let outer = block.instances.iter().filter_map(|instance| instance.outer.as_ref()).flatten();
    let joins = block.predicates.iter().filter(|predicate| instances_of(predicate).len() > 1);
    let filters: Vec<Expr> = block.predicates.iter().filter_map(without_values).collect();
    let filters = filters.iter().filter(|filter| instances_of(filter).len() == 1);
    let uses = block.group.iter().chain(&block.aggregates).chain(filters);
    (of(&mut joins.chain(outer)), of(&mut { uses }))
}

struct Shaper {
    aliases: Vec<String>,
}

impl Shaper {
    fn tables(&self, block: &Block) -> Option<Vec<ShapeTable>> {
        let mut tables = Vec::new();
        for (instance, alias) in block.instances.iter().zip(&self.aliases) {
            if instance.derived.is_some() {
                return None;
            }
            let left = instance
                .outer
                .as_ref()
                .map(|all| all.iter().map(|condition| self.condition(condition)).collect::<Option<Vec<_>>>());
            let left = match left {
                Some(conditions) => Some(sorted(conditions?)),
                None => None,
            };
            tables.push(ShapeTable { table: instance.table.clone(), alias: alias.clone(), left });
        }
        // Left joins may need tables before them.
        tables.sort_by_key(|table| (table.left.is_some(), table.left.is_none().then(|| table.alias.clone())));
        Some(tables)
    }

    fn condition(&self, condition: &Expr) -> Option<ShapeCondition> {
        let aliases = instances_of(condition).into_iter().map(|i| self.aliases.get(i).cloned());
        let aliases = sorted(aliases.collect::<Option<Vec<_>>>()?);
        let sql = match column_pair(condition) {
            Some((left, right)) => {
                let sides = [left, right].map(|column| self.sql(&Expr::Column(column.clone())));
                let [left, right] = sides;
                let (left, right) = (left?, right?);
                if left <= right { format!("{left} = {right}") } else { format!("{right} = {left}") }
            }
            None => self.sql(condition)?,
        };
        Some(ShapeCondition { aliases, sql })
    }

    fn sql(&self, expr: &Expr) -> Option<String> {
        sql_over(expr, &self.aliases)
    }
}

/// `expr` as SQL over `aliases` of the tables, by instance; none if it cannot be written.
pub fn sql_over(expr: &Expr, aliases: &[String]) -> Option<String> {
    let sql = Unparser::new(&Plain).with_pretty(true).expr_to_sql(&with_aliases(expr, aliases)?).ok()?;
    Some(sql.to_string())
}

/// `expr` with the alias of a table in the place of its number.
pub fn with_aliases(expr: &Expr, aliases: &[String]) -> Option<Expr> {
    let named = expr.clone().transform_up(|expr| {
        Ok(match expr {
            Expr::Column(column) => match instance_of(&column).and_then(|i| aliases.get(i)) {
                Some(alias) => Transformed::yes(Expr::Column(Column::new(Some(alias.as_str()), column.name))),
                None => Transformed::no(Expr::Column(column)),
            },
            other => Transformed::no(other),
        })
    });
    named.ok().map(|named| named.data)
}

/// `expr` with `?` for every value; a list of values is one.
fn without_values(expr: &Expr) -> Option<Expr> {
    let value = || Expr::Placeholder(Placeholder::new_with_field("?".to_owned(), None));
    let replaced = expr.clone().transform_down(|expr| {
        Ok(match expr {
            Expr::Literal(..) => Transformed::new(value(), true, TreeNodeRecursion::Jump),
            // A cast of a value counts as a value. Its type may not have a name in SQL.
            Expr::Cast(cast) if matches!(*cast.expr, Expr::Literal(..)) => {
                Transformed::new(value(), true, TreeNodeRecursion::Jump)
            }
            // The cast follows from the type of the value.
            Expr::Cast(cast) if matches!(*cast.expr, Expr::Column(_)) => Transformed::yes(*cast.expr),
            Expr::InList(mut list) if list.list.iter().all(|item| item.column_refs().is_empty()) => {
                list.list = vec![value()];
                Transformed::yes(Expr::InList(list))
            }
            other => Transformed::no(other),
        })
    });
    replaced.ok().map(|done| done.data)
}

/// `name` in quotes if it needs them.
pub fn quoted(name: &str) -> String {
    match Plain.identifier_quote_style(name) {
        Some(_) => format!("\"{}\"", name.replace('"', "\"\"")),
        None => name.to_owned(),
    }
}

/// A keyword that may be a name without quotes.
const HARMLESS: &str = "public";

/// SQL as our own parser reads it.
struct Plain;

impl Dialect for Plain {
    fn identifier_quote_style(&self, identifier: &str) -> Option<char> {
        let letter = |c: char| c.is_ascii_lowercase() || c == '_';
        let plain = identifier.starts_with(letter)
            && identifier.chars().all(|c| letter(c) || c.is_ascii_digit())
            && (identifier == HARMLESS
                || ALL_KEYWORDS.binary_search(&identifier.to_ascii_uppercase().as_str()).is_err());
        (!plain).then_some('"')
    }
}

/// The shape as a readable `SELECT …`.
pub fn show_shape(shape: &QueryShape) -> String {
    let mut columns: Vec<&str> = shape.group.iter().map(String::as_str).collect();
    columns.extend(shape.aggregates.iter().map(String::as_str));
    let mut text = format!("SELECT {} FROM {}", columns.join(", "), from_clause(shape, None));
    if !shape.filters.is_empty() {
        text.push_str(&format!(" WHERE {}", shape.filters.join(" AND ")));
    }
    if !shape.sets.is_empty() {
        text.push_str(&format!(" GROUP BY GROUPING SETS ({})", show_sets(&shape.group, &shape.sets)));
    } else if !shape.group.is_empty() {
        text.push_str(&format!(" GROUP BY {}", shape.group.join(", ")));
    }
    text
}

/// `(a, b), (a), ()`
pub fn show_sets(group: &[String], sets: &[Vec<usize>]) -> String {
    let shown = sets.iter().map(|set| {
        let members: Vec<&str> = set.iter().filter_map(|i| group.get(*i)).map(String::as_str).collect();
        format!("({})", members.join(", "))
    });
    shown.collect::<Vec<_>>().join(", ")
}

/// The tables of `shape` with their joins, beginning with the one called `first`.
pub fn from_clause(shape: &QueryShape, first: Option<&str>) -> String {
    let mut waiting: Vec<&ShapeTable> = shape.tables.iter().collect();
    let start = waiting.iter().position(|table| Some(table.alias.as_str()) == first).unwrap_or(0);
    if start >= waiting.len() {
        return String::new();
    }
    let begin = waiting.remove(start);
    let mut known = vec![begin.alias.as_str()];
    let mut text = named(begin);
    while !waiting.is_empty() {
        let ties = |table| ties(shape, table, &known);
        let inner = |table: &ShapeTable| table.left.is_none();
        let next = waiting.iter().position(|table| inner(table) && !ties(table).is_empty());
        let next = next.or_else(|| waiting.iter().position(|table| inner(table))).unwrap_or(0);
        let table = waiting.remove(next);
        let on = ties(table).join(" AND ");
        let (word, on) = match (&table.left, on.is_empty()) {
            (Some(_), true) => ("LEFT JOIN", " ON true".to_owned()),
            (Some(_), false) => ("LEFT JOIN", format!(" ON {on}")),
            (None, true) => ("CROSS JOIN", String::new()),
            (None, false) => ("JOIN", format!(" ON {on}")),
        };
        text.push_str(&format!(" {word} {}{on}", named(table)));
        known.push(&table.alias);
    }
    text
}

/// The conditions that tie `table` to tables of `known`.
fn ties<'a>(shape: &'a QueryShape, table: &'a ShapeTable, known: &[&str]) -> Vec<&'a str> {
    let own = |alias: &String| *alias == table.alias;
    let all = table.left.as_ref().unwrap_or(&shape.joins).iter();
    let tying = all.filter(|condition| {
        condition.aliases.iter().any(own)
            && condition.aliases.iter().all(|alias| own(alias) || known.contains(&alias.as_str()))
    });
    tying.map(|condition| condition.sql.as_str()).collect()
}

fn named(table: &ShapeTable) -> String {
    let name = format!("{}.{}", quoted(&table.table.schema), quoted(&table.table.name));
    if table.alias == table.table.name { name } else { format!("{name} AS {}", quoted(&table.alias)) }
}
