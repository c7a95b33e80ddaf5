//! The conformance tests of every backend, run on PostgreSQL, and tests of what a shared catalog promises in addition.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use nyala_model::access::RoleEntry;
use nyala_model::{
    CatalogSnapshot, ChangeId, NodeEntry, NodeId, QueryHistoryEntry, QueryShape, SegmentDamage, SegmentRange,
    SnapshotVersion,
};
use nyala_testing::PostgresServer;
use sqlx::Row;
use sqlx::postgres::PgPool;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, UnixStream};
use tokio::sync::watch;

use super::apply::was_made;
use crate::conformance::conformance_tests;
use crate::conformance::fixtures::*;
use crate::lease::HOLD;
use crate::{Catalog, CatalogError, CatalogStore, Change, Fence, PostgresStore, ProbedDatabase, SqliteStore};

/// An empty database.
struct Database(String);

impl Database {
    fn new() -> Self {
        Self(PostgresServer::shared().create_database())
    }

    fn name(&self) -> &str {
        self.0
            .rsplit('/')
            .find(|part| part.contains("?host="))
            .and_then(|part| part.split('?').next())
            .unwrap()
    }

    async fn connect(&self) -> PostgresStore {
        PostgresStore::open(&self.0).await.unwrap()
    }

    fn run(&self, sql: &str) {
        assert!(PostgresServer::shared().query(self.name(), sql), "{sql}");
    }
}

#[async_trait]
impl Backend for Database {
    async fn open(&self) -> Arc<dyn CatalogStore> {
        Arc::new(self.connect().await)
    }
}

conformance_tests!(Database::new());

