//! The benchmark's tables and cube in the catalog.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use nyala_client::split::split;
use nyala_engine::{Answer, Engine, ErrorKind, QueryError, Session};
use nyala_model::SegmentState;

use super::command::step;
use crate::build_progress;
use crate::sql::duration;

const TABLES: &str = include_str!("../../../../benchmarks/ssb/tables.sql");
const CUBE: &str = include_str!("../../../../benchmarks/ssb/cube.sql");

/// Creates the tables over the files in `files` that do not exist yet.
pub async fn ensure_tables(session: &Session, files: &Path) -> Result<()> {
    // The place in the statements is within quotes.
    let location = files.to_string_lossy().replace('\'', "''");
    create_missing(session, &TABLES.replace("${DATA}", &location)).await.context("cannot create the tables")
}

/// Creates the cube if it does not exist, and builds every cube that was never built to its end, or all of
/// them if the tables hold `fresh` data.
pub async fn ensure_cubes(engine: &Engine, session: &Session, fresh: bool) -> Result<()> {
    create_missing(session, CUBE).await.context("cannot create the cube")?;
    for (name, cube) in &engine.catalog().snapshot().cubes {
        if !fresh && cube.segments.iter().any(|segment| segment.state == SegmentState::Ready) {
            step(&format!("using the built cube `{name}`"))?;
            continue;
        }
        step(&format!(
            "building cube `{name}`: {} cuboids over {} dimensions …",
            cube.definition.grouping_sets.len(),
            cube.definition.dimensions.len()
        ))?;
        let started = Instant::now();
        build_progress::shown(engine, run(session, &format!("BUILD CUBE {name}"))).await?;
        step(&format!("built in {}", duration(started.elapsed())))?;
    }
    Ok(())
}

/// Runs CREATE statements; tables and schemas that exist already stay as they are.
async fn create_missing(session: &Session, statements: &str) -> Result<()> {
    for statement in split(statements) {
        match run(session, statement).await {
            Err(error) if matches!(error.kind, ErrorKind::DuplicateTable | ErrorKind::DuplicateSchema) => {}
            other => other?,
        }
    }
    Ok(())
}

async fn run(session: &Session, statement: &str) -> Result<(), QueryError> {
    match session.query(statement).await? {
        Answer::Rows(rows) => rows.collect().await.map(drop),
        Answer::Done(_) => Ok(()),
    }
}
