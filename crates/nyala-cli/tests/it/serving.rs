//! Many queries at once: waiting, refusals, their metrics, and that every end of a query frees its resources.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::Int64Array;
use futures::StreamExt;
use nyala_engine::{Answer, ErrorKind, Identity, QueryError, RowStream, Session, SessionOptions};
use nyala_model::config::{Config, GroupConfig};

use crate::batch;
use crate::harness::TestEngine;

/// A query that would take hours; its first rows come at once, and there are more than any test reads.
const ENDLESS: &str = "SELECT a.n + b.n + c.n FROM big a, big b, big c";
/// A query that would take hours and gives its only row at the end.
const HEAVY: &str = "SELECT count(*) FROM big a, big b, big c WHERE a.n + b.n + c.n > 7";

/// Compares more pairs of rows than a short query does, for a moment.
const LARGE: &str = "SELECT sum(a.n + b.n) FROM big a, big b WHERE a.n + b.n = 39998";

async fn engine(change: impl FnOnce(&mut Config)) -> TestEngine {
    let test = TestEngine::with_config(change).await;
    test.table("big", &[batch!("n" => Int64Array::from_iter_values(0..20_000))]).await;
    test
}

fn one_slot(config: &mut Config) {
    let group = GroupConfig { slots: 1, queue_length: 1, queue_timeout_ms: 60_000, ..GroupConfig::default() };
    config.admission.groups.insert("default".to_owned(), group);
}

fn session(test: &TestEngine) -> Arc<Session> {
    test.engine.session(SessionOptions { user: "ann".to_owned(), ..SessionOptions::default() })
}

async fn rows(session: &Session, sql: &str) -> Result<RowStream, QueryError> {
    match session.query(sql).await? {
        Answer::Rows(rows) => Ok(rows),
        Answer::Done(_) => panic!("no rows: {sql}"),
    }
}

async fn value(test: &TestEngine, sql: &str) -> String {
    test.run(sql).await.into_iter().flatten().next().unwrap_or_default()
}

/// Waits until `sql` gives `wanted`.
async fn until(test: &TestEngine, sql: &str, wanted: &str) {
    // Each question of this loop is logged, and the log keeps 2,000 statements.
    for pause in (1..1500).map(|round: u64| round.min(60)) {
        if value(test, sql).await == wanted {
            return;
        }
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }
    panic!("{sql} gives {}, not {wanted}", value(test, sql).await);
}

const QUEUED: &str = "SELECT queued FROM system.resource_groups WHERE resource_group = 'default'";
const RUNNING: &str = "SELECT running FROM system.resource_groups WHERE resource_group = 'default'";

