//! Opens the files that a statement reads in the place of tables.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl};
use datafusion::common::{ScalarValue, plan_datafusion_err};
use datafusion::datasource::TableProvider;
use datafusion::execution::SessionState;
use datafusion::logical_expr::Expr;
use datafusion::sql::parser::Statement as DfStatement;
use nyala_cube::scan::{ExternalTable, Stores, TableRequest, describe_table};
use nyala_model::{QualifiedName, TableEntry, TableId, TableSource};
use nyala_sql::error::{QueryError, Result};
use nyala_sql::statement::{FileTable, READ_FILES, take_files};

use super::options::{format_of, reader_options};
use crate::query::authorize::{Caller, FILES};
use crate::query::plan::logical::{Planned, logical_plan};
use crate::query::session::Session;
use crate::session::Settings;

/// A statement after a first look at it.
enum Look {
    /// It reads no files.
    Planned(Planned),
    /// It has calls in the places of these files.
    Files(DfStatement, Box<SessionState>, Vec<FileTable>),
}

/// Resolves names and types of a statement that may read files. The columns of the files are found here, once; the files of a location
/// are listed each time the plan runs.
pub async fn planned(
    session: &Session,
    mut statement: DfStatement,
    state: SessionState,
    settings: &Settings,
) -> Result<Planned> {
    let threads = &session.engine.runtime.threads;
    // Trees are walked on planning threads alone, which have much stack.
    let look = threads.plan(async move {
        let files = take_files(&mut statement)?;
        match files.is_empty() {
            true => Ok(Look::Planned(logical_plan(statement, state).await?)),
            false => Ok(Look::Files(statement, Box::new(state), files)),
        }
    });
    match look.await? {
        Look::Planned(planned) => Ok(planned),
        Look::Files(statement, state, files) => {
            let state = opened(session, files, *state, settings).await?;
            threads.plan(logical_plan(statement, state)).await
        }
    }
}

/// Takes the files out of a statement, and gives a state in which they are found.
pub async fn with_files(
    session: &Session,
    mut statement: DfStatement,
    state: SessionState,
    settings: &Settings,
) -> Result<(DfStatement, SessionState)> {
    let look = async move {
        let files = take_files(&mut statement)?;
        Ok((statement, files))
    };
    let (statement, files) = session.engine.runtime.threads.plan(look).await?;
    match files.is_empty() {
        true => Ok((statement, state)),
        false => Ok((statement, opened(session, files, state, settings).await?)),
    }
}

async fn opened(
    session: &Session,
    files: Vec<FileTable>,
    state: SessionState,
    settings: &Settings,
) -> Result<SessionState> {
    if let Some(caller) = Caller::of(session, settings) {
        files.iter().try_for_each(|file| caller.may_read_file(&file.location))?;
    }
    let stores = Arc::clone(session.engine.snapshots.stores());
    let work = async move {
        let mut tables: Vec<Arc<dyn TableProvider>> = Vec::new();
        for file in files {
            tables.push(open(file, &state, &stores).await?);
        }
        Ok((state, tables))
    };
    let (mut state, tables) = session.engine.runtime.threads.plan(work).await?;
    state.register_udtf(READ_FILES, Arc::new(ReadFiles(tables)));
    Ok(state)
}

async fn open(file: FileTable, state: &SessionState, stores: &Stores) -> Result<Arc<dyn TableProvider>> {
    let format = format_of(&file)?.to_owned();
    let (options, find_partitions) = reader_options(&file, &format)?;
    let request = TableRequest {
        name: QualifiedName::new(FILES, &file.location),
        location: file.location,
        file_type: format,
        columns: Arc::new(Schema::empty()),
        partition_columns: Vec::new(),
        find_partitions,
        options,
        definition: String::new(),
    };
    let described = describe_table(request, state, stores).await?;
    let entry = Arc::new(TableEntry {
        id: TableId(0),
        name: described.name,
        source: described.source,
        schema_ipc: described.schema_ipc,
        definition: described.definition,
    });
    let TableSource::External(source) = &entry.source else {
        return Err(QueryError::internal("a file is no external table"));
    };
    Ok(Arc::new(ExternalTable::open(Arc::clone(&entry), source, state, stores)?))
}

/// The files of one statement, by their places in it.
struct ReadFiles(Vec<Arc<dyn TableProvider>>);

impl fmt::Debug for ReadFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReadFiles({})", self.0.len())
    }
}

impl TableFunctionImpl for ReadFiles {
    fn call_with_args(&self, args: TableFunctionArgs) -> datafusion::error::Result<Arc<dyn TableProvider>> {
        let place = match args.exprs() {
            [Expr::Literal(ScalarValue::Int64(Some(place)), _)] => usize::try_from(*place).ok(),
            _ => None,
        };
        let table = place.and_then(|place| self.0.get(place)).cloned();
        table.ok_or_else(|| plan_datafusion_err!("write read_parquet('…'), read_csv('…') or read_json('…')"))
    }
}
