//! The select-project-join-group form of an aggregation, in which cubes and queries are compared.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, NullEquality, TableReference};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::logical_plan::builder::LogicalTableSource;
use datafusion::logical_expr::{
    Aggregate, Expr, Join, JoinType, LogicalPlan, LogicalPlanBuilder, TableScan, TableScanBuilder,
};
use nyala_model::{FileFormat, QualifiedName};

use super::conjuncts::conjuncts;
use super::grouping::{QuerySet, grouping};
use super::outer::strengthen;
use crate::live::LiveProvider;
use crate::scan::ExternalTable;

/// Why an aggregation lacks the form, or a cube cannot be used: one sentence for EXPLAIN.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Miss(pub String);

impl Miss {
    pub fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

impl fmt::Display for Miss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One occurrence of a table in a FROM clause.
#[derive(Debug, Clone)]
pub struct Instance {
    /// The table.
    pub table: QualifiedName,
    /// Its scan, as planned.
    pub scan: TableScan,
    /// The ON conditions if this is the optional side of a LEFT JOIN; such a table adds columns that
    /// may be null, and never removes rows.
    pub outer: Option<Vec<Expr>>,
    /// Whether its files are Parquet.
    pub is_parquet: bool,
    /// The rows that are read, if not all, as a condition over the scan's columns.
    pub only: Option<Expr>,
    /// A subquery that is read in the place of a table, such as VALUES; `scan` is then only its schema.
    pub derived: Option<Arc<LogicalPlan>>,
}

impl Instance {
    /// Whether its rows are in files that every node reaches.
    pub fn is_shared(&self) -> bool {
        let provider = source_as_provider(&self.scan.source).ok();
        provider.and_then(|table| Some(table.downcast_ref::<ExternalTable>()?.is_shared())).unwrap_or(false)
    }

    /// Its name for people.
    pub fn shown(&self) -> String {
        match &self.derived {
            Some(plan) => format!("the {}", kind_of(plan)),
            None => format!("`{}`", self.table),
        }
    }
}

/// An aggregation over a join of tables, with every expression over base columns.
///
/// Columns are qualified by the instance they come from: `t0.lo_revenue` is column `lo_revenue` of the first
/// instance, under any alias in the text.
#[derive(Debug, Clone, Default)]
pub struct Block {
    /// The joined tables in order of appearance; the first is the root, a cube's fact table.
    pub instances: Vec<Instance>,
    /// Conditions that every joined row fulfils: WHERE and the ON of inner joins, split at AND.
    pub predicates: Vec<Expr>,
    /// Group expressions.
    pub group: Vec<Expr>,
    /// The grouping sets of the aggregation; empty for a plain GROUP BY.
    pub sets: Vec<QuerySet>,
    /// Aggregate calls, without aliases.
    pub aggregates: Vec<Expr>,
    /// Why no cube can be made of the aggregation, although a cube may answer it.
    pub not_for_cubes: Option<Miss>,
}

/// The catalog's name of the scanned table, independent of its alias in the query.
pub fn table_of(scan: &TableScan) -> Option<QualifiedName> {
    let provider = source_as_provider(&scan.source).ok()?;
    let external = provider.downcast_ref::<ExternalTable>().map(|table| table.entry());
    let live = || Some(provider.downcast_ref::<LiveProvider>()?.table().entry());
    external.or_else(live).map(|entry| entry.name.clone())
}

/// The qualifier of an instance's columns.
pub fn qualifier(instance: usize) -> TableReference {
    TableReference::bare(format!("t{instance}"))
}

/// The instance a canonical column belongs to.
pub fn instance_of(column: &Column) -> Option<usize> {
    column.relation.as_ref()?.table().strip_prefix('t')?.parse().ok()
}

/// Instances with columns in `expr`.
pub fn instances_of(expr: &Expr) -> BTreeSet<usize> {
    expr.column_refs().into_iter().filter_map(instance_of).collect()
}

type Columns = HashMap<Column, Expr>;

impl Block {
    /// Brings an aggregation to the form, or gives the reason why it has none.
    pub fn of(aggregate: &Aggregate) -> Result<Self, Miss> {
        let mut block = Self::default();
        let columns = block.flatten(&aggregate.input)?;
        strengthen(&mut block.instances, &mut block.predicates);
        let (group, sets) = grouping(aggregate)?;
        block.group = substitute_all(&group, &columns)?;
        block.sets = sets;
        block.aggregates = substitute_all(&aggregate.aggr_expr, &columns)?;
        block.aggregates = block.aggregates.into_iter().map(Expr::unalias).collect();
        let derived = block.instances.iter().any(|instance| instance.derived.is_some());
        let only_derived = block.instances.iter().all(|instance| instance.derived.is_some());
        match &block.not_for_cubes {
            // A subquery is read once for each grouping set, and LIMIT need not give the same rows each time.
            Some(miss) if only_derived || (derived && !block.sets.is_empty()) => Err(miss.clone()),
            None if only_derived => Err(Miss::new("it reads no table")),
            _ => Ok(block),
        }
    }

