//! `ALTER CUBE`: from the current definition to the next one.
//!
//! The SELECT is split into lists, the lists are changed, and the SELECT is planned again. Existing files stay
//! valid: a measure keeps its number, and so the names of its columns; a dimension keeps its name, while the
//! catalog moves the numbers in the sets to the new positions.

use datafusion::execution::SessionState;
use nyala_model::{CubeDefinition, CubeEntry, DimensionMoves};
use nyala_sql::error::{ErrorKind, QueryError, Result};
use nyala_sql::statement::{AlterAction, CubeSelect, StatementLimits, StatementOption, resolve_positions};

use super::compile::{CompiledCube, compile};
use super::definition::{describe_dimensions, describe_measures};
use super::lists::{Changed, CubeChange, exists};
use super::options::{options, written};
use super::statement::{create_of, query_of};

/// A cube after an ALTER CUBE.
#[derive(Debug, Clone)]
pub struct Alteration {
    /// Its definition.
    pub definition: CubeDefinition,
    /// The statement that would create the altered cube.
    pub statement: String,
    /// The new position of each previous dimension.
    pub moves: DimensionMoves,
}

/// The definition and statement of the cube after `actions`.
pub async fn alter(
    entry: &CubeEntry,
    compiled: &CompiledCube,
    actions: &[AlterAction],
    state: &SessionState,
    limits: &StatementLimits,
) -> Result<Alteration> {
    let set: Vec<StatementOption> = actions
        .iter()
        .flat_map(|action| match action {
            AlterAction::Set(options) => options.clone(),
            _ => Vec::new(),
        })
        .collect();
    let mut alteration = if actions.iter().all(|action| matches!(action, AlterAction::Set(_))) {
        unchanged(entry, (&set, compiled.is_live()), limits)?
    } else {
        other_cells(entry, compiled, actions, &set, (state, limits)).await?
    };
    let definition = &mut alteration.definition;
    let before = std::mem::take(&mut definition.options);
    definition.options = options(before, &set, definition.partition.as_ref())?;
    definition.revision = entry.definition.revision.wrapping_add(1);
    Ok(alteration)
}

/// The cube with other options, and otherwise unchanged.
fn unchanged(
    entry: &CubeEntry,
    (set, is_live): (&[StatementOption], bool),
    limits: &StatementLimits,
) -> Result<Alteration> {
    let definition = entry.definition.clone();
    let moves = DimensionMoves((0..definition.dimensions.len()).map(Some).collect());
    let mut create = create_of(entry, limits)?;
    create.options = written(&create.options, set, is_live);
    Ok(Alteration { definition, statement: create.to_string(), moves })
}

async fn other_cells(
    entry: &CubeEntry,
    compiled: &CompiledCube,
    actions: &[AlterAction],
    set: &[StatementOption],
    (state, limits): (&SessionState, &StatementLimits),
) -> Result<Alteration> {
    let is_aggregate = |name: &str| state.aggregate_functions().contains_key(name);
    let mut flat = query_of(&entry.definition.select, limits)?;
    let mut change = CubeChange::of(&entry.definition, CubeSelect::of(&flat, is_aggregate)?);
    for action in actions {
        change.apply(action, &is_aggregate)?;
    }
    let (gone, added) = (change.gone.len(), change.added.len());
    let changed = change.finish()?;
    changed.select.write_named_list(&mut flat)?;
    changed.select.group_plainly(&mut flat)?;
    let select = flat.to_string();
    let division = entry.definition.partition.as_ref();
    let planned = compile(&select, division, &[], state, limits).await?;
    let (numbers, next_measure) = numbers(entry, compiled, &planned, (gone, added))?;
    check_dimensions(compiled, &planned, &changed)?;
    let planned = compile(&select, division, &numbers, state, limits).await?;
    let definition = CubeDefinition {
        select,
        dimensions: describe_dimensions(&planned),
        measures: describe_measures(&planned),
        next_measure,
        grouping_sets: changed.sets.clone(),
        ..entry.definition.clone()
    };
    let statement = statement(entry, &changed, (set, compiled.is_live()), limits)?;
    Ok(Alteration { definition, statement, moves: changed.moves })
}

/// The CREATE CUBE statement with other lists; its grouping stays as written if the sets are the same.
fn statement(
    entry: &CubeEntry,
    changed: &Changed,
    (set, is_live): (&[StatementOption], bool),
    limits: &StatementLimits,
) -> Result<String> {
    let mut create = create_of(entry, limits)?;
    create.options = written(&create.options, set, is_live);
    let query = create.query.as_mut();
    if changed.sets == entry.definition.grouping_sets && changed.moves.0.iter().all(Option::is_some) {
        resolve_positions(query)?;
    } else {
        let sets = changed.sets.iter().map(|set| set.iter().collect());
        changed.select.group_by_sets(query, sets)?;
    }
    changed.select.write_list(query)?;
    Ok(create.to_string())
}

/// The numbers of the planned measures: measures of the old definition keep theirs.
fn numbers(
    entry: &CubeEntry,
    before: &CompiledCube,
    planned: &CompiledCube,
    (gone, added): (usize, usize),
) -> Result<(Vec<u32>, u32)> {
    let mut next = entry.definition.next_measure;
    let mut numbers = Vec::new();
    for measure in &planned.measures {
        let same = before.measures.iter().find(|old| old.expression == measure.expression);
        numbers.push(match same {
            Some(old) => old.number,
            None => {
                next = next.checked_add(1).ok_or_else(|| QueryError::internal("measures are used up"))?;
                next - 1
            }
        });
    }
    let kept = before.measures.iter().filter(|old| numbers.contains(&old.number)).count();
    if numbers.len() - kept < added {
        return Err(exists("the cube has such a measure already, in another spelling".to_owned()));
    }
    if before.measures.len() - kept != gone || !numbers.is_sorted() {
        return Err(odd());
    }
    Ok((numbers, next))
}

/// Refuses if a remaining dimension would change its expression, name or type.
fn check_dimensions(before: &CompiledCube, planned: &CompiledCube, changed: &Changed) -> Result<()> {
    let same = before.dimensions.iter().zip(&changed.moves.0).all(|(old, place)| match place {
        None => true,
        Some(place) => planned.dimensions.get(*place).is_some_and(|new| {
            new.expression == old.expression
                && new.field.name() == old.field.name()
                && new.field.data_type() == old.field.data_type()
        }),
    });
    if same && planned.dimensions.len() == changed.select.dimensions.len() { Ok(()) } else { Err(odd()) }
}

fn odd() -> QueryError {
    QueryError::new(
        ErrorKind::Unsupported,
        "the SELECT of the cube is written in a way that cannot be altered",
    )
    .hint("drop the cube and create it anew")
}
