//! `CREATE CUBE`: from a statement to the definition in the catalog.

use std::ops::ControlFlow;

use datafusion::execution::SessionState;
use datafusion::sql::sqlparser::ast::{
    Ident, ObjectName, ObjectNamePart, Query, Visit, Visitor, visit_relations_mut,
};
use nyala_model::{
    CubeDefinition, CubeOptions, Dimension, KeyKind, Measure, QualifiedName, RangePartition, Step,
};
use nyala_sql::error::{ErrorKind, QueryError, Result};
use nyala_sql::statement::{CreateCube, CubeGrouping, PartitionClause, StatementLimits};

use super::compile::{CompiledCube, CompiledMeasure, compile};
use super::measure::{Argument, record};
use super::options::options;
use super::partition::{PartitionColumn, kind_of};

/// Checks the statement and works out the cube's dimensions, measures and grouping sets. Bare table
/// names mean tables of `schema`, now and for ever.
pub async fn define(
    create: &CreateCube,
    schema: &str,
    state: &SessionState,
    limits: &StatementLimits,
) -> Result<CubeDefinition> {
    // A name given by WITH would be qualified like the name of a table.
    if create.query.visit(&mut FindWith).is_break() {
        return Err(QueryError::new(ErrorKind::InvalidDefinition, "the SELECT of a cube cannot have WITH")
            .hint("write the common table expression as a subquery in FROM"));
    }
    let grouping = CubeGrouping::expand(&create.query)?;
    let select = qualify_tables(grouping.flat, schema).to_string();
    let cube = compile(&select, None, &[], state, limits).await?;
    if cube.dimensions.len() != grouping.dimensions {
        return Err(QueryError::new(ErrorKind::InvalidDefinition, "GROUP BY names one dimension twice")
            .hint("write the same expression the same way everywhere"));
    }
    let partition = create.partition.as_ref().map(|clause| divide(clause, &cube)).transpose()?;
    // Operators cannot run BUILD CUBE after every write to a live table.
    let defaults = CubeOptions { auto_refresh: cube.is_live(), ..CubeOptions::default() };
    let options = options(defaults, &create.options, partition.as_ref())?;
    Ok(CubeDefinition {
        select,
        sources: sources(&cube),
        dimensions: describe_dimensions(&cube),
        measures: describe_measures(&cube),
        next_measure: u32::try_from(cube.measures.len()).unwrap_or(u32::MAX),
        grouping_sets: grouping.sets,
        revision: 0,
        partition,
        options,
    })
}

/// Breaks off at a WITH.
struct FindWith;