    /// The form of the SELECT of a cube, or the reason why a cube cannot have it.
    pub fn of_cube(aggregate: &Aggregate) -> Result<Self, Miss> {
        let block = Self::of(aggregate)?;
        match block.not_for_cubes {
            Some(miss) => Err(miss),
            None => Ok(block),
        }
    }

    /// The columns of all instances under their canonical names.
    pub fn columns(&self) -> datafusion::common::Result<DFSchema> {
        let columns = self.instances.iter().enumerate().flat_map(|(i, instance)| {
            instance.scan.projected_schema.fields().iter().map(move |field| {
                let nullable = field.is_nullable() || instance.outer.is_some();
                (Some(qualifier(i)), Arc::new(field.as_ref().clone().with_nullable(nullable)))
            })
        });
        DFSchema::new_with_metadata(columns.collect(), HashMap::new())
    }

    /// Adds the tables and predicates of `plan`; gives its output columns over base columns.
    fn flatten(&mut self, plan: &LogicalPlan) -> Result<Columns, Miss> {
        match plan {
            LogicalPlan::TableScan(scan) => self.add_table(scan),
            LogicalPlan::SubqueryAlias(alias) => {
                let inner = self.flatten(&alias.input)?;
                let names = alias.input.schema().columns().into_iter().zip(alias.schema.columns());
                names.map(|(from, to)| Ok((to, lookup(&inner, &from)?))).collect()
            }
            LogicalPlan::Projection(projection) => {
                let inner = self.flatten(&projection.input)?;
                let outputs = projection.schema.columns().into_iter().zip(&projection.expr);
                outputs.map(|(name, expr)| Ok((name, substitute(expr, &inner)?.unalias()))).collect()
            }
            LogicalPlan::Filter(filter) => {
                let inner = self.flatten(&filter.input)?;
                self.add_predicate(&filter.predicate, &inner)?;
                Ok(inner)
            }
            LogicalPlan::Join(join) => self.flatten_join(join),
            // One row without columns.
            LogicalPlan::EmptyRelation(empty)
                if empty.produce_one_row && empty.schema.fields().is_empty() =>
            {
                Ok(Columns::new())
            }
            other => self.add_derived(other),
        }
    }

    /// Adds a subquery as a table.
    fn add_derived(&mut self, plan: &LogicalPlan) -> Result<Columns, Miss> {
        let kind = kind_of(plan);
        let miss = Miss::new(format!("the aggregation reads the result of a {kind}"));
        let columns = plan.schema().columns();
        let names: BTreeSet<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        if names.len() < columns.len() || is_correlated(plan) {
            return Err(miss);
        }
        let qualifier = qualifier(self.instances.len());
        let source = Arc::new(LogicalTableSource::new(Arc::clone(plan.schema().inner())));
        let scan = TableScanBuilder::new(TableReference::bare(kind), source).build();
        self.instances.push(Instance {
            // No schema has an empty name, so that this name is never one of the catalog's.
            table: QualifiedName::new("", kind),
            scan: scan.map_err(|error| Miss::new(error.to_string()))?,
            outer: None,
            is_parquet: false,
            only: None,
            derived: Some(Arc::new(plan.clone())),
        });
        self.not_for_cubes.get_or_insert(miss);
        let canonical = |column: &Column| Expr::Column(Column::new(Some(qualifier.clone()), &column.name));
        Ok(columns.iter().map(|column| (column.clone(), canonical(column))).collect())
    }

    fn add_table(&mut self, scan: &TableScan) -> Result<Columns, Miss> {
        let Some(table) = table_of(scan) else {
            return Err(Miss::new(format!(
                "`{}` is neither a table of files nor a live table",
                scan.table_name
            )));
        };
        let provider = source_as_provider(&scan.source).ok();
        let external = provider.as_ref().and_then(|provider| provider.downcast_ref::<ExternalTable>());
        let qualifier = qualifier(self.instances.len());
        self.instances.push(Instance {
            table,
            scan: scan.clone(),
            outer: None,
            is_parquet: external.is_some_and(|table| table.format() == FileFormat::Parquet),
            only: None,
            derived: None,
        });
        let columns = scan.projected_schema.columns().into_iter();
        Ok(columns
            .map(|column| {
                let canonical = Column::new(Some(qualifier.clone()), column.name());
                (column, Expr::Column(canonical))
            })
            .collect())
    }

