//! `CREATE CUBE`: from a statement to what the catalog records.

use std::ops::ControlFlow;

use datafusion::execution::SessionState;
use datafusion::sql::sqlparser::ast::{Ident, ObjectName, ObjectNamePart, Query, visit_relations_mut};
use nyala_model::{CubeDefinition, Dimension, Measure, QualifiedName};

use super::compile::{CompiledCube, CompiledMeasure, compile};
use super::measure::{Argument, record};
use crate::error::{ErrorKind, QueryError, Result};
use crate::statement::{CreateCube, CubeGrouping, StatementLimits};

/// Checks the statement and works out the cube's dimensions, measures and grouping sets. Bare table
/// names mean tables of `schema`, now and for ever.
pub(crate) async fn define(
    create: &CreateCube,
    schema: &str,
    state: &SessionState,
    limits: &StatementLimits,
) -> Result<CubeDefinition> {
    if create.query.with.is_some() {
        return Err(QueryError::new(ErrorKind::InvalidDefinition, "the SELECT of a cube cannot have WITH")
            .hint("write the common table expression as a subquery in FROM"));
    }
    let grouping = CubeGrouping::expand(&create.query)?;
    let select = qualify_tables(grouping.flat, schema).to_string();
    let cube = compile(&select, state, limits).await?;
    if cube.dimensions.len() != grouping.dimensions {
        return Err(QueryError::new(ErrorKind::InvalidDefinition, "GROUP BY names one dimension twice")
            .hint("write the same expression the same way everywhere"));
    }
    Ok(CubeDefinition {
        select,
        sources: sources(&cube),
        dimensions: cube.dimensions.iter().map(describe_dimension).collect(),
        measures: cube.measures.iter().map(describe_measure).collect(),
        grouping_sets: grouping.sets,
    })
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
        expression: measure.expression.human_display().to_string(),
        function: measure.call.function.name().to_owned(),
        argument_types: argument_types.collect(),
        distinct: measure.call.distinct,
        state_version: measure.version,
        states: record(&measure.states),
    }
}

/// Refuses a stored cube whose states the running version would read in another way.
pub(crate) fn check_states(stored: &CubeDefinition, compiled: &CompiledCube) -> Result<(), String> {
    let now: Vec<Measure> = compiled.measures.iter().map(describe_measure).collect();
    let same = stored.measures.len() == now.len()
        && stored
            .measures
            .iter()
            .zip(&now)
            .all(|(old, new)| old.states == new.states && old.state_version == new.state_version);
    let dimensions: Vec<_> = compiled.dimensions.iter().map(describe_dimension).collect();
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