impl Visitor for FindWith {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        if query.with.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Reads `PARTITION BY RANGE (column) EVERY step` in the light of the column's type.
fn divide(clause: &PartitionClause, cube: &CompiledCube) -> Result<RangePartition> {
    let fact = cube.block.instances.first().ok_or_else(|| QueryError::internal("a cube has no tables"))?;
    if cube.is_live() {
        let message =
            format!("table `{}` is live, so a cube over it is divided by when rows were written", fact.table);
        return Err(QueryError::new(ErrorKind::InvalidDefinition, message).hint("leave PARTITION BY out"));
    }
    if !fact.is_parquet {
        let message =
            format!("table `{}` is not Parquet, so a cube over it cannot be partitioned", fact.table);
        return Err(QueryError::new(ErrorKind::InvalidDefinition, message)
            .hint("leave PARTITION BY out, or store the table as Parquet: its statistics tell which file holds which range"));
    }
    let calendar = clause.step.is_some_and(|step| !matches!(step, Step::Keys(_)));
    let schema = fact.scan.source.schema();
    let data_type = schema.field_with_name(&clause.column).ok().map(|field| field.data_type().clone());
    let kind = data_type.as_ref().map(|data_type| (data_type, kind_of(data_type, calendar)));
    let kind = match kind {
        Some((data_type, None)) => {
            let message =
                format!("a cube cannot be partitioned by `{}`, which is {data_type}", clause.column);
            return Err(QueryError::new(ErrorKind::InvalidDefinition, message)
                .hint("use an integer, DATE or TIMESTAMP column of the first table in FROM"));
        }
        // `PartitionColumn::find` below reports the missing column.
        None => KeyKind::Integer,
        Some((_, Some(kind))) => kind,
    };
    let step = clause.step.unwrap_or(match kind {
        KeyKind::Integer | KeyKind::CalendarInteger => Step::Keys(0),
        KeyKind::Date | KeyKind::Timestamp { .. } => Step::Months(1),
    });
    let step = match (kind, clause.seconds) {
        (KeyKind::Timestamp { per_second }, Some(seconds)) => Step::Keys(seconds.saturating_mul(per_second)),
        (_, Some(_)) => Step::Keys(0),
        _ => step,
    };
    let division = RangePartition { column: clause.column.clone(), kind, step };
    PartitionColumn::find(&division, &cube.block)?;
    let fits = match step {
        Step::Keys(_) => {
            !matches!(kind, KeyKind::Date | KeyKind::Timestamp { .. }) || clause.seconds.is_some()
        }
        Step::Days(_) | Step::Months(_) => kind != KeyKind::Integer,
    };
    if !fits || !step.is_positive() {
        return Err(QueryError::new(
            ErrorKind::InvalidDefinition,
            format!("a step of {} does not fit column `{}`", clause.text, clause.column),
        )
        .hint("use EVERY INTERVAL '1 month' for dates, EVERY 1000 for numbers"));
    }
    Ok(division)
}

fn qualify_tables(mut query: Query, schema: &str) -> Query {
    let _ = visit_relations_mut(&mut query, |name: &mut ObjectName| {
        if name.0.len() == 1 {
            name.0.insert(0, ObjectNamePart::Identifier(Ident::with_quote('"', schema)));
        }
        ControlFlow::<()>::Continue(())
    });
    query
}

fn sources(cube: &CompiledCube) -> Vec<QualifiedName> {
    let mut sources: Vec<QualifiedName> = Vec::new();
    for instance in &cube.block.instances {
        if !sources.contains(&instance.table) {
            sources.push(instance.table.clone());
        }
    }
    sources
}

pub fn describe_dimensions(cube: &CompiledCube) -> Vec<Dimension> {
    cube.dimensions.iter().map(describe_dimension).collect()
}

pub fn describe_measures(cube: &CompiledCube) -> Vec<Measure> {
    cube.measures.iter().map(describe_measure).collect()
}

fn describe_dimension(dimension: &super::compile::CompiledDimension) -> Dimension {
    Dimension {
        name: dimension.field.name().clone(),
        expression: dimension.expression.human_display().to_string(),
        data_type: dimension.field.data_type().to_string(),
    }
}

fn describe_measure(measure: &CompiledMeasure) -> Measure {
    let argument_types = measure.call.arguments.iter().map(|argument| match argument {
        Argument::Column(field) => field.data_type().to_string(),
        Argument::Constant(value) => value.data_type().to_string(),
    });
    Measure {
        number: measure.number,
        expression: measure.expression.human_display().to_string(),
        function: measure.call.function.name().to_owned(),
        argument_types: argument_types.collect(),
        distinct: measure.call.distinct,
        state_version: measure.version,
        states: record(&measure.states),
    }
}

/// Refuses a stored cube if the running version would read its states in another way.
pub fn check_states(stored: &CubeDefinition, compiled: &CompiledCube) -> Result<(), String> {
    let now = describe_measures(compiled);
    let same = stored.measures.len() == now.len()
        && stored
            .measures
            .iter()
            .zip(&now)
            .all(|(old, new)| old.states == new.states && old.state_version == new.state_version);
    let dimensions = describe_dimensions(compiled);
    let same_types = stored.dimensions.len() == dimensions.len()
        && stored
            .dimensions
            .iter()
            .zip(&dimensions)
            .all(|(a, b)| a.name == b.name && a.data_type == b.data_type);
    if same && same_types {
        Ok(())
    } else {
        Err("it was built by a version that stores states or types differently; drop, create and rebuild it"
            .to_owned())
    }
}
