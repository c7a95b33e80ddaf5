//! A cube's SELECT, planned and taken apart: the common start of builds and answers.

use std::sync::Arc;

use arrow::datatypes::{FieldRef, Schema, SchemaRef};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, Projection};
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{GroupByExpr, SetExpr, Statement};
use nyala_model::{DimensionSet, KeySet, RangePartition, SegmentRange};
use nyala_sql::error::{ErrorKind, QueryError, Result};
use nyala_sql::functions::StateVersion;
use nyala_sql::statement::{StatementLimits, name_casts, parse};

use super::block::{Block, scan_plan};
use super::call::Call;
use super::edges::{JoinEdge, join_edges};
use super::expression::{Equalities, is_deterministic, normalize};
use super::flat::FlatRows;
use super::measure::MeasureCall;
use super::partition::PartitionColumn;

/// A dimension, ready to be compared and computed.
#[derive(Debug, Clone)]
pub struct CompiledDimension {
    /// Column in every cuboid with this dimension.
    pub field: FieldRef,
    /// The group expression over base columns, normalised.
    pub expression: Expr,
}

/// A measure, ready to be compared and computed.
#[derive(Debug, Clone)]
pub struct CompiledMeasure {
    /// The aggregate call over base columns, normalised.
    pub expression: Expr,
    /// The call in its canonical spelling, in which calls are compared.
    pub canonical: Call,
    /// How it is computed from flat rows or states.
    pub call: MeasureCall,
    /// Its state columns in every cuboid.
    pub states: Vec<FieldRef>,
    /// Version of the state's layout.
    pub version: StateVersion,
    /// Its number in the cube, by which its state columns are named.
    pub number: u32,
}

/// A cube's definition as expressions and plans.
#[derive(Debug, Clone)]
pub struct CompiledCube {
    /// The join and its conditions.
    pub block: Block,
    /// Columns that are equal in every flat row.
    pub equal: Equalities,
    /// Dimensions in definition order.
    pub dimensions: Vec<CompiledDimension>,
    /// Measures in definition order.
    pub measures: Vec<CompiledMeasure>,
    /// For each instance: how it is joined; none for the root and for tables joined in other ways.
    pub edges: Vec<Option<JoinEdge>>,
    /// The flat rows: a column for each dimension, then the arguments of every measure.
    pub flat: LogicalPlan,
    /// Schema of the flat rows.
    pub flat_schema: SchemaRef,
    /// The column it is partitioned by.
    pub partition: Option<PartitionColumn>,
    /// The columns of the joined tables, by canonical name.
    pub columns: DFSchema,
    /// The columns of a cuboid that has every dimension.
    pub cells: DFSchema,
}

impl CompiledCube {
    /// Columns of a cuboid over `set`: its dimensions, then the states of every measure.
    pub fn cuboid_schema(&self, set: DimensionSet) -> SchemaRef {
        self.cuboid_schema_before(set, u32::MAX)
    }

    /// Columns of a cuboid over `set` that was written when the measures below `measures` were there.
    pub fn cuboid_schema_before(&self, set: DimensionSet, measures: u32) -> SchemaRef {
        let dimensions = set.iter().filter_map(|i| self.dimensions.get(i)).map(|d| Arc::clone(&d.field));
        let held = self.measures.iter().filter(|measure| measure.number < measures);
        let states = held.flat_map(|measure| measure.states.iter().cloned());
        Arc::new(Schema::new(dimensions.chain(states).collect::<Vec<_>>()))
    }

    /// The cube as it was before measure number `measures` was added.
    pub fn before(&self, measures: u32) -> Self {
        let mut cube = self.clone();
        cube.measures.retain(|measure| measure.number < measures);
        cube
    }

    /// The cube over only the rows of its fact table in `range`.
    pub fn restricted(&self, range: SegmentRange) -> Result<Self> {
        self.restricted_to(&[range])
    }

    /// The cube over only the rows of its fact table in any of `ranges`.
    pub fn restricted_to(&self, ranges: &[SegmentRange]) -> Result<Self> {
        let mut cube = self.clone();
        let Some(fact) = cube.block.instances.first_mut() else { return Ok(cube) };
        match (&self.partition, written_in(ranges)) {
            (Some(column), _) => {
                let name = Column::new(Some(fact.scan.table_name.clone()), column.division.column.clone());
                fact.only = column.rows_of_any(ranges, &Expr::Column(name));
            }
            (None, Some(lsns)) => *fact = fact.only_written(&lsns)?,
            (None, None) => return Ok(cube),
        }
        let read = scan_plan(fact)?.build()?;
        let mut first = true;
        // The fact table is the first that its SELECT names, and so the first scan of the plan.
        let flat = cube.flat.transform_down(|node| match node {
            LogicalPlan::TableScan(_) if std::mem::take(&mut first) => {
                Ok(Transformed::new(read.clone(), true, TreeNodeRecursion::Jump))
            }
            other => Ok(Transformed::no(other)),
        })?;
        cube.flat = flat.data;
        Ok(cube)
    }
}

