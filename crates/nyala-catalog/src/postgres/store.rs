//! The connections to the database, with a deadline for each request.

use std::io;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use async_trait::async_trait;
use nyala_model::{
    CatalogSnapshot, ChangeId, JobEntry, JobId, JobKind, JobState, LeaseEntry, NodeEntry, NodeId,
    QualifiedName, QueryHistoryEntry,
};
use sqlx::postgres::{PgConnectOptions, PgConnection, PgListener, PgPool, PgPoolOptions};
use sqlx::{Connection, Row};
use tokio::sync::Mutex;

use super::probe::{self, ProbedDatabase};
use super::{apply, history, jobs, leases, load, nodes, schema};
use crate::change::Change;
use crate::error::CatalogError;
use crate::lease::{Fence, LeaseToken};
use crate::sqlite::SqliteStore;
use crate::store::{Applied, CatalogStore};

/// The `NOTIFY` channel on which changes are announced.
pub const CHANNEL: &str = "nyala_catalog";

const SCHEMES: [&str; 2] = ["postgres://", "postgresql://"];

/// The deadline of a request, the time for a connection included. A server that is cut off does not answer at all.
pub const DEADLINE: Duration = Duration::from_secs(15);
/// How long a request waits for a connection, within [`DEADLINE`].
const CONNECT: Duration = Duration::from_secs(8);
/// How long a connection may take until it is ready again, after its statement has ended or was given up.
const READY: Duration = Duration::from_secs(3);
/// Time limits of the database, in milliseconds: it must not keep locks for a node that is gone.
const LIMITS: [(&str, &str); 3] = [
    ("statement_timeout", "14000"),
    ("lock_timeout", "12000"),
    ("idle_in_transaction_session_timeout", "14000"),
];
/// Most connections of a node, which it uses for changes, jobs, history, heartbeats and renewals of leases.
const CONNECTIONS: u32 = 6;
/// Pause before listening again after announcements could not be received.
const DEAF: Duration = Duration::from_secs(5);

/// The catalog in a PostgreSQL database.
#[derive(Debug)]
pub struct PostgresStore {
    pool: PgPool,
    /// Host, port and database, for errors.
    place: String,
    listener: Mutex<Option<PgListener>>,
}

impl PostgresStore {
    /// Connects to the database of a URL such as `postgres://user@host:5432/database`, and makes the catalog's tables if
    /// there are none. What the URL leaves out comes from the variables `PGPASSWORD`, `PGSSLMODE` and so on, and from
    /// `.pgpass`.
    ///
    /// # Errors
    /// The URL is wrong, the database cannot be reached, or its catalog is of a newer version.
    pub async fn open(url: &str) -> Result<Self, CatalogError> {
        let store = Self::of_url(url)?;
        store.within(schema::migrate(&store.pool)).await?;
        Ok(store)
    }

    /// Looks at the database of a URL as [`open`](Self::open) would use it, and makes nothing there.
    ///
    /// # Errors
    /// The URL is wrong, the database cannot be reached, or its catalog is of a newer version.
    pub async fn probe(url: &str) -> Result<ProbedDatabase, CatalogError> {
        let store = Self::of_url(url)?;
        let probed = store.within(probe::read(&store.pool, &store.place)).await;
        store.pool.close().await;
        probed
    }

    /// The database of a URL, not connected yet.
    fn of_url(url: &str) -> Result<Self, CatalogError> {
        if !SCHEMES.iter().any(|scheme| url.starts_with(scheme)) {
            return Err(CatalogError::Url);
        }
        // The error of the library may show the URL with its password.
        let options = PgConnectOptions::from_str(url).map_err(|_| CatalogError::Url)?;
        let options = options.application_name("nyala").options(LIMITS);
        let database = options.get_database().unwrap_or_else(|| options.get_username());
        let place = format!("{}:{}/{database}", options.get_host(), options.get_port());
        let pool = PgPoolOptions::new().max_connections(CONNECTIONS).acquire_timeout(CONNECT);
        let pool = pool.after_release(|connection, _| Box::pin(is_ready(connection)));
        Ok(Self { pool: pool.connect_lazy_with(options), place, listener: Mutex::new(None) })
    }