    fn flatten_join(&mut self, join: &Join) -> Result<Columns, Miss> {
        if join.null_equality != NullEquality::NullEqualsNothing {
            return Err(Miss::new("it has a join in which null equals null"));
        }
        let turned = join.join_type == JoinType::Right;
        let (first, second) = if turned { (&join.right, &join.left) } else { (&join.left, &join.right) };
        let mut columns = self.flatten(first)?;
        let (first_right, predicates) = (self.instances.len(), self.predicates.len());
        let right = self.flatten(second)?;
        // For a missing row the join gives null, even where the computed expression would turn nulls into a value.
        let computes = right.values().any(|output| !matches!(output, Expr::Column(_)));
        columns.extend(right);
        let mut conditions = Vec::new();
        for (left, right) in &join.on {
            let equal = left.clone().eq(right.clone());
            conditions.push(substitute(&equal, &columns)?);
        }
        if let Some(filter) = &join.filter {
            conditions.extend(conjuncts(substitute(filter, &columns)?));
        }
        match join.join_type {
            JoinType::Inner => self.predicates.extend(conditions),
            JoinType::Left | JoinType::Right => {
                if turned {
                    self.not_for_cubes.get_or_insert_with(|| Miss::new("it has a Right join"));
                }
                let single = self.instances.len() == first_right + 1 && self.predicates.len() == predicates;
                match self.instances.last_mut() {
                    Some(instance) if single && !computes => instance.outer = Some(conditions),
                    _ => return Err(Miss::new("the optional side of an outer join is not a plain table")),
                }
            }
            other => return Err(Miss::new(format!("it has a {other} join"))),
        }
        Ok(columns)
    }

    fn add_predicate(&mut self, predicate: &Expr, columns: &Columns) -> Result<(), Miss> {
        let predicate = substitute(predicate, columns)?;
        self.predicates.extend(conjuncts(predicate));
        Ok(())
    }
}

/// The column of `plan`, a join of tables, that is the base column `wanted`, if it has one.
pub fn output_of(plan: &LogicalPlan, wanted: &Column) -> Option<Column> {
    let outputs = Block::default().flatten(plan).ok()?;
    let found = outputs.into_iter().find(|(_, base)| matches!(base, Expr::Column(base) if base == wanted));
    found.map(|(output, _)| output)
}

fn substitute_all(exprs: &[Expr], columns: &Columns) -> Result<Vec<Expr>, Miss> {
    exprs.iter().map(|expr| substitute(expr, columns)).collect()
}

/// `expr` with every column replaced by its definition over base columns.
fn substitute(expr: &Expr, columns: &Columns) -> Result<Expr, Miss> {
    let mut miss = None;
    let replaced = expr.clone().transform_down(|expr| {
        let found = match &expr {
            Expr::Column(column) => lookup(columns, column).map(Some),
            Expr::OuterReferenceColumn(..) => Err(Miss::new("it is a correlated subquery")),
            Expr::ScalarSubquery(subquery) if !subquery.outer_ref_columns.is_empty() => {
                Err(Miss::new("it has a correlated subquery"))
            }
            Expr::Exists(exists) if !exists.subquery.outer_ref_columns.is_empty() => {
                Err(Miss::new("it has a correlated subquery"))
            }
            Expr::InSubquery(inside) if !inside.subquery.outer_ref_columns.is_empty() => {
                Err(Miss::new("it has a correlated subquery"))
            }
            Expr::SetComparison(compared) if !compared.subquery.outer_ref_columns.is_empty() => {
                Err(Miss::new("it has a correlated subquery"))
            }
            _ => Ok(None),
        };
        Ok(match found {
            Ok(Some(base)) => Transformed::new(base, true, TreeNodeRecursion::Jump),
            Ok(None) => Transformed::no(expr),
            Err(reason) => {
                miss = Some(reason);
                Transformed::new(expr, false, TreeNodeRecursion::Stop)
            }
        })
    });
    match (miss, replaced) {
        (Some(miss), _) => Err(miss),
        (None, Ok(replaced)) => Ok(replaced.data),
        (None, Err(error)) => Err(Miss::new(error.to_string())),
    }
}

fn lookup(columns: &Columns, column: &Column) -> Result<Expr, Miss> {
    columns
        .get(column)
        .cloned()
        .ok_or_else(|| Miss::new(format!("column `{}` comes from outside the query", column.flat_name())))
}

/// Whether a subquery reads columns of the query around it.
fn is_correlated(plan: &LogicalPlan) -> bool {
    let outer = |node: &LogicalPlan| Ok(node.contains_outer_reference());
    // The closure never fails.
    plan.exists(outer).unwrap_or(true)
}

fn kind_of(plan: &LogicalPlan) -> &'static str {
    match plan {
        LogicalPlan::Aggregate(_) => "another aggregation",
        LogicalPlan::Distinct(_) => "DISTINCT",
        LogicalPlan::Union(_) => "UNION",
        LogicalPlan::Window(_) => "window function",
        LogicalPlan::Limit(_) => "LIMIT",
        LogicalPlan::Sort(_) => "ORDER BY",
        LogicalPlan::Unnest(_) => "UNNEST",
        LogicalPlan::Values(_) => "VALUES list",
        LogicalPlan::EmptyRelation(_) => "SELECT without FROM",
        _ => "subplan that is not a join of tables",
    }
}

/// Reads the rows of one table.
pub fn scan_plan(instance: &Instance) -> datafusion::error::Result<LogicalPlanBuilder> {
    let scan = match &instance.derived {
        Some(plan) => LogicalPlanBuilder::from(Arc::clone(plan)),
        None => LogicalPlanBuilder::from(LogicalPlan::TableScan(instance.scan.clone())),
    };
    match &instance.only {
        Some(condition) => scan.filter(condition.clone()),
        None => Ok(scan),
    }
}