/// A catalog with every kind of entry.
async fn full(subject: &Subject) -> CatalogSnapshot {
    subject.make(create_schema("mart")).await;
    subject.make(create_table("sales")).await;
    subject.make(create_table("mart.stock")).await;
    let role = RoleEntry {
        name: "ann".to_owned(),
        login: true,
        superuser: false,
        password: None,
        member_of: BTreeSet::new(),
        grants: BTreeSet::new(),
    };
    subject.make(Change::CreateRole { role, if_not_exists: false }).await;
    subject.make(create_store("main")).await;
    subject.make(create_live_table("events", "main")).await;
    subject.make(create_cube("revenue", &["sales"])).await;
    let segment = subject.begin("revenue").await;
    for bits in [1, 0] {
        subject.make(Change::AddCuboid { segment, cuboid: cuboid(bits, 10) }).await;
    }
    subject.make(publish(segment)).await;
    let damage = SegmentDamage { file: "a".to_owned(), reason: "b\0c".to_owned() };
    subject.make(Change::MarkDamaged { segment, damage }).await;
    subject.begin_range("revenue", SegmentRange::Nulls).await;
    subject.catalog.snapshot().as_ref().clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_behind_makes_the_same_changes() {
    let database = Database::new();
    let (subject, behind) = (Subject::open(&database).await, Subject::open(&database).await);
    let all = full(&subject).await;
    assert_eq!(*behind.catalog.refresh().await.unwrap(), all);
    subject.make(drop_cube("revenue")).await;
    subject.make(drop_schema("mart", true)).await;
    // Without the changes in between, the node must read everything.
    database.run("DELETE FROM nyala.changes WHERE version < (SELECT version FROM nyala.catalog)");
    assert_eq!(*behind.catalog.refresh().await.unwrap(), *subject.catalog.snapshot());
}

/// A node that knows two changes which its database has lost since, as after a failover to a standby that lacked them.
async fn of_a_lost_history(database: &Database) -> Subject {
    let subject = Subject::open(database).await;
    let kept = subject.make(create_table("kept")).await.snapshot.version;
    subject.make(create_table("lost1")).await;
    subject.make(create_table("lost2")).await;
    database.run(&format!(
        "DELETE FROM nyala.entries WHERE body LIKE '%lost%'; DELETE FROM nyala.changes WHERE version > {kept}; \
         UPDATE nyala.catalog SET version = {kept}"
    ));
    subject
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_changes_and_those_made_instead_are_never_mixed() {
    // The database's version is then lower than the one that the node knows, equal to it, or higher.
    for made in 0..4 {
        let database = Database::new();
        let (reader, writer) = (of_a_lost_history(&database).await, Subject::open(&database).await);
        for n in 0..made {
            writer.make(create_table(&format!("new{n}"))).await;
        }
        let mut versions = reader.catalog.watch();
        versions.mark_unchanged();
        let found = reader.catalog.refresh().await.unwrap();
        assert_eq!(*found, *writer.catalog.snapshot());
        assert!(versions.has_changed().unwrap());
        reader.make(create_table("after")).await;

        let database = Database::new();
        let (late, other) = (of_a_lost_history(&database).await, Subject::open(&database).await);
        for n in 0..made {
            other.make(create_table(&format!("new{n}"))).await;
        }
        // The node learns of the lost changes by the answer to its own change.
        let committed = late.catalog.commit(create_table("after")).await.unwrap();
        assert_eq!(*committed.snapshot, *late.catalog.snapshot());
        assert_eq!(*other.catalog.refresh().await.unwrap(), *committed.snapshot);
        let lost = |table: &String| table.contains("lost");
        assert!(!table_names(&committed.snapshot).iter().any(lost), "{made}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_may_raise_the_version() {
    let database = Database::new();
    let (subject, other) = (Subject::open(&database).await, Subject::open(&database).await);
    let before = subject.make(create_table("before")).await.snapshot.version.0;
    database.run("UPDATE nyala.catalog SET version = version + 1048576");
    assert_eq!(other.catalog.refresh().await.unwrap().version.0, before + 1_048_576);
    assert_eq!(*subject.catalog.refresh().await.unwrap(), *other.catalog.snapshot());
    subject.make(create_table("after")).await;
    assert_eq!(*other.catalog.refresh().await.unwrap(), *subject.catalog.snapshot());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_is_announced() {
    let database = Database::new();
    let (subject, other) = (Subject::open(&database).await, Subject::open(&database).await);
    let heard = tokio::spawn(async move {
        loop {
            other.catalog.changed().await;
            let snapshot = other.catalog.refresh().await.unwrap();
            if table_names(&snapshot) == ["public.last"] {
                return;
            }
        }
    });
    // The first changes may be made before the other node listens.
    for n in 0.. {
        let last = if n % 2 == 0 { create_table("last") } else { drop_table("last") };
        subject.make(last).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
        if heard.is_finished() {
            break;
        }
        assert!(n < 2000, "no announcement was heard");
    }
    heard.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_catalog_moves_to_postgresql_and_back() {
    let folder = tempfile::tempdir().unwrap();
    let store: Arc<dyn CatalogStore> =
        Arc::new(SqliteStore::open(&folder.path().join("catalog.sqlite")).await.unwrap());
    let subject = Subject { catalog: Catalog::open(Arc::clone(&store)).await.unwrap(), store };
    let all = full(&subject).await;
    let postgres = Database::new().connect().await;
    postgres.import(&all).await.unwrap();
    let moved = postgres.load().await.unwrap();
    // A snapshot from a SQLite file has no id of its last change: the file has one history.
    assert_ne!(moved.change, ChangeId::default());
    assert_eq!(CatalogSnapshot { change: ChangeId::default(), ..moved }, all);
    assert!(matches!(postgres.import(&all).await, Err(CatalogError::NotEmpty)));
    let copy = folder.path().join("copy.sqlite");
    assert_eq!(postgres.copy_to(&copy).await.unwrap(), all);
    let copied =
        crate::restore(&folder.path().join("new.sqlite"), &copy, folder.path(), &Default::default()).await;
    let copied = copied.unwrap().snapshot;
    assert_eq!(CatalogSnapshot { version: all.version, ..copied }, all);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_without_an_answer_is_judged_once_its_transaction_has_ended() {
    for end in ["COMMIT", "ROLLBACK"] {
        let database = Database::new();
        drop(database.connect().await);
        let pool = PgPool::connect(&database.0).await.unwrap();
        let (version, change) = (SnapshotVersion(2), ChangeId("a".into()));
        let made = CatalogSnapshot { version, change, ..CatalogSnapshot::default() };
        // The backend process of a broken connection, with its transaction still open.
        let mut broken = pool.acquire().await.unwrap();
        let begun = "BEGIN; SELECT 1 FROM nyala.catalog FOR UPDATE; \
                     INSERT INTO nyala.changes (version, attempt, edits) VALUES (2, 'a', '[]'); \
                     UPDATE nyala.catalog SET version = 2";
        sqlx::raw_sql(begun).execute(&mut *broken).await.unwrap();
        let other = pool.clone();
        let judged = tokio::spawn(async move { was_made(&other, &made).await });
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert!(!judged.is_finished(), "{end}");
        sqlx::raw_sql(end).execute(&mut *broken).await.unwrap();
        assert_eq!(judged.await.unwrap(), Some(end == "COMMIT"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_is_held_against_other_nodes() {
    let database = Database::new();
    let (here, there) = (database.connect().await, database.connect().await);
    let other = NodeId("there".to_owned());
    let token = here.take_lease("cube 1", &node(), HOLD).await.unwrap().unwrap();
    assert!(there.take_lease("cube 1", &other, HOLD).await.unwrap().is_none());
    // Many nodes ask for the lease at once: one gets it.
    here.release_lease("cube 1", token).await.unwrap();
    let there = Arc::new(there);
    let take = |n: u32| {
        let store = Arc::clone(&there);
        tokio::spawn(async move { store.take_lease("cube 1", &NodeId(n.to_string()), HOLD).await.unwrap() })
    };
    let takes: Vec<_> = (0..8).map(take).collect();
    let mut taken = 0;
    for one in takes {
        taken += u32::from(one.await.unwrap().is_some());
    }
    assert_eq!(taken, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_the_database_lost_gives_no_rights() {
    let database = Database::new();
    let subject = Subject::open(&database).await;
    let other = NodeId("there".to_owned());
    let first = subject.store.take_lease("cube 1", &node(), HOLD).await.unwrap().unwrap();
    // As after a failover to a standby that lacks the lease.
    database.run("DELETE FROM nyala.leases");
    let second = subject.store.take_lease("cube 1", &other, HOLD).await.unwrap().unwrap();
    assert!(second > first);
    assert!(!subject.store.renew_lease("cube 1", first, HOLD).await.unwrap());
    let fence = Fence { lease: "cube 1".to_owned(), token: first };
    let refused = subject.catalog.commit_under(&[fence], create_table("a")).await.unwrap_err();
    assert!(matches!(refused, CatalogError::LeaseLost { .. }), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_begun_in_a_lost_history_does_not_go_on() {
    // The loss is found by the job's own change, by a refresh, or by a change of another job.
    for finds in ["own", "read", "other"] {
        let database = Database::new();
        let subject = of_a_lost_history(&database).await;
        let fence = async || {
            let token = subject.store.take_lease("cube 1", &node(), HOLD).await.unwrap().unwrap();
            Fence { lease: "cube 1".to_owned(), token }
        };
        let before = fence().await;
        match finds {
            "read" => drop(subject.catalog.refresh().await.unwrap()),
            "other" => drop(subject.catalog.commit(create_table("other")).await.unwrap()),
            _ => {}
        }
        for _ in 0..2 {
            let change = create_table("begun");
            let refused =
                subject.catalog.commit_under(std::slice::from_ref(&before), change).await.unwrap_err();
            assert!(matches!(refused, CatalogError::LeaseLost { .. }), "{finds}: {refused}");
            subject.catalog.refresh().await.unwrap();
        }
        let after = fence().await;
        subject.catalog.commit_under(&[after], create_table("begun")).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_see_each_other_until_they_leave() {
    let database = Database::new();
    let (here, there) = (database.connect().await, database.connect().await);
    let entry = |id: &str| NodeEntry { id: NodeId(id.to_owned()), ..NodeEntry::default() };
    let forget = Duration::from_secs(60);
    let seen = |nodes: Vec<NodeEntry>| nodes.into_iter().map(|node| node.id.0).collect::<BTreeSet<_>>();
    let both = BTreeSet::from(["a".to_owned(), "b".to_owned()]);
    here.beat(&entry("a"), forget).await.unwrap();
    assert_eq!(seen(there.beat(&entry("b"), forget).await.unwrap()), both);
    assert_eq!(seen(here.beat(&entry("a"), forget).await.unwrap()), both);
    there.leave(&NodeId("b".to_owned()), 0).await.unwrap();
    assert_eq!(seen(here.beat(&entry("a"), forget).await.unwrap()), BTreeSet::from(["a".to_owned()]));
    database.run("UPDATE nyala.nodes SET beat_at = beat_at - interval '61 s'");
    assert_eq!(seen(there.beat(&entry("b"), forget).await.unwrap()), BTreeSet::from(["b".to_owned()]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_processes_that_run_as_one_node_the_later_one_does() {
    let database = Database::new();
    let (store, forget) = (database.connect().await, Duration::from_secs(60));
    let started = |started_at_ms: u64| {
        let (id, address) = (node(), format!("host{started_at_ms}:7433"));
        NodeEntry { id, address, started_at_ms, ..NodeEntry::default() }
    };
    store.beat(&started(1), forget).await.unwrap();
    // The node was started again: the record of its earlier process does not keep it out.
    store.beat(&started(2), forget).await.unwrap();
    store.beat(&started(2), forget).await.unwrap();
    let error = store.beat(&started(1), forget).await.unwrap_err();
    assert!(matches!(error, CatalogError::NodeTaken { .. }), "{error}");
    assert!(error.to_string().contains("at `host2:7433`"), "{error}");
    // The earlier process does not remove the record of the later one when it stops.
    store.leave(&node(), 1).await.unwrap();
    assert!(store.beat(&started(1), forget).await.is_err());
    // The record of a process that has ended keeps no other out, even if it started later: clocks may go back.
    database.run("UPDATE nyala.nodes SET beat_at = beat_at - interval '11 s'");
    store.beat(&started(1), forget).await.unwrap();
    store.leave(&node(), 1).await.unwrap();
    let nodes = store.beat(&NodeEntry { id: NodeId("b".to_owned()), ..started(3) }, forget).await.unwrap();
    assert_eq!(nodes.len(), 1, "{nodes:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_counts_its_own_queries_and_leaves_those_of_others_alone() {
    let database = Database::new();
    let (here, there) = (database.connect().await, database.connect().await);
    let other = NodeId("there".to_owned());
    let asked = |id: &str, asked| QueryHistoryEntry {
        id: id.to_owned(),
        shape: QueryShape::default(),
        asked,
        total_us: 1500,
        max_us: 1500,
        rows: 1,
        misses: 0,
        missed_us: 1500,
        miss_reason: None,
        last_miss_ms: 0,
        answers: Vec::new(),
        last_asked_ms: asked,
    };
    // Both nodes run the same query, and each counts it for itself.
    here.record_queries(&node(), &[asked("q", 3)], 10).await.unwrap();
    there.record_queries(&other, &[asked("q", 5)], 10).await.unwrap();
    here.record_queries(&node(), &[asked("q", 4)], 10).await.unwrap();
    assert_eq!(there.query_history(&node()).await.unwrap(), [asked("q", 4)]);
    assert_eq!(there.query_history(&other).await.unwrap(), [asked("q", 5)]);
    assert_eq!(here.history_of_others(&node()).await.unwrap(), [asked("q", 5)]);
    // A query that one node forgets stays in the history of the other.
    here.record_queries(&node(), &[asked("r", 6)], 1).await.unwrap();
    assert_eq!(here.query_history(&node()).await.unwrap(), [asked("r", 6)]);
    assert_eq!(here.history_of_others(&node()).await.unwrap(), [asked("q", 5)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_of_the_database_is_survived() {
    let server = PostgresServer::start();
    let url = server.create_database();
    let database = Database(url.clone());
    let subject = Subject::open(&database).await;
    subject.make(create_table("before")).await;
    server.stop();
    let error = subject.catalog.commit(create_table("during")).await.unwrap_err();
    assert!(matches!(error, CatalogError::Unreachable { .. }), "{error}");
    assert!(!error.to_string().contains("nyala@"), "{error}");
    // The snapshot in memory is still there.
    assert_eq!(table_names(&subject.catalog.snapshot()), ["public.before"]);
    server.run();
    subject.make(create_table("after")).await;
    assert_eq!(table_names(&subject.catalog.snapshot()), ["public.after", "public.before"]);
}

/// A TCP port that forwards connections to the Unix socket of a server. After a value is sent on the channel,
/// the open connections stay open and fall silent for ever; new ones are still forwarded.
async fn line_to(socket: PathBuf) -> (u16, watch::Sender<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (cut, cuts) = watch::channel(());
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let (socket, mut cuts) = (socket.clone(), cuts.clone());
            tokio::spawn(async move {
                cuts.mark_unchanged();
                let mut server = UnixStream::connect(socket).await.unwrap();
                tokio::select! {
                    _ = copy_bidirectional(&mut client, &mut server) => {}
                    _ = cuts.changed() => std::future::pending().await,
                }
            });
        }
    });
    (port, cut)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_a_database_took_along_are_replaced() {
    let database = Database::new();
    let host = PathBuf::from(database.0.split_once("?host=").unwrap().1);
    let (port, cut) = line_to(host.join(".s.PGSQL.5432")).await;
    let url = format!("postgres://nyala@127.0.0.1:{port}/{}?sslmode=disable", database.name());
    let store = Arc::new(PostgresStore::open(&url).await.unwrap());

    // All connections of the node's pool wait for an answer.
    let pool = PgPool::connect(&database.0).await.unwrap();
    let mut other = pool.acquire().await.unwrap();
    sqlx::raw_sql("BEGIN; LOCK TABLE nyala.leases").execute(&mut *other).await.unwrap();
    let waiting: Vec<_> = (0..6)
        .map(|_| {
            let store = Arc::clone(&store);
            tokio::spawn(async move { store.leases().await })
        })
        .collect();
    let count = "SELECT count(*) FROM pg_stat_activity \
                 WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let begun = Instant::now();
    while sqlx::query(count).fetch_one(&pool).await.unwrap().get::<i64, _>(0) < 6 {
        assert!(begun.elapsed() < Duration::from_secs(60), "not all statements wait");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // The machine vanishes without closing its connections, and another one has its address. The statements are given up.
    cut.send(()).unwrap();
    waiting.iter().for_each(tokio::task::JoinHandle::abort);
    sqlx::raw_sql("ROLLBACK").execute(&mut *other).await.unwrap();
    assert!(store.leases().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_wrong_url_is_refused_without_its_password() {
    for url in ["mysql://u:secret@h/d", "nothing", "postgres://u:secret@h:port/d"] {
        let error = PostgresStore::open(url).await.unwrap_err().to_string();
        assert!(error.contains("catalog.url") && !error.contains("secret"), "{error}");
    }
}

#[tokio::test]
async fn a_catalog_of_a_newer_version_is_refused() {
    let database = Database::new();
    drop(database.connect().await);
    database.run("UPDATE nyala.catalog SET format = 99");
    for refused in [PostgresStore::open(&database.0).await.map(drop), probe(&database).await.map(drop)] {
        let error = refused.unwrap_err();
        assert!(matches!(error, CatalogError::Newer { found: 99, .. }), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_became_older_than_its_catalog_changes_nothing() {
    let database = Database::new();
    let subject = Subject::open(&database).await;
    subject.make(create_table("before")).await;
    let before = subject.catalog.snapshot();
    // A node of a newer version has migrated the catalog, and changed it in a way that this one cannot read.
    database.run(
        "UPDATE nyala.catalog SET format = 99, version = version + 1; \
         INSERT INTO nyala.changes (version, attempt, edits) SELECT version, 'a', '[\"New\"]' FROM nyala.catalog",
    );
    let refused = [
        subject.catalog.commit(create_table("after")).await.map(drop),
        subject.catalog.refresh().await.map(drop),
        subject.store.load().await.map(drop),
    ];
    for refused in refused {
        let error = refused.unwrap_err();
        assert!(matches!(error, CatalogError::Newer { found: 99, .. }), "{error}");
        assert!(error.to_string().contains("upgrade"), "{error}");
    }
    assert_eq!(*subject.catalog.snapshot(), *before);
}

async fn probe(database: &Database) -> Result<ProbedDatabase, CatalogError> {
    PostgresStore::probe(&database.0).await
}

#[tokio::test]
async fn a_probe_makes_nothing() {
    let database = Database::new();
    let empty = probe(&database).await.unwrap();
    assert!(!empty.has_catalog && empty.may_write && empty.server_version >= 130_000, "{empty:?}");
    assert_eq!(probe(&database).await.unwrap().cluster, None, "the first probe made none");
    let cluster = database.connect().await.cluster().await.unwrap();
    let full = probe(&database).await.unwrap();
    assert!(full.has_catalog && full.may_write, "{full:?}");
    assert_eq!(full.cluster, cluster);
}

#[tokio::test]
async fn a_probe_tells_what_the_user_may_do() {
    let database = Database::new();
    let guest = format!("guest_{}", database.name());
    database.run(&format!("CREATE ROLE {guest} LOGIN"));
    let as_guest = Database(database.0.replace("nyala@", &format!("{guest}@")));
    let check = async |may_write: bool| {
        let found = probe(&as_guest).await.unwrap();
        assert_eq!(found.may_write, may_write, "{found:?}");
    };
    check(false).await;
    database.run(&format!("CREATE SCHEMA nyala; GRANT ALL ON SCHEMA nyala TO {guest}"));
    check(true).await;
    drop(database.connect().await);
    check(false).await;
    database.run(&format!("GRANT ALL ON ALL TABLES IN SCHEMA nyala TO {guest}"));
    check(true).await;
}

#[tokio::test]
async fn a_damaged_entry_is_told_from_a_database_that_is_away() {
    let database = Database::new();
    let store = database.connect().await;
    database.run("INSERT INTO nyala.entries (kind, key, body) VALUES ('table', '7', '{}')");
    assert!(matches!(store.load().await.unwrap_err(), CatalogError::Corrupt { .. }));
}
