//! The parts of a cube in names and SQL, for clients that show tables, joins, dimensions and measures.

use std::fmt;

use arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Cast, Expr, ExprSchemable};
use nyala_model::QualifiedName;
use nyala_sql::semantics::cast_facts::always_fits;

use super::block::{Block, instance_of};
use super::call::Call;
use super::compile::{CompiledCube, CompiledMeasure};
use super::edges::JoinEdge;
use super::shape::{sql_over, with_aliases};

/// The parts of a cube.
#[derive(Debug, Clone, PartialEq)]
pub struct CubeDescription {
    /// The fact table, then the others in the order of FROM.
    pub tables: Vec<DescribedTable>,
    /// Conditions that every row fulfils, besides the keys of joins: SQL over the aliases of the tables.
    pub conditions: Vec<String>,
    /// Dimensions, as numbered in grouping sets.
    pub dimensions: Vec<DescribedDimension>,
    /// Measures.
    pub measures: Vec<DescribedMeasure>,
}

/// A table of a cube.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribedTable {
    /// Its name in the catalog.
    pub name: QualifiedName,
    /// A name that no other table of the cube has; that of the fact table is its own.
    pub alias: String,
    /// Whether it is the optional side of a left join.
    pub is_optional: bool,
    /// Its columns, and the equal columns of tables before it. Empty for the fact table, and if the join is not one of equal columns alone.
    pub keys: Vec<(TableColumn, TableColumn)>,
}

/// A column of a table of a cube. Displays as `alias.column`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableColumn {
    /// Alias of the table.
    pub table: String,
    /// Name of the column.
    pub name: String,
}

impl fmt::Display for TableColumn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.table, self.name)
    }
}

/// An expression over the tables of a cube.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DescribedExpr {
    /// A column.
    Column(TableColumn),
    /// A constant, as text.
    Constant(String),
    /// Any other expression: SQL over the aliases of the tables.
    Sql(String),
}

/// A dimension of a cube.
#[derive(Debug, Clone, PartialEq)]
pub struct DescribedDimension {
    /// Its name in grouping sets.
    pub name: String,
    /// The group expression.
    pub expression: DescribedExpr,
    /// Type of its values.
    pub data_type: DataType,
}

/// A measure of a cube.
#[derive(Debug, Clone, PartialEq)]
pub struct DescribedMeasure {
    /// The aggregate call: SQL over the aliases of the tables.
    pub call: String,
    /// Name of the function.
    pub function: String,
    /// Whether equal arguments count once.
    pub is_distinct: bool,
    /// Its arguments. The first is null in rows that FILTER leaves out, which aggregates do not count.
    pub arguments: Vec<DescribedExpr>,
    /// Type of its result.
    pub data_type: DataType,
}

/// Describes a cube. Walks trees of expressions.
pub fn describe(cube: &CompiledCube) -> CubeDescription {
    let writer = Writer { aliases: aliases(&cube.block), columns: &cube.columns };
    let block = &cube.block;
    let joins: Vec<Join<'_>> = block
        .instances
        .iter()
        .zip(&cube.edges)
        .map(|(instance, edge)| writer.join(instance.outer.as_deref(), edge.as_ref()))
        .collect();
    let tables = block.instances.iter().zip(&writer.aliases).zip(&joins).map(|((instance, alias), join)| {
        DescribedTable {
            name: instance.table.clone(),
            alias: alias.clone(),
            is_optional: instance.outer.is_some(),
            keys: join.keys.clone(),
        }
    });
    let of_joins: Vec<&Expr> = joins.iter().flat_map(|join| join.conditions.iter().copied()).collect();
    let conditions = block.predicates.iter().filter(|predicate| !of_joins.contains(predicate));
    let dimensions = cube.dimensions.iter().zip(&block.group).map(|(dimension, group)| DescribedDimension {
        name: dimension.field.name().clone(),
        expression: writer.expression(group),
        data_type: dimension.field.data_type().clone(),
    });
    let measures = cube.measures.iter().zip(&block.aggregates);
    CubeDescription {
        tables: tables.collect(),
        conditions: conditions.map(|condition| writer.sql(condition)).collect(),
        dimensions: dimensions.collect(),
        measures: measures.map(|(measure, call)| writer.measure(measure, call)).collect(),
    }
}

