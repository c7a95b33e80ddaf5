//! Live tables through SQL: rows that change, and are there again after a restart.

use std::collections::BTreeMap;

use arrow::array::{Int64Array, StringArray};
use nyala_engine::{Answer, ErrorKind, SessionOptions};

use crate::batch;
use crate::harness::{TestEngine, sorted, write_parquet};
use crate::random::{Random, seed};

const ACCOUNTS: &str = "CREATE LIVE TABLE accounts (id BIGINT PRIMARY KEY, owner TEXT NOT NULL, amount BIGINT, \
                        note TEXT DEFAULT 'none')";

pub async fn accounts() -> TestEngine {
    let test = TestEngine::new().await;
    test.run(ACCOUNTS).await;
    test
}

/// The number of rows that a statement reports.
pub async fn written(test: &TestEngine, sql: &str) -> u64 {
    match test.session.query(sql).await.unwrap_or_else(|error| panic!("{sql}\n{error:?}")) {
        Answer::Done(done) => done.rows.unwrap(),
        Answer::Rows(_) => panic!("{sql} gives rows"),
    }
}

pub async fn check(test: &TestEngine, sql: &str, expected: &[&[&str]]) {
    let expected: Vec<Vec<String>> =
        expected.iter().map(|row| row.iter().map(|value| (*value).to_owned()).collect()).collect();
    assert_eq!(sorted(test.run(sql).await), sorted(expected), "{sql}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_there_again_after_a_restart() {
    let mut test = accounts().await;
    assert_eq!(
        written(&test, "INSERT INTO accounts VALUES (1, 'Ada', 10, 'x'), (2, 'Bo', 20, NULL)").await,
        2
    );
    assert_eq!(written(&test, "INSERT INTO accounts (owner, id) VALUES ('Cy', 1 + 2), ('Di', 4)").await, 2);
    assert_eq!(written(&test, "UPDATE accounts SET amount = amount * 2 WHERE id <= 2").await, 2);
    assert_eq!(written(&test, "DELETE FROM accounts WHERE owner = 'Di' OR id = 99").await, 1);
    assert_eq!(written(&test, "INSERT INTO accounts VALUES (2, 'Bob', 7, 'new')").await, 1);
    for _ in 0..2 {
        let all = "SELECT * FROM accounts";
        check(
            &test,
            all,
            &[&["1", "Ada", "20", "x"], &["2", "Bob", "7", "new"], &["3", "Cy", "NULL", "none"]],
        )
        .await;
        check(&test, "SELECT count(*), sum(amount) FROM accounts", &[&["3", "27"]]).await;
        check(&test, "SELECT owner FROM accounts WHERE id = 2", &[&["Bob"]]).await;
        test = test.reopen().await;
    }
    // Values are read in the background.
    while test.run("SELECT phase, percent FROM system.recovery").await != [["ready", "100"]] {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    check(&test, "SELECT \"table\", rows FROM system.live_tables", &[&["accounts", "3"]]).await;
    check(&test, "SELECT disk_store, state FROM system.disk_stores", &[&["main", "open"]]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_are_whole_or_nothing() {
    let test = accounts().await;
    test.run("INSERT INTO accounts VALUES (1, 'Ada', 10, '')").await;
    test.error(
        "INSERT INTO accounts VALUES (2, 'Bo', 1, ''), (3, NULL, 1, '')",
        ErrorKind::NullValue,
        "null in column `owner`",
    )
    .await;
    test.error(
        "INSERT INTO accounts VALUES (2, 'Bo', 1, ''), (NULL, 'Cy', 1, '')",
        ErrorKind::NullValue,
        "null in column `id`",
    )
    .await;
    test.error(
        "INSERT INTO accounts VALUES (2, 'Bo', 1, ''), (3, 'Cy', 'many', '')",
        ErrorKind::InvalidValue,
        "many",
    )
    .await;
    let divided = "UPDATE accounts SET amount = 1 / (amount - 10)";
    test.error(divided, ErrorKind::DivisionByZero, "division by zero").await;
    check(&test, "SELECT id, amount FROM accounts", &[&["1", "10"]]).await;
    // Of several rows with one key the last one counts.
    test.run("INSERT INTO accounts VALUES (5, 'first', 1, ''), (5, 'last', 2, '')").await;
    check(&test, "SELECT owner FROM accounts WHERE id = 5", &[&["last"]]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_are_set_under_any_case_and_once() {
    let test = accounts().await;
    test.run("INSERT INTO accounts VALUES (1, 'Ada', 10, 'x')").await;
    assert_eq!(written(&test, "UPDATE accounts SET Amount = 5, \"note\" = 'y' WHERE ID = 1").await, 1);
    test.error("UPDATE accounts SET amount = 1, Amount = 2", ErrorKind::Syntax, "same column `amount`").await;
    test.error("UPDATE accounts SET \"Amount\" = 1", ErrorKind::UndefinedColumn, "Amount").await;
    check(&test, "SELECT * FROM accounts", &[&["1", "Ada", "5", "y"]]).await;
}

/// A counter to which many clients add at once must not miss any addition.
#[tokio::test(flavor = "multi_thread")]
async fn no_change_is_lost() {
    const CLIENTS: usize = 16;
    const EACH: usize = 10;
    let test = accounts().await;
    test.run("INSERT INTO accounts VALUES (1, 'all', 0, ''), (2, 'all', 1000, '')").await;
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..CLIENTS {
        let session = test.engine.session(SessionOptions::default());
        clients.spawn(async move {
            for _ in 0..EACH {
                let moved =
                    "UPDATE accounts SET amount = CASE WHEN id = 1 THEN amount + 1 ELSE amount - 1 END";
                session.query(moved).await.unwrap();
            }
        });
    }
    // Meanwhile one statement always sees one version, however often it reads the table.
    let reading = "SELECT sum(a.amount), (SELECT sum(amount) FROM accounts) - sum(b.amount), \
                   (SELECT amount FROM accounts WHERE id = 1) + (SELECT amount FROM accounts WHERE id = 2) \
                   FROM accounts a JOIN accounts b ON a.id = b.id AND a.amount = b.amount";
    while !clients.is_empty() {
        check(&test, reading, &[&["1000", "0", "1000"]]).await;
        while clients.try_join_next().transpose().unwrap().is_some() {}
    }
    let moved = (CLIENTS * EACH).to_string();
    check(&test, "SELECT amount FROM accounts WHERE id = 1", &[&[&moved]]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_looked_up() {
    let test = TestEngine::new().await;
    test.run("CREATE LIVE TABLE t (a INT, b TEXT, v DOUBLE, PRIMARY KEY (b, a))").await;
    test.run("INSERT INTO t SELECT value, 'k' || (value % 10), value / 2.0 FROM generate_series(1, 5000) AS s (value)")
        .await;
    for (condition, keys, count) in [
        ("a = 7 AND b = 'k7'", Some(1), 1),
        ("b = 'k7' AND a = 8", Some(1), 0),
        ("a IN (7, 17, 27, 30) AND b = 'k7'", Some(4), 3),
        ("(b = 'k7' OR b = 'k8') AND a IN (7, 8)", Some(4), 2),
        ("a = 7", None, 1),
        ("a > 4990 AND b = 'k7'", None, 1),
        ("a = 7 AND b = 'k7' AND v > 100", Some(1), 0),
    ] {
        let sql = format!("SELECT * FROM t WHERE {condition}");
        assert_eq!(test.run(&sql).await.len(), count, "{sql}");
        let plan = test.operators(&sql).await;
        let shown = keys.map(|keys| format!("keys={keys}"));
        assert_eq!(plan.contains("keys="), shown.is_some(), "{plan}");
        assert!(shown.is_none_or(|shown| plan.contains(&shown)), "{plan}");
    }
    assert_eq!(written(&test, "UPDATE t SET v = 0 WHERE a = 7 AND b = 'k7'").await, 1);
    assert_eq!(written(&test, "DELETE FROM t WHERE b = 'k7' AND a IN (7, 17)").await, 2);
    check(&test, "SELECT count(*) FROM t", &[&["4998"]]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_change() {
    let mut test = accounts().await;
    test.run("INSERT INTO accounts VALUES (1, 'Ada', 10, '')").await;
    test.run("ALTER TABLE accounts ADD COLUMN born DATE, ADD COLUMN IF NOT EXISTS owner TEXT").await;
    test.run("INSERT INTO accounts (id, owner, born) VALUES (2, 'Bo', '1990-02-03')").await;
    test.run("ALTER TABLE accounts RENAME COLUMN amount TO cents").await;
    test.run("ALTER TABLE accounts DROP COLUMN note").await;
    for _ in 0..2 {
        let all = "SELECT * FROM accounts";
        check(&test, all, &[&["1", "Ada", "10", "NULL"], &["2", "Bo", "NULL", "1990-02-03"]]).await;
        test.error("SELECT note FROM accounts", ErrorKind::UndefinedColumn, "note").await;
        test = test.reopen().await;
    }
    test.error("ALTER TABLE accounts DROP COLUMN id", ErrorKind::InvalidDefinition, "primary key").await;
    test.error("ALTER TABLE accounts ADD COLUMN owner INT", ErrorKind::DuplicateColumn, "owner").await;
    test.error("ALTER TABLE accounts ADD COLUMN x INT NOT NULL", ErrorKind::Unsupported, "NOT NULL").await;
    test.error("ALTER TABLE accounts DROP COLUMN nothing", ErrorKind::UndefinedColumn, "nothing").await;
    test.error("ALTER TABLE nobody ADD COLUMN x INT", ErrorKind::UndefinedTable, "nobody").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_come_and_go() {
    let mut test = accounts().await;
    let store = test.path("elsewhere");
    test.run(&format!("CREATE DISK STORE fast DIR '{}' WITH (seal_bytes = 65536)", store.display())).await;
    test.run(
        "CREATE LIVE TABLE IF NOT EXISTS events (id INT, at TIMESTAMP, PRIMARY KEY (id)) \
              WITH (disk_store = fast, buckets = 4, sync = 'interval', ttl = '30 days')",
    )
    .await;
    test.run("CREATE LIVE TABLE IF NOT EXISTS events (id INT PRIMARY KEY)").await;
    test.run("INSERT INTO events SELECT value, now() FROM generate_series(1, 3000) AS s (value)").await;
    check(&test, "SELECT count(*), count(at) FROM events", &[&["3000", "3000"]]).await;
    assert!(store.join("lock").exists());
    test.error("DROP DISK STORE fast", ErrorKind::Needed, "table `public.events`").await;
    test.run("DROP TABLE accounts").await;
    test.run(ACCOUNTS).await;
    check(&test, "SELECT count(*) FROM accounts", &[&["0"]]).await;
    test.run("INSERT INTO accounts VALUES (1, 'Ada', 10, '')").await;
    test = test.reopen().await;
    check(&test, "SELECT count(*) FROM events", &[&["3000"]]).await;
    check(&test, "SELECT owner FROM accounts", &[&["Ada"]]).await;
    test.run("TRUNCATE TABLE events").await;
    check(&test, "SELECT count(*) FROM events", &[&["0"]]).await;
    test.run("DROP TABLE events").await;
    test.run("DROP DISK STORE fast").await;
    test.run("DROP DISK STORE IF EXISTS fast").await;
    check(&test, "SELECT disk_store FROM system.disk_stores", &[&["main"]]).await;
    test = test.reopen().await;
    check(&test, "SELECT disk_store FROM system.disk_stores", &[&["main"]]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_come_from_queries_and_files() {
    let test = accounts().await;
    let rows = batch!(
        "id" => Int64Array::from_iter_values(0..20_000),
        "owner" => StringArray::from_iter_values((0..20_000).map(|n| format!("owner {}", n % 100))),
        "amount" => Int64Array::from_iter((0..20_000).map(|n| (n % 3 > 0).then_some(n))),
        "extra" => Int64Array::from_iter_values(0..20_000),
    );
    test.table("files", &[rows]).await;
    let location = test.path("files").display().to_string();
    let copied = written(&test, &format!("COPY accounts (id, owner, amount) FROM '{location}/'")).await;
    assert_eq!(copied, 20_000);
    let same = "SELECT id, owner, amount FROM accounts EXCEPT SELECT id, owner, amount FROM files";
    check(&test, same, &[]).await;
    let joined = "SELECT count(*), sum(a.amount) FROM accounts a JOIN files f ON a.id = f.extra";
    check(&test, joined, &[&["20000", "133326667"]]).await;
    let made = "CREATE LIVE TABLE owners (PRIMARY KEY (owner)) AS \
                SELECT owner, sum(amount) AS total, count(*) AS n FROM accounts GROUP BY owner";
    assert_eq!(written(&test, made).await, 100);
    check(&test, "SELECT sum(total), sum(n) FROM owners", &[&["133326667", "20000"]]).await;
    let update = "UPDATE owners SET n = n + (SELECT max(f.extra) FROM files f WHERE f.owner = owners.owner) \
                  WHERE owner IN (SELECT owner FROM files WHERE id < 2)";
    assert_eq!(written(&test, update).await, 2);
    check(
        &test,
        "SELECT owner, n FROM owners WHERE n > 200",
        &[&["owner 0", "20100"], &["owner 1", "20101"]],
    )
    .await;
    test.error("UPDATE owners SET n = f.id FROM files f", ErrorKind::Data, "several rows of the other").await;
    std::fs::write(test.path("people.csv"), "owner,id\nAda,1\n\"B, o\",2\n").unwrap();
    let csv = test.path("people.csv").display().to_string();
    assert_eq!(written(&test, &format!("COPY accounts (id, owner) FROM '{csv}' (FORMAT csv)")).await, 2);
    check(
        &test,
        "SELECT owner, amount FROM accounts WHERE id IN (1, 2)",
        &[&["Ada", "NULL"], &["B, o", "NULL"]],
    )
    .await;
    test.error(&format!("COPY accounts FROM '{csv}'"), ErrorKind::UndefinedColumn, "has no column `amount`")
        .await;
    test.error("COPY accounts FROM '/nowhere/x.csv'", ErrorKind::Unreadable, "nowhere").await;
    test.error("COPY files FROM '/nowhere/x.csv'", ErrorKind::Unsupported, "not a live table").await;
    test.error(
        "CREATE LIVE TABLE bad (PRIMARY KEY (v)) AS SELECT 1 / (id - 5) AS v FROM files",
        ErrorKind::DivisionByZero,
        "zero",
    )
    .await;
    test.error("SELECT * FROM bad", ErrorKind::UndefinedTable, "bad").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn senseless_statements_are_refused() {
    let test = accounts().await;
    test.table("files", &[batch!("id" => Int64Array::from(vec![1]))]).await;
    for (sql, kind, words) in [
        ("CREATE LIVE TABLE t (a INT, PRIMARY KEY (b))", ErrorKind::InvalidDefinition, "b"),
        ("CREATE LIVE TABLE t (a INT PRIMARY KEY, a INT)", ErrorKind::DuplicateColumn, "a"),
        ("CREATE LIVE TABLE t (_version INT PRIMARY KEY)", ErrorKind::InvalidDefinition, "_version"),
        ("CREATE LIVE TABLE t (a INT PRIMARY KEY, b INT UNIQUE)", ErrorKind::Unsupported, "UNIQUE"),
        ("CREATE LIVE TABLE t (a INT[] PRIMARY KEY)", ErrorKind::InvalidDefinition, "`a`"),
        (
            "CREATE LIVE TABLE t (a INT PRIMARY KEY) WITH (disk_store = nowhere)",
            ErrorKind::UndefinedObject,
            "nowhere",
        ),
        (
            "CREATE LIVE TABLE t (a INT PRIMARY KEY) WITH (buckets = 0)",
            ErrorKind::InvalidDefinition,
            "buckets",
        ),
        (
            "CREATE LIVE TABLE t (a INT PRIMARY KEY) WITH (bucket = 1)",
            ErrorKind::InvalidDefinition,
            "`bucket`",
        ),
        (
            "CREATE LIVE TABLE t (a INT PRIMARY KEY) WITH (sync = 'never')",
            ErrorKind::InvalidDefinition,
            "never",
        ),
        ("CREATE LIVE TABLE t (a INT PRIMARY KEY) WITH (ttl = 'soon')", ErrorKind::InvalidDefinition, "soon"),
        ("CREATE LIVE TABLE accounts (a INT PRIMARY KEY)", ErrorKind::DuplicateTable, "accounts"),
        ("CREATE LIVE TABLE files (a INT PRIMARY KEY)", ErrorKind::DuplicateTable, "files"),
        ("CREATE LIVE TABLE nowhere.t (a INT PRIMARY KEY)", ErrorKind::UndefinedObject, "nowhere"),
        ("CREATE DISK STORE d WITH (seal_byte = 1)", ErrorKind::InvalidDefinition, "seal_byte"),
        ("CREATE DISK STORE main", ErrorKind::DuplicateObject, "main"),
        ("DROP DISK STORE nothing", ErrorKind::UndefinedObject, "nothing"),
        ("INSERT INTO files VALUES (2)", ErrorKind::Unsupported, "not a live table"),
        ("DELETE FROM files", ErrorKind::Unsupported, "not a live table"),
        ("ALTER TABLE files ADD COLUMN x INT", ErrorKind::Unsupported, "not a live table"),
        ("INSERT INTO nothing VALUES (2)", ErrorKind::UndefinedTable, "nothing"),
        ("INSERT INTO accounts (id, nothing) VALUES (2, 3)", ErrorKind::UndefinedColumn, "nothing"),
        ("INSERT INTO accounts (id) VALUES (1, 2)", ErrorKind::InvalidText, ""),
        ("UPDATE accounts SET _version = 2", ErrorKind::Unsupported, "_version"),
        ("UPDATE accounts SET nothing = 2", ErrorKind::UndefinedColumn, "nothing"),
        ("COPY accounts FROM STDIN", ErrorKind::Unsupported, "STDIN"),
    ] {
        let error = test.try_run(sql).await.err().unwrap_or_else(|| panic!("{sql} was done"));
        assert!(
            error.kind == kind && error.message.to_lowercase().contains(&words.to_lowercase()),
            "{sql}\n{error:?}"
        );
    }
    check(&test, "SELECT count(*) FROM accounts", &[&["0"]]).await;
}

/// Random statements against a map that does the same.
#[tokio::test(flavor = "multi_thread")]
async fn statements_do_what_a_map_does() {
    let mut random = Random(seed());
    let mut test = TestEngine::new().await;
    test.run("CREATE DISK STORE d WITH (seal_bytes = 4096, checkpoint_bytes = 1024)").await;
    test.run("CREATE LIVE TABLE t (k TEXT PRIMARY KEY, v BIGINT, w DOUBLE) WITH (disk_store = d)").await;
    let mut model: BTreeMap<String, (Option<i64>, f64)> = BTreeMap::new();
    for step in 0..120 {
        let bound = format!("k{:03}", random.below(300));
        let add = random.below(55) as i64 - 5;
        match random.below(8) {
            0..=3 => {
                let mut rows = Vec::new();
                for _ in 0..1 + random.below(59) {
                    let key = format!("k{:03}", random.below(300));
                    let value = random.chance(90).then_some(add);
                    let shown = value.map_or("NULL".to_owned(), |value| value.to_string());
                    rows.push(format!("('{key}', {shown}, {step})"));
                    model.insert(key, (value, f64::from(step)));
                }
                test.run(&format!("INSERT INTO t VALUES {}", rows.join(", "))).await;
            }
            4 => {
                test.run(&format!("UPDATE t SET v = v + {add}, w = w / 2 + 1 WHERE k < '{bound}'")).await;
                for (_, (value, other)) in model.range_mut(..bound.clone()) {
                    *value = value.map(|value| value + add);
                    *other = *other / 2.0 + 1.0;
                }
            }
            5 => {
                test.run(&format!("DELETE FROM t WHERE k > '{bound}' AND v > {add}")).await;
                model.retain(|key, (value, _)| *key <= bound || value.is_none_or(|value| value <= add));
            }
            6 => {
                test.run(&format!("DELETE FROM t WHERE k = '{bound}'")).await;
                model.remove(&bound);
            }
            _ if step % 3 == 0 => test = test.reopen().await,
            _ => {}
        }
        let text = |value: Option<i64>| value.map_or("NULL".to_owned(), |value| value.to_string());
        let expected: Vec<Vec<String>> = model
            .iter()
            .map(|(key, (value, other))| vec![key.clone(), text(*value), format!("{other:?}")])
            .collect();
        assert_eq!(test.run("SELECT k, v, w FROM t ORDER BY k").await, expected, "step {step}");
        let one = model.get(&bound).map(|(value, _)| vec![text(*value)]);
        let found = test.run(&format!("SELECT v FROM t WHERE k = '{bound}'")).await;
        assert_eq!(found.into_iter().next(), one, "step {step}");
    }
}

/// A statement waits for the store it needs, and for no other.
#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_opened_stops_nobody_else() {
    let test = accounts().await;
    test.run("INSERT INTO accounts VALUES (1, 'Ada', 10, '')").await;
    test.run("CREATE DISK STORE broken").await;
    test.run("CREATE LIVE TABLE b (id INT PRIMARY KEY) WITH (disk_store = broken)").await;
    test.run("INSERT INTO b VALUES (1)").await;
    let folder = test.path("data/stores/broken");
    test.engine.shutdown(std::time::Duration::ZERO).await;
    for file in std::fs::read_dir(&folder).unwrap() {
        let path = file.unwrap().path();
        if path.file_name().unwrap().to_str().unwrap().starts_with("manifest") {
            std::fs::write(path, b"nothing").unwrap();
        }
    }
    let test = test.reopen().await;
    check(&test, "SELECT owner FROM accounts", &[&["Ada"]]).await;
    test.run("INSERT INTO accounts VALUES (2, 'Bo', 20, '')").await;
    test.error("SELECT * FROM b", ErrorKind::Unreadable, "manifest").await;
    test.error("INSERT INTO b VALUES (2)", ErrorKind::Unreadable, "manifest").await;
    let states = "SELECT disk_store, state FROM system.disk_stores";
    check(&test, states, &[&["main", "open"], &["broken", "failed"]]).await;
    check(&test, "SELECT \"table\", rows FROM system.live_tables", &[&["accounts", "2"], &["b", "NULL"]])
        .await;
}

/// Parts that their bounds rule out are not read, and no row is missed.
#[tokio::test(flavor = "multi_thread")]
async fn bounds_leave_out_parts_and_miss_no_row() {
    let test = TestEngine::new().await;
    test.run("CREATE LIVE TABLE t (id BIGINT PRIMARY KEY, day DATE, v BIGINT)").await;
    for part in 0..3 {
        let from = part * 100_000;
        test.run(&format!(
            "INSERT INTO t SELECT value, DATE '2024-01-01' + CAST(value / 1000 AS INT), value % 77 \
             FROM generate_series({from}, {}) AS s (value)",
            from + 99_999
        ))
        .await;
    }
    test.run("UPDATE t SET day = DATE '2030-01-01' WHERE id % 50000 = 7").await;
    check(&test, "SELECT count(*) FROM t WHERE day >= DATE '2030-01-01'", &[&["6"]]).await;
    check(&test, "SELECT count(*), min(id) FROM t WHERE id >= 299990", &[&["10", "299990"]]).await;
    check(&test, "SELECT count(*) FROM t WHERE day IS NULL OR v < 0", &[&["0"]]).await;
    let above = "SELECT count(*) FROM t WHERE id > (SELECT max(id) - 5 FROM t) AND random() >= 0";
    check(&test, above, &[&["5"]]).await;
    let own = "SELECT count(*) FROM t WHERE v = (SELECT max(u.v) FROM t u WHERE u.id = t.id) AND id < 100";
    check(&test, own, &[&["100"]]).await;
    check(&test, "SELECT count(*) FROM t WHERE id IN (SELECT id + 1 FROM t) AND id < 10", &[&["9"]]).await;
    let plan = test.operators("SELECT count(*) FROM t WHERE id > 299990").await;
    assert!(plan.contains("LiveScanExec") && plan.contains("parts="), "{plan}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_rows_is_loaded_in_several_statements() {
    let test = TestEngine::new().await;
    let rows = |from: i64| {
        batch!(
            "id" => Int64Array::from_iter_values(from..from + 200_000),
            "text" => StringArray::from_iter_values((from..from + 200_000).map(|n| format!("{n:050}"))),
        )
    };
    write_parquet(&test.path("many/a.parquet"), &[rows(0)]);
    write_parquet(&test.path("many/b.parquet"), &[rows(100_000)]);
    test.run("CREATE LIVE TABLE t (id BIGINT PRIMARY KEY, text TEXT)").await;
    let many = test.path("many").display().to_string();
    assert_eq!(written(&test, &format!("COPY t FROM '{many}/'")).await, 400_000);
    check(&test, "SELECT count(*), max(text) FROM t", &[&["300000", &format!("{:050}", 299_999)]]).await;
    let lsns: Vec<Vec<String>> = test.run("SELECT count(DISTINCT _version) FROM t").await;
    assert!(lsns[0][0].parse::<u32>().unwrap() > 1, "{lsns:?}");
}
