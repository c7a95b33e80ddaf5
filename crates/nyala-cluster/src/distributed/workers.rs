//! Runs parts of other nodes' queries.

use std::fmt;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use arrow::datatypes::Schema;
use datafusion::common::config::ConfigOptions;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::prelude::SessionConfig;
use datafusion_distributed::{
    DistributedConfig, DistributedExt, MaybeEncoded, SetPlanRequest, TaskKey, Worker, WorkerPlanRewriteEvent,
    WorkerPlanRewriteEventResponse, WorkerQueryContext,
};
use futures::{FutureExt, StreamExt, stream};
use nyala_engine::{Engine, ErrorKind, Fragment, QueryError, VERSION, insert_yields};
use nyala_model::NodeId;
use tonic::codegen::http::HeaderMap;
use uuid::Uuid;

use super::channels::Channels;
use super::codec::Codec;
use super::errors::{not_ready, to_text};
use super::executors::url_of;
use super::fragment::in_scope;
use super::headers;
use super::measure::without_marks;
use super::threads::{OnThreads, PartService};

/// How often tasks that have ended are let go of.
const LOOK: Duration = Duration::from_millis(400);

/// The tasks that other nodes send, and this one sends to itself.
#[derive(Clone)]
pub struct Workers {
    own: NodeId,
    engine: Arc<OnceLock<Weak<Engine>>>,
    /// Clones of a worker share its tasks.
    worker: Worker,
}

impl fmt::Debug for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workers").finish_non_exhaustive()
    }
}

impl Workers {
    /// Tasks fail until the engine is set.
    pub fn new(own: NodeId, engine: Arc<OnceLock<Weak<Engine>>>, channels: Channels) -> Self {
        let sessions = Sessions { own: own.clone(), engine: Arc::clone(&engine), channels };
        let session = move |context| {
            let sessions = sessions.clone();
            async move { sessions.begin(context).await.map_err(to_text) }.boxed()
        };
        let worker = Worker::from_session_builder(session).with_version(VERSION);
        Self { own, engine, worker }
    }

    /// The worker of datafusion-distributed.
    pub fn worker(&self) -> &Worker {
        &self.worker
    }

    /// Frees tasks that have ended. datafusion-distributed keeps the tasks that it has removed from its list, with all that their
    /// operators hold, until it reads the list again, which on an idle node is never.
    pub async fn sweep_ended_tasks(&self) {
        loop {
            tokio::time::sleep(LOOK).await;
            let Some(engine) = self.engine.get().and_then(Weak::upgrade) else { continue };
            if engine.has_fragments() {
                self.sweep().await;
            }
        }
    }

    /// Makes datafusion-distributed read its list, with a request for a task that names no statement and is refused.
    async fn sweep(&self) {
        let Ok(nowhere) = url_of(&NodeId::default(), "nowhere") else { return };
        let request = SetPlanRequest {
            task_key: TaskKey { query_id: Uuid::nil(), stage_id: 0, task_number: 0 },
            task_count: 1,
            plan: MaybeEncoded::Decoded(Arc::new(EmptyExec::new(Arc::new(Schema::empty())))),
            work_unit_feed_declarations: Vec::new(),
            target_worker_url: nowhere,
            query_start_time_ns: 0,
        };
        let refused =
            self.worker.coordinator_channel(HeaderMap::new(), request, stream::empty().boxed()).await;
        debug_assert!(refused.is_err(), "it names no statement");
        nyala_runtime::drop_removed();
    }

    /// The service that other nodes send tasks to.
    pub fn service(&self) -> OnThreads<impl PartService> {
        OnThreads::new(self.own.clone(), self.worker.clone().into_worker_server(), Arc::clone(&self.engine))
    }
}

/// Makes the sessions of tasks.
#[derive(Clone)]
struct Sessions {
    own: NodeId,
    engine: Arc<OnceLock<Weak<Engine>>>,
    channels: Channels,
}

impl Sessions {
    /// The session of a task: the session of its statement, with what datafusion-distributed adds.
    async fn begin(&self, context: WorkerQueryContext) -> Result<SessionState> {
        let WorkerQueryContext { mut builder, headers } = context;
        let fragment = self.fragment(&headers).await?;
        let own = fragment.state()?;
        let mut config = with_settings(builder.config().take().unwrap_or_default(), own.config_options())?;
        config.set_extension(Arc::clone(&fragment));
        config.set_distributed_user_codec(Codec);
        config.set_distributed_channel_resolver(self.channels.clone());
        config.set_distributed_passthrough_headers(headers::sent_on(&headers))?;
        config.set_distributed_worker_plan_rewrite_handler(begin);
        let runtime = Arc::clone(fragment.runtime());
        Ok(SessionStateBuilder::new_from_existing(own).with_config(config).with_runtime_env(runtime).build())
    }
}

/// The configuration that datafusion-distributed has begun, with the settings of a statement: it begins with defaults, and with these
/// functions would compute otherwise than on the coordinator.
fn with_settings(mut config: SessionConfig, statement: &ConfigOptions) -> Result<SessionConfig> {
    let distributed = DistributedConfig::from_session_config(&config)?.clone();
    *config.options_mut() = statement.clone();
    config.set_distributed_option_extension(distributed);
    // A task reads the files of its own partitions only.
    config.options_mut().execution.enable_file_stream_work_stealing = false;
    Ok(config)
}

impl Sessions {
    /// This node's part of the statement that a request is for.
    async fn fragment(&self, headers: &HeaderMap) -> Result<Arc<Fragment>, QueryError> {
        let stopping = || not_ready(&self.own);
        let engine = self.engine.get().and_then(Weak::upgrade).ok_or_else(stopping)?;
        let begun = engine.fragment(headers::read(headers)?).await;
        begun.map_err(|error| if error.kind == ErrorKind::ShuttingDown { stopping() } else { error })
    }
}

/// The operators of a task, ready to run in the scope of their statement.
fn begin(event: WorkerPlanRewriteEvent<'_>) -> Result<WorkerPlanRewriteEventResponse> {
    let fragment: Arc<Fragment> = event
        .session_config
        .get_extension()
        .ok_or_else(|| DataFusionError::Internal("a task has no statement".to_owned()))?;
    let plan = insert_yields(without_marks(event.plan)?, &|_| false)?;
    Ok(WorkerPlanRewriteEventResponse::new(in_scope(plan, &fragment)?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_task_has_the_settings_of_its_statement_and_reads_its_own_files_only() {
        let mut distributed = DistributedConfig::default();
        distributed.shuffle_batch_size = 77;
        let mut begun = SessionConfig::new();
        begun.set_distributed_option_extension(distributed);
        let mut statement = ConfigOptions::default();
        statement.execution.time_zone = Some("Asia/Tokyo".to_owned());
        statement.execution.enable_file_stream_work_stealing = true;
        let config = with_settings(begun, &statement).unwrap();
        let execution = &config.options().execution;
        assert_eq!(execution.time_zone.as_deref(), Some("Asia/Tokyo"));
        // With work stealing, a task would read files that another task reads, too.
        assert!(!execution.enable_file_stream_work_stealing);
        assert_eq!(DistributedConfig::from_session_config(&config).unwrap().shuffle_batch_size, 77);
    }
}
