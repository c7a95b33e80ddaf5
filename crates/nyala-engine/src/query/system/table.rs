//! The system tables.

use std::sync::{Arc, OnceLock, Weak};

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::datasource::TableType;
use nyala_sql::error::{ErrorKind, QueryError, Result};

use super::{activity, caches, live, nodes, resources};
use crate::query::cubes::{self, jobs, segments};
use crate::query::engine::Engine;
use crate::query::statements::{show_history, show_setting};
use crate::session::{MadeRows, Settings};

/// The tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Table {
    CacheBlocks,
    Caches,
    Cubes,
    Cuboids,
    DiskStores,
    Jobs,
    Leases,
    LiveTables,
    LocalQueries,
    Misses,
    Nodes,
    Queries,
    QueryHistory,
    QueryLog,
    Recovery,
    ResourceGroups,
    Segments,
    Settings,
    Stuck,
    Tasks,
}

impl Table {
    pub const ALL: [Self; 20] = [
        Self::CacheBlocks,
        Self::Caches,
        Self::Cubes,
        Self::Cuboids,
        Self::DiskStores,
        Self::Jobs,
        Self::Leases,
        Self::LiveTables,
        Self::LocalQueries,
        Self::Misses,
        Self::Nodes,
        Self::Queries,
        Self::QueryHistory,
        Self::QueryLog,
        Self::Recovery,
        Self::ResourceGroups,
        Self::Segments,
        Self::Settings,
        Self::Stuck,
        Self::Tasks,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::CacheBlocks => "cache_blocks",
            Self::Caches => "caches",
            Self::Cubes => "cubes",
            Self::Cuboids => "cuboids",
            Self::DiskStores => "disk_stores",
            Self::Jobs => "jobs",
            Self::Leases => "leases",
            Self::LiveTables => "live_tables",
            Self::LocalQueries => "local_queries",
            Self::Misses => "misses",
            Self::Nodes => "nodes",
            Self::Queries => "queries",
            Self::QueryHistory => "query_history",
            Self::QueryLog => "query_log",
            Self::Recovery => "recovery",
            Self::ResourceGroups => "resource_groups",
            Self::Segments => "segments",
            Self::Settings => "settings",
            Self::Stuck => "stuck",
            Self::Tasks => "tasks",
        }
    }

    fn schema(self) -> SchemaRef {
        match self {
            Self::CacheBlocks => caches::blocks_schema(),
            Self::Caches => caches::schema(),
            Self::Cubes => cubes::show::cubes_schema(),
            Self::Cuboids => segments::cuboids_schema(),
            Self::DiskStores => live::disk_stores_schema(),
            Self::Jobs => jobs::jobs_schema(),
            Self::Leases => nodes::leases_schema(),
            Self::LiveTables => live::live_tables_schema(),
            Self::Misses => show_history::misses_schema(),
            Self::Nodes => nodes::nodes_schema(),
            Self::LocalQueries | Self::Queries => activity::queries_schema(),
            Self::QueryHistory => show_history::schema(),
            Self::QueryLog => activity::query_log_schema(),
            Self::Recovery => live::recovery_schema(),
            Self::ResourceGroups => resources::groups_schema(),
            Self::Segments => segments::schema(),
            Self::Settings => show_setting::settings_schema(),
            Self::Stuck => activity::stuck_schema(),
            Self::Tasks => activity::tasks_schema(),
        }
    }

    async fn rows(self, engine: &Engine, session: &dyn Session) -> Result<RecordBatch> {
        match self {
            Self::CacheBlocks => caches::blocks(engine).await,
            Self::Caches => caches::caches(engine),
            Self::Cubes => cubes::show::cubes(engine),
            Self::Cuboids => segments::cuboids(engine, None).await,
            Self::DiskStores => live::disk_stores(engine).await,
            Self::Jobs => jobs::jobs(engine).await,
            Self::Leases => nodes::leases(engine).await,
            Self::LiveTables => live::live_tables(engine),
            Self::LocalQueries => activity::queries_here(engine),
            Self::Misses => show_history::misses(engine).await,
            Self::Nodes => nodes::nodes(engine),
            Self::Queries => activity::queries(engine).await,
            Self::QueryHistory => show_history::show(engine).await,
            Self::QueryLog => activity::query_log(engine),
            Self::Recovery => live::recovery(engine),
            Self::ResourceGroups => resources::groups(engine),
            Self::Segments => segments::segments(engine, None),
            Self::Settings => {
                let settings = session.config().get_extension::<Settings>();
                let settings = settings.ok_or_else(|| QueryError::internal("a statement has no settings"))?;
                show_setting::all_settings(&settings)
            }
            Self::Stuck => activity::stuck(engine),
            Self::Tasks => activity::tasks(engine),
        }
    }
}

/// A table that is made when it is read.
#[derive(Debug)]
pub struct SystemTable {
    table: Table,
    schema: SchemaRef,
    engine: Arc<OnceLock<Weak<Engine>>>,
}

impl SystemTable {
    pub fn new(table: Table, engine: Arc<OnceLock<Weak<Engine>>>) -> Self {
        Self { table, schema: table.schema(), engine }
    }
}

#[async_trait]
impl MadeRows for SystemTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn rows(&self, session: &dyn Session) -> datafusion::error::Result<RecordBatch> {
        let engine = self.engine.get().and_then(Weak::upgrade);
        let engine = engine
            .ok_or_else(|| QueryError::new(ErrorKind::ShuttingDown, "the server is starting or stopping"))?;
        Ok(self.table.rows(&engine, session).await?)
    }
}