    /// Writes a whole catalog into this one, which must be empty.
    ///
    /// # Errors
    /// This catalog is not empty, or the database fails.
    pub async fn import(&self, snapshot: &CatalogSnapshot) -> Result<(), CatalogError> {
        self.within(apply::import(&self.pool, snapshot)).await
    }

    /// Does `work` within the deadline; errors name the database.
    async fn within<T>(
        &self,
        work: impl Future<Output = Result<T, CatalogError>> + Send,
    ) -> Result<T, CatalogError> {
        match tokio::time::timeout(DEADLINE, work).await {
            Ok(done) => done.map_err(|error| self.explain(error)),
            Err(_) => Err(self.failed(&format!("no answer within {} seconds", DEADLINE.as_secs()))),
        }
    }

    fn explain(&self, error: CatalogError) -> CatalogError {
        match error {
            CatalogError::Store(sqlx::Error::PoolTimedOut) => {
                self.failed(&format!("no connection within {} seconds", CONNECT.as_secs()))
            }
            CatalogError::Store(error) if is_damage(&error) => {
                let place = &self.place;
                let what = format!(
                    "the catalog in PostgreSQL at `{place}` is damaged: {error}; restore its database from a backup"
                );
                CatalogError::Corrupt { what }
            }
            CatalogError::Store(error) => self.failed(&error.to_string()),
            error => error,
        }
    }

    fn failed(&self, reason: &str) -> CatalogError {
        CatalogError::Unreachable { place: self.place.clone(), reason: reason.to_owned() }
    }

    async fn listen(&self) -> Result<(), sqlx::Error> {
        let mut listener = self.listener.lock().await;
        let listening = match listener.as_mut() {
            Some(listening) => listening,
            None => {
                let mut made = PgListener::connect_with(&self.pool).await?;
                made.listen(CHANNEL).await?;
                listener.insert(made)
            }
        };
        // `None` tells that the connection broke: a change may have been announced meanwhile.
        let heard = listening.try_recv().await.map(|_| ());
        if heard.is_err() {
            *listener = None;
        }
        heard
    }
}

/// Whether a connection that is given back to the pool still answers; an error if it does not. The pool
/// itself waits for the answer without a limit, and counts the connection as one of its own meanwhile: after
/// a database was cut off and came back on another machine, no connection would be free.
async fn is_ready(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    match tokio::time::timeout(READY, connection.ping()).await {
        Ok(answered) => answered.map(|()| true),
        Err(_) => Err(sqlx::Error::Io(io::ErrorKind::TimedOut.into())),
    }
}

/// Whether the database holds something that this crate never stores.
fn is_damage(error: &sqlx::Error) -> bool {
    matches!(
        error,
        sqlx::Error::Decode(_)
            | sqlx::Error::ColumnDecode { .. }
            | sqlx::Error::ColumnNotFound(_)
            | sqlx::Error::RowNotFound
    )
}

#[async_trait]
impl CatalogStore for PostgresStore {
    async fn load(&self) -> Result<CatalogSnapshot, CatalogError> {
        self.within(load::load(&self.pool, None)).await
    }

    async fn is_newest(&self, known: &CatalogSnapshot) -> Result<bool, CatalogError> {
        let newest = async { load::newest(&mut *self.pool.acquire().await?).await };
        Ok(self.within(newest).await?.is_of(known))
    }

    async fn load_after(&self, known: &CatalogSnapshot) -> Result<CatalogSnapshot, CatalogError> {
        self.within(load::load(&self.pool, Some(known))).await
    }

    async fn changed(&self) {
        if let Err(error) = self.listen().await {
            tracing::debug!(%error, "changes of the catalog are not announced for the moment");
            tokio::time::sleep(DEAF).await;
        }
    }

    fn is_shared(&self) -> bool {
        true
    }

    async fn cluster(&self) -> Result<Option<NodeId>, CatalogError> {
        let cluster = async {
            let row = sqlx::query("SELECT cluster FROM nyala.catalog").fetch_one(&self.pool).await?;
            Ok(Some(NodeId(row.try_get(0)?)))
        };
        self.within(cluster).await
    }

