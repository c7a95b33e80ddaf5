//! Statements that only Nyala knows: their access checks, and the modules that run them.

use datafusion::sql::parser::Statement as DfStatement;
use nyala_model::JobId;
use nyala_sql::error::Result;
use nyala_sql::statement::{LiveStatement, Nyala, Statement};

use super::activity::Running;
use super::answer::{Answer, Completion};
use super::cubes::{alter, analyze, build, check, recommend, segments};
use super::run::Deadline;
use super::session::Session;
use super::{authorize, backup, ddl, history, live, planning, roles, show};
use crate::session::Settings;

impl Session {
    pub(super) async fn authorize_own(&self, statement: &Nyala, settings: &Settings) -> Result<()> {
        authorize::own(&self.engine, &self.options().identity, statement, settings)?;
        match statement {
            Nyala::CreateCube(create) => {
                self.authorize_query(Statement::query(create.query.clone()), settings).await
            }
            Nyala::Live(live) => match live.as_ref() {
                LiveStatement::CreateTable { create, .. } => match &create.query {
                    Some(query) => self.authorize_query(Statement::query(query.clone()), settings).await,
                    None => Ok(()),
                },
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// Plans a query only to check the tables it reads; skipped for the owner and for superusers.
    pub(super) async fn authorize_query(&self, query: DfStatement, settings: &Settings) -> Result<()> {
        if self.options().identity.may_everything(&self.engine.catalog().snapshot()) {
            return Ok(());
        }
        let context = self.engine.context();
        let planned = self.engine.threads.plan(planning::logical_plan(query, context.state(settings))).await;
        let planned = planned.map_err(|error| context.explain_missing(error))?;
        authorize::plan(&self.engine, &self.options().identity, planned.plan.logical(), settings)
    }

    pub(super) async fn run_own(
        &self,
        statement: &Nyala,
        settings: &Settings,
        deadline: &Deadline,
        running: Running,
    ) -> Result<Answer> {
        let engine = &self.engine;
        match statement {
            Nyala::CreateCube(create) => ddl::create_cube(engine, create, settings).await,
            Nyala::AlterCube(statement) => Box::pin(alter::run(engine, statement, settings)).await,
            Nyala::DropCube { name, if_exists } => {
                ddl::drop_cube(engine, ddl::name_of(name, settings.schema())?, *if_exists).await
            }
            Nyala::BuildCube(statement) => {
                let name = ddl::name_of(&statement.name, settings.schema())?;
                build::run(engine, statement, name, settings).await
            }
            Nyala::ShowCubes => Ok(show::rows(show::cubes(engine)?, running)),
            Nyala::ShowSegments { cube } => {
                let cube = cube.as_ref().map(|name| ddl::name_of(name, settings.schema())).transpose()?;
                Ok(show::rows(segments::segments(engine, cube.as_ref())?, running))
            }
            Nyala::ShowCuboids { cube } => {
                let cube = cube.as_ref().map(|name| ddl::name_of(name, settings.schema())).transpose()?;
                Ok(show::rows(segments::cuboids(engine, cube.as_ref())?, running))
            }
            Nyala::ShowJobs => Ok(show::rows(show::jobs(engine).await?, running)),
            Nyala::CancelJob(job) => {
                engine.cancel_job(JobId(*job)).await?;
                Ok(Completion::of("CANCEL JOB"))
            }
            Nyala::KillQuery { id } => engine.kill(*id),
            Nyala::Live(statement) => Box::pin(live::run(self, statement, settings, deadline, running)).await,
            Nyala::Role(statement) => roles::run(engine, statement, settings, running).await,
            Nyala::ShowQueryHistory => Ok(show::rows(history::show(engine).await?, running)),
            Nyala::AnalyzeCube { name } => {
                analyze::run(engine, &ddl::name_of(name, settings.schema())?, running).await
            }
            Nyala::RecommendCube(wish) => Box::pin(recommend::run(engine, wish, settings, running)).await,
            Nyala::Backup(statement) => Box::pin(backup::run(engine, statement)).await,
            Nyala::CheckCube { name, sample } => {
                let name = ddl::name_of(name, settings.schema())?;
                Box::pin(check::run(engine, &name, *sample, settings, running)).await
            }
        }
    }
}