/// The LSNs of `ranges`, if all are ranges of LSNs.
fn written_in(ranges: &[SegmentRange]) -> Option<KeySet> {
    let keys = ranges.iter().map(|range| match range {
        SegmentRange::Written(lsns) => Some(KeySet::from(*lsns)),
        SegmentRange::Whole | SegmentRange::Keys(_) | SegmentRange::Nulls => None,
    });
    keys.reduce(|all, keys| Some(all?.union(&keys?))).flatten()
}

/// Plans `select`, the SELECT of a cube grouped plainly by all its dimensions, and takes it apart. Its
/// measures have these `numbers`, or else their positions.
pub async fn compile(
    select: &str,
    division: Option<&RangePartition>,
    numbers: &[u32],
    state: &SessionState,
    limits: &StatementLimits,
) -> Result<CompiledCube> {
    let plan = plan_definition(select, state, limits).await?;
    let (projection, aggregate) = find_aggregate(&plan)?;
    let block = Block::of_cube(aggregate).map_err(|miss| invalid(format!("cube cannot be built: {miss}")))?;
    check_conditions(&block)?;
    let equal = Equalities::of(&block.predicates);
    let names = dimension_names(projection, aggregate)?;
    let mut flat = FlatRows::new(&aggregate.input);
    let dimensions = compile_dimensions(&block, &equal, &names, aggregate, &mut flat)?;
    let calls = compile_calls(aggregate, &mut flat)?;
    let (flat, flat_schema) = flat.finish()?;
    let measures = compile_measures(&block, &equal, calls, (&flat_schema, numbers))?;
    let edges = join_edges(&block);
    let partition = division.map(|division| PartitionColumn::find(division, &block)).transpose()?;
    let columns = block.columns()?;
    let cells = DFSchema::empty();
    let mut cube = CompiledCube {
        block,
        equal,
        dimensions,
        measures,
        edges,
        flat,
        flat_schema,
        partition,
        columns,
        cells,
    };
    let every = (0..cube.dimensions.len()).collect();
    cube.cells = DFSchema::try_from(cube.cuboid_schema(every))?;
    Ok(cube)
}

/// The plan of a cube's SELECT.
pub async fn plan_select(
    select: &str,
    state: &SessionState,
    limits: &StatementLimits,
) -> Result<LogicalPlan> {
    plan_statement(parse_select(select, limits)?, state).await
}

/// The plan of a cube's SELECT, grouped by the listed dimensions only: the planner adds to a primary key in
/// GROUP BY all columns that depend on it.
pub async fn plan_definition(
    select: &str,
    state: &SessionState,
    limits: &StatementLimits,
) -> Result<LogicalPlan> {
    let statement = parse_select(select, limits)?;
    let listed = listed(&statement);
    let plan = plan_statement(statement, state).await?;
    let (projection, aggregate) = find_aggregate(&plan)?;
    match listed {
        Some(listed) if listed < aggregate.group_expr.len() => {
            let groups = aggregate.group_expr.iter().take(listed).cloned().collect();
            let cut = Aggregate::try_new(Arc::clone(&aggregate.input), groups, aggregate.aggr_expr.clone())?;
            let cut = Projection::try_new(projection.expr.clone(), Arc::new(LogicalPlan::Aggregate(cut)));
            Ok(LogicalPlan::Projection(cut.map_err(|_| not_listed())?))
        }
        _ => Ok(plan),
    }
}

fn not_listed() -> QueryError {
    invalid("the SELECT of a cube has a column that GROUP BY does not list")
        .hint("list it: a primary key makes it no dimension")
}

/// How many expressions GROUP BY lists.
fn listed(statement: &Statement) -> Option<usize> {
    let Statement::Query(query) = statement else { return None };
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    match &select.group_by {
        GroupByExpr::Expressions(listed, _) => Some(listed.len()),
        GroupByExpr::All(_) => None,
    }
}

fn parse_select(select: &str, limits: &StatementLimits) -> Result<Statement> {
    let statement = parse(select, limits)?.pop().and_then(|statement| statement.ast().cloned());
    statement.ok_or_else(|| QueryError::internal("the SELECT of a cube is not a query"))
}

async fn plan_statement(mut statement: Statement, state: &SessionState) -> Result<LogicalPlan> {
    name_casts(&mut statement);
    let plan = state.statement_to_plan(DfStatement::Statement(Box::new(statement))).await?;
    let options = state.config_options();
    Ok(state.analyzer().execute_and_check(plan, options, |_, _| {})?)
}

