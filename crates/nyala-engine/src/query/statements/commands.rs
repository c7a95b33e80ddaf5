//! The command of each statement of Nyala.

use nyala_sql::statement::{LiveStatement, Nyala};

use super::{backup, cache, kill, relations, roles, show_history};
use crate::query::command::Command;
use crate::query::cubes::{
    alter, analyze, build, check, create, drop_segments, jobs, recommend, segments, show,
};
use crate::query::{files, live};

/// The command that runs a statement.
pub fn command(statement: &Nyala) -> Box<dyn Command + '_> {
    match statement {
        Nyala::CreateCube(statement) => Box::new(create::Create(statement)),
        Nyala::AlterCube(statement) => Box::new(alter::Alter(statement)),
        Nyala::DropSegments(statement) => Box::new(drop_segments::DropSegments(statement)),
        Nyala::DropCube { name, if_exists } => Box::new(create::Drop { name, if_exists: *if_exists }),
        Nyala::BuildCube(statement) => Box::new(build::Build(statement)),
        Nyala::ShowCubes => Box::new(show::ShowCubes),
        Nyala::ShowCreateCube { name } => Box::new(show::ShowCreate(name)),
        Nyala::ShowSegments { cube } => Box::new(segments::ShowSegments { cube: cube.as_ref() }),
        Nyala::ShowCuboids { cube } => Box::new(segments::ShowCuboids { cube: cube.as_ref() }),
        Nyala::ShowJobs => Box::new(jobs::ShowJobs),
        Nyala::CancelJob(job) => Box::new(jobs::CancelJob(*job)),
        Nyala::KillQuery { id, node } => Box::new(kill::Kill { id: *id, node: node.as_deref() }),
        Nyala::Live(statement) => live_command(statement),
        Nyala::Relation(statement) => Box::new(relations::Relation(statement)),
        Nyala::Unneeded(statement) => Box::new(*statement),
        Nyala::Role(statement) => Box::new(roles::Role(statement)),
        Nyala::ShowQueryHistory => Box::new(show_history::ShowQueryHistory),
        Nyala::AnalyzeCube { name } => Box::new(analyze::Analyze(name)),
        Nyala::Cache(statement) => Box::new(cache::Cache(statement)),
        Nyala::RecommendCube(wish) => Box::new(recommend::Recommend(wish)),
        Nyala::CopyTo(statement) => Box::new(files::CopyRowsTo(statement)),
        Nyala::Backup(statement) => Box::new(backup::BackupTo(statement)),
        Nyala::CheckCube { name, sample } => Box::new(check::Check { name, sample: *sample }),
    }
}

fn live_command(statement: &LiveStatement) -> Box<dyn Command + '_> {
    match statement {
        LiveStatement::CreateDiskStore { name, if_not_exists, folder, options } => {
            Box::new(live::CreateStore {
                name,
                if_not_exists: *if_not_exists,
                folder: folder.as_deref(),
                options,
            })
        }
        LiveStatement::DropDiskStore { name, if_exists } => {
            Box::new(live::DropStore { name, if_exists: *if_exists })
        }
        LiveStatement::CreateTable { create, names, filled, options } => {
            Box::new(live::CreateTable { create, names, filled: *filled, options })
        }
        LiveStatement::AlterTable(statement) => Box::new(live::AlterTable(statement)),
        LiveStatement::Copy(statement) => Box::new(live::CopyFrom(statement)),
    }
}