    async fn agree_on_place(&self, place: &str) -> Result<String, CatalogError> {
        let agree = async {
            let update = "UPDATE nyala.catalog SET cuboids = coalesce(cuboids, $1) RETURNING cuboids";
            Ok(sqlx::query(update).bind(place).fetch_one(&self.pool).await?.try_get(0)?)
        };
        self.within(agree).await
    }

    async fn apply(
        &self,
        base: &CatalogSnapshot,
        change: &Change,
        fences: &[Fence],
    ) -> Result<Applied, CatalogError> {
        let applying = apply::apply(&self.pool, base, change, fences);
        match tokio::time::timeout(DEADLINE, applying).await {
            Ok(applied) => applied.map_err(|error| self.explain(error)),
            // The commit may have been sent before the deadline.
            Err(_) => Err(CatalogError::UnknownOutcome),
        }
    }

    async fn create_job(
        &self,
        kind: JobKind,
        cube: &QualifiedName,
        cuboids_total: u32,
        node: &NodeId,
        now_ms: u64,
    ) -> Result<JobId, CatalogError> {
        let job = JobEntry {
            id: JobId(0),
            kind,
            cube: cube.clone(),
            state: JobState::Running,
            rows_read: 0,
            rows_total: 0,
            cuboids_done: 0,
            cuboids_total,
            bytes_written: 0,
            started_at_ms: now_ms,
            ended_at_ms: None,
            retries: 0,
            error: None,
            node: node.clone(),
        };
        self.within(jobs::create(&self.pool, &job)).await
    }

    async fn update_job(&self, job: &JobEntry) -> Result<(), CatalogError> {
        self.within(jobs::update(&self.pool, job)).await
    }

    async fn forget_jobs(&self, keep: u32) -> Result<(), CatalogError> {
        self.within(jobs::forget(&self.pool, keep)).await
    }

    async fn jobs(&self) -> Result<Vec<JobEntry>, CatalogError> {
        self.within(jobs::list(&self.pool)).await
    }

    async fn record_queries(
        &self,
        node: &NodeId,
        entries: &[QueryHistoryEntry],
        keep: u32,
    ) -> Result<(), CatalogError> {
        self.within(history::record(&self.pool, node, entries, keep)).await
    }

    async fn query_history(&self, node: &NodeId) -> Result<Vec<QueryHistoryEntry>, CatalogError> {
        self.within(history::of(&self.pool, node)).await
    }

    async fn history_of_others(&self, node: &NodeId) -> Result<Vec<QueryHistoryEntry>, CatalogError> {
        self.within(history::of_others(&self.pool, node)).await
    }

    async fn take_lease(
        &self,
        name: &str,
        owner: &NodeId,
        hold: Duration,
    ) -> Result<Option<LeaseToken>, CatalogError> {
        self.within(leases::take(&self.pool, name, owner, hold)).await
    }

    async fn renew_lease(&self, name: &str, token: LeaseToken, hold: Duration) -> Result<bool, CatalogError> {
        self.within(leases::renew(&self.pool, name, token, hold)).await
    }

    async fn release_lease(&self, name: &str, token: LeaseToken) -> Result<(), CatalogError> {
        self.within(leases::release(&self.pool, name, token)).await
    }

    async fn leases(&self) -> Result<Vec<LeaseEntry>, CatalogError> {
        self.within(leases::list(&self.pool)).await
    }

    async fn beat(&self, node: &NodeEntry, forget: Duration) -> Result<Vec<NodeEntry>, CatalogError> {
        self.within(nodes::beat(&self.pool, node, forget)).await
    }

    async fn leave(&self, node: &NodeId, started_at_ms: u64) -> Result<(), CatalogError> {
        self.within(nodes::leave(&self.pool, node, started_at_ms)).await
    }

    /// The copy is a catalog of one node: a SQLite file.
    async fn copy_to(&self, path: &Path) -> Result<CatalogSnapshot, CatalogError> {
        let snapshot = self.load().await?;
        SqliteStore::create_copy(path, &snapshot).await?;
        Ok(CatalogSnapshot { change: ChangeId::default(), ..snapshot })
    }

    async fn restored(&self) -> Result<bool, CatalogError> {
        Ok(false)
    }

    async fn forget_restored(&self) -> Result<(), CatalogError> {
        Ok(())
    }
}
