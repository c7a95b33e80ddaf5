//! A job from its first record in the catalog to the record of its end.

use std::sync::Arc;

use nyala_catalog::{CatalogError, Lease};
use nyala_cube::cube::build::{LeftSegments, RunningBuild, Work};
use nyala_model::JobId;
use nyala_runtime::Scope;
use nyala_sql::error::{ErrorKind, QueryError, Result};

use super::divide::OthersSegments;
use super::jobs::EndJob;
use super::maker::Maker;
use crate::query::resources::task::Task;

/// A job that the catalog has as running. Dropping it records that the job was cancelled.
pub struct BegunJob {
    /// The right to change the cube.
    pub lease: Arc<Lease>,
    pub job: EndJob,
    /// Lists the job, and keeps other jobs of this node from the cube.
    pub listed: RunningBuild,
    pub maker: Maker,
    pub works: Vec<Work>,
}

impl BegunJob {
    /// Makes the segments. Dropping the future cancels the job.
    pub async fn run(self) -> Result<()> {
        let Self { lease, job, listed, maker, works } = self;
        let (progress, engine) = (Arc::clone(job.progress()), Arc::clone(&maker.engine));
        let (cube, home) = (maker.name.clone(), maker.context.home.clone());
        let left = LeftSegments { cube: cube.clone(), home: home.clone() };
        let is_divided = Arc::clone(&maker.is_divided);
        let others = OthersSegments { cube, home, is_divided, listed: Some(listed) };
        let work = async move {
            let others = others;
            // Dropped before others may build the cube.
            let left = left;
            let made = maker.make_all(works).await;
            drop(left);
            others.settle(&made).await;
            made
        };
        let mut work = Task::spawn(&engine.runtime.threads, Scope::new(Arc::default()), work);
        let outcome = tokio::select! {
            biased;
            () = progress.cancelled() => {
                work.stop().await;
                let message = format!("job {} was cancelled", progress.entry().id.0);
                Err(QueryError::new(ErrorKind::Cancelled, message))
            }
            () = lease.lost() => {
                work.stop().await;
                let (lease, is_shared) = (lease.fence().lease.clone(), engine.catalog().is_shared());
                Err(CatalogError::LeaseLost { lease, is_shared }.into())
            }
            outcome = work.joined() => outcome,
        };
        job.finish(&outcome).await;
        outcome
    }

    /// Lets the job go on without its statement, until it or the engine ends.
    pub fn go_on(self) -> JobId {
        let (engine, id) = (Arc::clone(&self.maker.engine), self.job.progress().entry().id);
        engine.runtime.spawn(async move {
            let name = self.maker.name.clone();
            // The list of jobs has the error, too.
            if let Err(error) = self.run().await {
                tracing::warn!(job = id.0, cube = %name, %error, "a job that nobody waits for has failed");
            }
        });
        id
    }
}