#[tokio::test(flavor = "multi_thread")]
async fn large_queries_wait_in_line_and_small_ones_pass() {
    let test = engine(one_slot).await;
    let (first, second, third) = (session(&test), session(&test), session(&test));
    let holding = rows(&first, HEAVY).await.unwrap();
    until(&test, RUNNING, "1").await;
    let waiting = tokio::spawn(async move { rows(&second, LARGE).await?.collect().await });
    until(&test, QUEUED, "1").await;
    assert_eq!(value(&test, "SELECT count(*) FROM system.queries WHERE state = 'queued'").await, "1");
    let refused = rows(&third, LARGE).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::TooManyQueries, "{refused}");
    assert!(refused.message.contains("resource group `default`"), "{refused}");
    assert_eq!(value(&test, "SELECT 1").await, "1");
    drop(holding);
    let batches = waiting.await.unwrap().unwrap();
    assert_eq!(crate::harness::rows_of(&batches), [["39998"]]);
    until(&test, RUNNING, "0").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_waits_too_long_is_told_so() {
    let test = engine(|config| {
        one_slot(config);
        config.admission.groups.get_mut("default").unwrap().queue_timeout_ms = 50;
    })
    .await;
    let (first, second) = (session(&test), session(&test));
    let _holding = rows(&first, HEAVY).await.unwrap();
    let error = rows(&second, LARGE).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::TooManyQueries);
    // A deadline ends waiting too.
    second.set("statement_timeout", "20").unwrap();
    assert_eq!(rows(&second, LARGE).await.unwrap_err().kind, ErrorKind::Timeout);
    assert_eq!(value(&test, QUEUED).await, "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn short_queries_wait_for_short_ones_only() {
    let test = engine(one_slot).await;
    let (first, second) = (session(&test), session(&test));
    let holding = rows(&first, HEAVY).await.unwrap();
    let waiting = tokio::spawn(async move { rows(&second, LARGE).await?.collect().await });
    until(&test, QUEUED, "1").await;
    assert_eq!(value(&test, "SELECT sum(n) FROM big").await, "199990000");
    assert_eq!(value(&test, QUEUED).await, "1", "the long one waits still");
    drop(holding);
    waiting.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn one_user_cannot_take_all_slots() {
    let test = engine(|config| config.admission.user_slots = 1).await;
    let (first, second) = (session(&test), session(&test));
    let holding = rows(&first, HEAVY).await.unwrap();
    let waiting = tokio::spawn(async move { rows(&second, LARGE).await?.collect().await });
    until(&test, QUEUED, "1").await;
    // This session belongs to another user.
    assert_eq!(value(&test, LARGE).await, "39998");
    assert_eq!(value(&test, QUEUED).await, "1");
    drop(holding);
    waiting.await.unwrap().unwrap();
    let phases = test.engine.phase_times();
    let queued = phases.iter().find(|times| times.phase == "queued").unwrap();
    assert!(queued.count() >= 1 && queued.sum_us > 0, "{phases:?}");
    let preparing = phases.iter().find(|times| times.phase == "preparing").unwrap();
    assert!(preparing.count() >= 3 && preparing.sum_us > 0, "{phases:?}");
    let logged =
        "SELECT count(*) FROM system.query_log WHERE queued_us > 0 AND running_us > 0 AND preparing_us > 0";
    until(&test, logged, "1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_go_by_setting_user_and_schema() {
    let test = engine(|config| {
        one_slot(config);
        let users = vec!["ann".to_owned()];
        let group = GroupConfig { users, ..GroupConfig::default() };
        config.admission.groups.insert("people".to_owned(), group);
        let schemas = vec!["sales".to_owned()];
        let group = GroupConfig { schemas, ..GroupConfig::default() };
        config.admission.groups.insert("archive".to_owned(), group);
    })
    .await;
    test.run("CREATE SCHEMA sales").await;
    let running =
        |group: &str| format!("SELECT running FROM system.resource_groups WHERE resource_group = '{group}'");
    let ann = session(&test);
    // The user takes precedence over the schema.
    ann.set("search_path", "sales").unwrap();
    let held = rows(&ann, &HEAVY.replace("big", "public.big")).await.unwrap();
    until(&test, &running("people"), "1").await;
    ann.set("search_path", "public").unwrap();
    drop(held);
    until(&test, &running("people"), "0").await;
    ann.set("nyala.resource_group", "default").unwrap();
    let held = rows(&ann, HEAVY).await.unwrap();
    until(&test, &running("default"), "1").await;
    drop(held);
    let nobody = test.engine.session(SessionOptions::default());
    nobody.set("search_path", "sales").unwrap();
    let _held = rows(&nobody, &HEAVY.replace("big", "public.big")).await.unwrap();
    until(&test, &running("archive"), "1").await;
    let error = nobody.set("nyala.resource_group", "none").unwrap_err();
    assert!(error.message.contains("`none`"), "{error}");
    assert_eq!(nobody.setting("nyala.resource_group").as_deref(), Some(""), "it stays as it was");
}

/// Without this rule a busy client could take the slots that are reserved for others.
#[tokio::test(flavor = "multi_thread")]
async fn groups_with_roles_are_chosen_by_their_members_only() {
    let test = engine(|config| {
        let group = GroupConfig { roles: vec!["analysts".to_owned()], ..GroupConfig::default() };
        config.admission.groups.insert("reports".to_owned(), group);
    })
    .await;
    test.run("CREATE ROLE analysts").await;
    test.run("CREATE ROLE bob").await;
    let as_bob = || {
        let (user, identity) = ("bob".to_owned(), Identity::Role("bob".to_owned()));
        test.engine.session(SessionOptions { user, identity, ..SessionOptions::default() })
    };
    let refused = as_bob().set("nyala.resource_group", "reports").unwrap_err();
    assert_eq!(refused.kind, ErrorKind::PermissionDenied, "{refused}");
    assert!(refused.message.contains("members of `analysts`"), "{refused}");
    test.run("GRANT analysts TO bob").await;
    let bob = as_bob();
    bob.set("nyala.resource_group", "reports").unwrap();
    assert_eq!(rows(&bob, "SELECT 1").await.unwrap().collect().await.unwrap().len(), 1);
    test.run("REVOKE analysts FROM bob").await;
    let refused = rows(&bob, "SELECT 1 + 1").await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::PermissionDenied, "what is taken is gone at once: {refused}");
    test.session.set("nyala.resource_group", "reports").unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_query_ends_and_is_logged_as_such() {
    let test = engine(one_slot).await;
    let other = session(&test);
    let mut stream = rows(&other, HEAVY).await.unwrap();
    let id = value(&test, "SELECT query_id FROM system.queries WHERE \"user\" = 'ann'").await;
    test.run(&format!("KILL QUERY {id}")).await;
    let error = stream.next().await.unwrap().unwrap_err();
    assert_eq!(error.kind, ErrorKind::Cancelled);
    assert!(stream.next().await.is_none());
    drop(stream);
    let logged = format!("SELECT status FROM system.query_log WHERE query_id = {id}");
    until(&test, &logged, "killed").await;
    until(&test, RUNNING, "0").await;
    test.error(&format!("KILL QUERY {id}"), ErrorKind::UndefinedObject, "no query").await;
    // The session of the killed query goes on.
    assert_eq!(rows(&other, "SELECT 1").await.unwrap().collect().await.unwrap().len(), 1);
}

/// No client polls its rows, so that only the computing thread can notice the kill.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_query_gives_its_slot_back_though_its_client_reads_nothing() {
    let test = engine(one_slot).await;
    let other = session(&test);
    let mut stream = rows(&other, ENDLESS).await.unwrap();
    stream.next().await.unwrap().unwrap();
    let sending = "SELECT query_id FROM system.queries WHERE \"user\" = 'ann' AND state = 'sending'";
    until(&test, &format!("SELECT count(*) FROM ({sending})"), "1").await;
    let id = value(&test, sending).await;
    test.run(&format!("KILL QUERY {id}")).await;
    until(&test, RUNNING, "0").await;
    freed(&test).await;
    let error = stream.next().await.unwrap().unwrap_err();
    assert_eq!(error.kind, ErrorKind::Cancelled, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_tells_how_statements_ended() {
    let test = engine(|_| ()).await;
    test.run("CREATE CUBE c AS SELECT sum(n) FROM big GROUP BY n").await;
    test.run("BUILD CUBE c").await;
    test.run("SELECT sum(n) AS answered FROM big").await;
    assert!(test.try_run("SELECT 1 / (n - n) AS failing FROM big").await.is_err());
    drop(rows(&session(&test), ENDLESS).await.unwrap());
    let ended = |part: &str| {
        format!(
            "SELECT status FROM system.query_log WHERE query LIKE '%{part}%' AND query NOT LIKE '%query_log%'"
        )
    };
    until(&test, &ended("answered"), "finished").await;
    until(&test, &ended("failing"), "failed").await;
    until(&test, &ended("b.n + c.n"), "abandoned").await;
    // Statements without rows end like others.
    test.run("CREATE LIVE TABLE noted (id BIGINT PRIMARY KEY, n BIGINT)").await;
    test.run("INSERT INTO noted VALUES (1, 2)").await;
    assert!(test.try_run("INSERT INTO noted SELECT n, 1 / (n - n) FROM big").await.is_err());
    until(&test, &ended("INSERT INTO noted VALUES"), "finished").await;
    until(&test, &ended("CREATE LIVE TABLE noted"), "finished").await;
    until(&test, &ended("INSERT INTO noted SELECT"), "failed").await;
    // A statement may fail after all rows were read; rows that are read to be written do not count as returned.
    let given = test.engine.stats().rows_returned;
    let returning = "INSERT INTO noted SELECT n, n + 1 FROM big RETURNING 1 / (n - n) AS too_late";
    assert!(test.try_run(returning).await.is_err());
    assert_eq!(test.engine.stats().rows_returned, given);
    until(&test, &ended("too_late"), "failed").await;
    // Statements that cannot be planned or parsed end as failed, too; possible passwords are masked.
    for failing in
        ["SELECT absent FROM noted", "SELEC 7", "CREATE ROLE someone LOGIN PASSWORD 'open sesame' NOW"]
    {
        assert!(test.try_run(failing).await.is_err(), "{failing}");
    }
    until(&test, &ended("SELECT absent"), "failed").await;
    until(&test, &ended("SELEC 7"), "failed").await;
    until(&test, &ended("CREATE ROLE someone LOGIN PASSWORD ********"), "failed").await;
    assert_eq!(
        value(&test, "SELECT count(*) FROM system.query_log WHERE query LIKE '%open ' || 'sesame%'").await,
        "0"
    );
    assert_eq!(
        value(&test, "SELECT answered_from FROM system.query_log WHERE query LIKE '%answered FROM big'")
            .await,
        "public.c"
    );
    let error = "SELECT error FROM system.query_log WHERE status = 'failed' AND query LIKE '%INSERT INTO noted SELECT%' LIMIT 1";
    assert!(value(&test, error).await.contains("zero"), "{}", value(&test, error).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_system_table_can_be_read_and_joined() {
    let test = engine(|_| ()).await;
    let tables = test
        .run("SELECT table_name FROM information_schema.tables WHERE table_schema = 'system' ORDER BY 1")
        .await;
    assert_eq!(tables.len(), 20, "{tables:?}");
    for table in tables.into_iter().flatten() {
        test.run(&format!("SELECT * FROM system.{table}")).await;
        let count =
            value(&test, &format!("SELECT count(*) FROM system.{table} a CROSS JOIN system.caches b")).await;
        assert!(count.parse::<u64>().is_ok(), "{table}: {count}");
    }
    assert_eq!(value(&test, "SELECT value FROM system.settings WHERE name = 'nyala.use_cubes'").await, "on");
    test.error("CREATE SCHEMA system", ErrorKind::InvalidDefinition, "system").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_takes_no_rows_is_named_by_the_watchdog() {
    let test = engine(|config| config.query.stuck_after_ms = 200).await;
    let other = session(&test);
    let mut stream = rows(&other, ENDLESS).await.unwrap();
    stream.next().await.unwrap().unwrap();
    until(&test, "SELECT waits_for FROM system.stuck WHERE what LIKE '%b.n + c.n%'", "the client").await;
    // The session goes on as before.
    for _ in 0..20 {
        stream.next().await.unwrap().unwrap();
    }
    drop(stream);
    until(&test, "SELECT count(*) FROM system.stuck", "0").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_keeps_to_the_memory_of_its_group() {
    let test = engine(|config| {
        let group = GroupConfig { query_memory_bytes: 1 << 20, ..GroupConfig::default() };
        config.admission.groups.insert("default".to_owned(), group);
    })
    .await;
    let sql = "SELECT a.n FROM big a JOIN big b ON a.n = b.n JOIN big c ON b.n + 1 = c.n + 1";
    let error =
        test.try_run(&format!("{sql} JOIN big d ON d.n = c.n JOIN big e ON e.n = d.n")).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::ResourcesExhausted, "{error}");
    assert!(error.message.contains("resource group `default`"), "{error}");
    freed(&test).await;
    assert_eq!(value(&test, "SELECT sum(n) FROM big").await, "199990000");
}

/// `NYALA_CANCELS` says how many queries there are; each is cancelled, killed, dropped or timed out at a random moment.
#[tokio::test(flavor = "multi_thread")]
async fn whatever_ends_a_query_frees_all_it_held() {
    let test = engine(|config| config.query.memory_limit_bytes = 64 << 20).await;
    let cancels = std::env::var("NYALA_CANCELS").ok().and_then(|n| n.parse().ok()).unwrap_or(400_u64);
    let queries = [
        HEAVY,
        ENDLESS,
        "SELECT n % 7, count(*), sum(n) FROM big GROUP BY 1 ORDER BY 2",
        "SELECT a.n, b.n FROM big a JOIN big b ON a.n = b.n ORDER BY a.n * -1, b.n % 17",
        "SELECT count(DISTINCT a.n * 20000 + b.n) FROM big a, big b WHERE a.n < 500",
        "SELECT 1",
    ];
    let run = async |lane: u64| {
        for round in 0..cancels / 8 {
            let dice = (lane * 7919 + round).wrapping_mul(2_654_435_761) >> 7;
            let session = session(&test);
            if dice.is_multiple_of(4) {
                session.set("statement_timeout", &format!("{}", 1 + dice % 13)).unwrap();
            }
            let stopper = Arc::clone(&session);
            let delay = Duration::from_micros((dice >> 3) % 9000);
            let stop = async {
                tokio::time::sleep(delay).await;
                stopper.cancel();
            };
            let sql = queries[usize::try_from(dice >> 5).unwrap() % queries.len()];
            let work = async {
                if let Ok(mut rows) = rows(&session, sql).await {
                    while let Some(Ok(_)) = rows.next().await {}
                }
            };
            match dice % 3 {
                // The client goes away.
                0 => drop(tokio::time::timeout(delay, work).await),
                _ => drop(tokio::join!(work, stop)),
            }
        }
    };
    futures::future::join_all((0..8).map(run)).await;
    until(&test, "SELECT count(*) FROM system.queries", "1").await;
    until(&test, RUNNING, "0").await;
    assert_eq!(value(&test, QUEUED).await, "0");
    freed(&test).await;
    let spilled = walk(&test.path("data").join("tmp"));
    assert!(spilled.is_empty(), "{spilled:?}");
}

/// Operators release memory at their next check, soon after their query has ended.
async fn freed(test: &TestEngine) {
    for _ in 0..3000 {
        if test.engine.stats().memory_reserved_bytes == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{} bytes are held", test.engine.stats().memory_reserved_bytes);
}

fn walk(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() { files.extend(walk(&path)) } else { files.push(path) }
    }
    files
}

/// EXPLAIN ANALYZE runs the query, so it needs the same slot.
#[tokio::test(flavor = "multi_thread")]
async fn explain_analyze_waits_for_a_slot() {
    let test = engine(|config| {
        one_slot(config);
        config.admission.groups.get_mut("default").unwrap().queue_timeout_ms = 50;
    })
    .await;
    let (first, second) = (session(&test), session(&test));
    let holding = rows(&first, HEAVY).await.unwrap();
    let sum = LARGE;
    let refused = rows(&second, &format!("EXPLAIN ANALYZE {sum}")).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::TooManyQueries, "{refused}");
    drop(rows(&second, &format!("EXPLAIN {sum}")).await.unwrap());
    drop(holding);
    until(&test, RUNNING, "0").await;
    drop(rows(&second, &format!("EXPLAIN ANALYZE {sum}")).await.unwrap());
    until(&test, RUNNING, "0").await;
    freed(&test).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_analyze_keeps_to_the_memory_of_its_group() {
    let test = engine(|config| {
        let group = GroupConfig { query_memory_bytes: 1 << 20, ..GroupConfig::default() };
        config.admission.groups.insert("default".to_owned(), group);
    })
    .await;
    let sql = "EXPLAIN ANALYZE SELECT a.n FROM big a JOIN big b ON a.n = b.n JOIN big c ON b.n + 1 = c.n + 1";
    let sql = format!("{sql} JOIN big d ON d.n = c.n JOIN big e ON e.n = d.n");
    test.error(&sql, ErrorKind::ResourcesExhausted, "resource group `default`").await;
    test.error(&sql, ErrorKind::ResourcesExhausted, "raise `query_memory_bytes`").await;
    until(&test, RUNNING, "0").await;
    freed(&test).await;
}

/// Batches on their way from one partition to another are spilled into several files at once.
#[tokio::test(flavor = "multi_thread")]
async fn queries_that_spill_what_is_on_its_way_end() {
    let groups = [2_usize, 8, 24];
    let test = engine(|config| {
        for mib in groups {
            let group = GroupConfig { query_memory_bytes: mib << 20, ..GroupConfig::default() };
            config.admission.groups.insert(format!("g{mib}"), group);
        }
    })
    .await;
    let folder = test.path("texts");
    for file in 0..4 {
        let (from, to) = (file * 100_000, file * 100_000 + 99_999);
        let rows = format!(
            "SELECT n % 20011 AS g, 'a longer text for each of them: ' || (n * 7919 % 400000) AS t FROM generate_series({from}, {to}) AS s(n)"
        );
        test.run(&format!("COPY ({rows}) TO '{}/{file}.parquet'", folder.display())).await;
    }
    test.run(&format!("CREATE EXTERNAL TABLE texts STORED AS PARQUET LOCATION '{}/'", folder.display()))
        .await;
    for mib in groups {
        test.run(&format!("SET nyala.resource_group = 'g{mib}'")).await;
        for sql in [
            "SELECT count(*), sum(c) FROM (SELECT g, count(DISTINCT t) c FROM texts GROUP BY g)",
            "SELECT count(*), sum(c) FROM (SELECT t, count(*) c FROM texts GROUP BY t)",
        ] {
            for _ in 0..4 {
                // Many of the queries need more memory, and say so.
                let ended = tokio::time::timeout(Duration::from_secs(60), test.try_run(sql)).await;
                match ended.unwrap_or_else(|_| panic!("{sql} goes on for ever with {mib} MiB")) {
                    Ok(rows) => assert_eq!(rows[0][1], "400000", "{sql}"),
                    Err(error) => assert_eq!(error.kind, ErrorKind::ResourcesExhausted, "{error}"),
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_that_spills_too_much_is_told_which_limit_it_met() {
    let test = engine(|config| {
        (config.query.memory_limit_bytes, config.query.spill_limit_bytes) = (64 << 20, 1);
    })
    .await;
    test.run("SET datafusion.execution.target_partitions = 1").await;
    let sorted = "SELECT a.n, b.n FROM big a, big b WHERE b.n < 500 ORDER BY a.n * -1, b.n % 17";
    test.error(sorted, ErrorKind::ResourcesExhausted, "query.spill_limit_bytes").await;
    freed(&test).await;
}

/// With such sizes, operators would ask for terabytes before the first row, which ends the process.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_sets_sizes_that_end_the_server() {
    let test = engine(|_| ()).await;
    for name in ["batch_size", "target_partitions"] {
        let set = format!("SET datafusion.execution.{name} = 1000000000000");
        test.error(&set, ErrorKind::InvalidParameter, "from 1 to").await;
    }
    assert_eq!(value(&test, "SELECT n FROM big ORDER BY n * -1 LIMIT 1").await, "19999");
}