/// A name for each table: its own, with a number if an earlier table has that.
fn aliases(block: &Block) -> Vec<String> {
    let mut taken: Vec<String> = Vec::new();
    for instance in &block.instances {
        let name = &instance.table.name;
        let mut alias = name.clone();
        let mut number = 2_usize;
        while taken.contains(&alias) {
            alias = format!("{name}_{number}");
            number += 1;
        }
        taken.push(alias);
    }
    taken
}

/// The keys of a join, and the conditions that they come from.
#[derive(Default)]
struct Join<'c> {
    keys: Vec<(TableColumn, TableColumn)>,
    conditions: Vec<&'c Expr>,
}

/// Writes expressions over the canonical columns of a cube.
struct Writer<'c> {
    aliases: Vec<String>,
    columns: &'c DFSchema,
}

impl Writer<'_> {
    /// A left join has its own conditions, and is left out if not all of them are equalities of columns.
    fn join<'c>(&self, outer: Option<&[Expr]>, edge: Option<&'c JoinEdge>) -> Join<'c> {
        let Some(edge) = edge else { return Join::default() };
        let pairs = edge.keys.iter().zip(&edge.conditions).filter_map(|((own, other), condition)| {
            Some(((self.column(own)?, self.column(other)?), condition))
        });
        let (keys, conditions): (Vec<_>, Vec<_>) = pairs.unzip();
        match outer {
            Some(all) if all.len() != keys.len() => Join::default(),
            _ => Join { keys, conditions },
        }
    }

    /// The expression without its casts to a wider type: the planner adds those for a comparison or an argument.
    fn uncast<'e>(&self, expr: &'e Expr) -> &'e Expr {
        match expr {
            Expr::Cast(cast) if self.widens(cast) => self.uncast(&cast.expr),
            other => other,
        }
    }

    fn widens(&self, cast: &Cast) -> bool {
        let (from, to) = (cast.expr.get_type(self.columns), cast.field.data_type());
        from.is_ok_and(|from| {
            let alike = (from.is_numeric() && to.is_numeric()) || (from.is_string() && to.is_string());
            alike && always_fits(&from, to)
        })
    }

    fn column(&self, expr: &Expr) -> Option<TableColumn> {
        let Expr::Column(column) = self.uncast(expr) else { return None };
        let table = self.aliases.get(instance_of(column)?)?.clone();
        Some(TableColumn { table, name: column.name.clone() })
    }

    fn expression(&self, expr: &Expr) -> DescribedExpr {
        match (self.column(expr), expr) {
            (Some(column), _) => DescribedExpr::Column(column),
            (None, Expr::Literal(value, _)) => DescribedExpr::Constant(value.to_string()),
            (None, other) => DescribedExpr::Sql(self.sql(other)),
        }
    }

    fn measure(&self, measure: &CompiledMeasure, call: &Expr) -> DescribedMeasure {
        let data_type = call.get_type(self.columns).unwrap_or(DataType::Null);
        let (function, is_distinct) = (measure.call.function.name().to_owned(), measure.call.distinct);
        let Ok(mut parts) = Call::of(call) else {
            return DescribedMeasure {
                call: self.sql(call),
                function,
                is_distinct,
                arguments: Vec::new(),
                data_type,
            };
        };
        parts.arguments = parts.arguments.iter().map(|argument| self.uncast(argument).clone()).collect();
        let written: Vec<String> = parts.arguments.iter().map(|argument| self.sql(argument)).collect();
        let filter = conjunction(parts.conditions).map(|filter| self.sql(&filter));
        let mut arguments: Vec<DescribedExpr> =
            parts.arguments.iter().map(|argument| self.expression(argument)).collect();
        if let (Some(filter), Some(first), Some(written)) = (&filter, arguments.first_mut(), written.first())
        {
            *first = DescribedExpr::Sql(format!("CASE WHEN {filter} THEN {written} END"));
        }
        let distinct = if is_distinct { "DISTINCT " } else { "" };
        let filter = filter.map(|filter| format!(" FILTER (WHERE {filter})")).unwrap_or_default();
        let call = format!("{function}({distinct}{}){filter}", written.join(", "));
        DescribedMeasure { call, function, is_distinct, arguments, data_type }
    }

    /// The expression as SQL, or in a readable form if it cannot be written as SQL.
    fn sql(&self, expr: &Expr) -> String {
        sql_over(expr, &self.aliases).unwrap_or_else(|| match with_aliases(expr, &self.aliases) {
            Some(named) => named.human_display().to_string(),
            None => expr.human_display().to_string(),
        })
    }
}