/// The aggregation of a cube's SELECT, and the projection over its results.
pub fn find_aggregate(plan: &LogicalPlan) -> Result<(&Projection, &Aggregate)> {
    if let LogicalPlan::Projection(projection) = plan {
        match projection.input.as_ref() {
            LogicalPlan::Aggregate(aggregate) if !aggregate.aggr_expr.is_empty() => {
                return Ok((projection, aggregate));
            }
            LogicalPlan::Window(_) => {
                return Err(invalid("the SELECT of a cube cannot have window functions")
                    .hint("leave them out here and write them in the queries"));
            }
            _ => {}
        }
    }
    Err(invalid("the SELECT of a cube has no aggregate").hint("add at least one measure, such as `count(*)`"))
}

/// A cube holds the rows that fulfilled its conditions when it was built: they must never change.
fn check_conditions(block: &Block) -> Result<()> {
    let outer = block.instances.iter().filter_map(|instance| instance.outer.as_ref()).flatten();
    match block.predicates.iter().chain(outer).find(|condition| !is_deterministic(condition)) {
        Some(condition) => {
            let message = format!("condition `{}` of a cube may change with time", condition.human_display());
            Err(invalid(message).hint("leave it out here and write it in the queries"))
        }
        None => Ok(()),
    }
}

/// A dimension is called as the SELECT list calls it, or else by its column or its text.
fn dimension_names(projection: &Projection, aggregate: &Aggregate) -> Result<Vec<String>> {
    let outputs = aggregate.schema.columns();
    let mut names = Vec::new();
    for (output, group) in outputs.iter().zip(&aggregate.group_expr) {
        let alias = projection.expr.iter().find_map(|expr| match expr {
            Expr::Alias(alias) if *alias.expr == Expr::Column(output.clone()) => Some(alias.name.clone()),
            _ => None,
        });
        let name = alias.unwrap_or_else(|| match group {
            Expr::Column(column) => column.name.clone(),
            other => other.schema_name().to_string(),
        });
        if names.contains(&name) {
            return Err(invalid(format!("two dimensions are called `{name}`"))
                .hint("give one of them another name with AS in the SELECT list"));
        }
        names.push(name);
    }
    Ok(names)
}

fn compile_dimensions(
    block: &Block,
    equal: &Equalities,
    names: &[String],
    aggregate: &Aggregate,
    flat: &mut FlatRows,
) -> Result<Vec<CompiledDimension>> {
    let mut dimensions: Vec<CompiledDimension> = Vec::new();
    for ((name, expr), group) in names.iter().zip(&block.group).zip(&aggregate.group_expr) {
        if !is_deterministic(expr) {
            return Err(invalid(format!("dimension `{name}` gives another value each time it is computed"))
                .hint("group by a column or a deterministic expression"));
        }
        let field = flat.add(group, name)?;
        if field.data_type().is_nested() {
            let message =
                format!("dimension `{name}` has type {}, which cannot be sorted", field.data_type());
            return Err(invalid(message).hint("group by one of its parts"));
        }
        let expression = normalize(expr, equal);
        if let Some(twin) = dimensions.iter().find(|d| d.expression == expression) {
            let message = format!("dimensions `{}` and `{name}` are always equal", twin.field.name());
            return Err(invalid(message).hint("leave one of them out; queries may use either"));
        }
        dimensions.push(CompiledDimension { field, expression });
    }
    Ok(dimensions)
}

fn compile_calls(aggregate: &Aggregate, flat: &mut FlatRows) -> Result<Vec<(MeasureCall, StateVersion)>> {
    let measures = aggregate.aggr_expr.iter().enumerate();
    measures.map(|(position, expr)| flat.call(expr, position)).collect()
}

fn compile_measures(
    block: &Block,
    equal: &Equalities,
    calls: Vec<(MeasureCall, StateVersion)>,
    (flat, numbers): (&SchemaRef, &[u32]),
) -> Result<Vec<CompiledMeasure>> {
    let measures = calls.into_iter().zip(&block.aggregates).enumerate();
    measures
        .map(|(position, ((call, version), expr))| {
            let number = numbers.get(position).copied();
            let number = number.unwrap_or_else(|| u32::try_from(position).unwrap_or(u32::MAX));
            let states = call.state_columns(flat, number as usize)?;
            let expression = normalize(expr, equal);
            let canonical = Call::of(&expression).map_err(QueryError::internal)?.canonical();
            Ok(CompiledMeasure { expression, canonical, call, states, version, number })
        })
        .collect()
}

pub fn invalid(message: impl Into<String>) -> QueryError {
    QueryError::new(ErrorKind::InvalidDefinition, message)
}
