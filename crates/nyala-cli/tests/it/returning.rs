//! RETURNING, UPDATE … FROM and DELETE … USING on live tables: rows as they were written, and those of other tables.

use std::collections::BTreeMap;

use nyala_engine::{Answer, ErrorKind, SessionOptions};
use serde_json::json;

use crate::harness::TestEngine;
use crate::random::{Random, seed};
use crate::server::Server;

const STOCK: &str =
    "CREATE LIVE TABLE stock (id BIGINT PRIMARY KEY, name TEXT NOT NULL, n BIGINT, note TEXT DEFAULT 'none')";

async fn stock() -> TestEngine {
    let test = TestEngine::new().await;
    test.run(STOCK).await;
    test.run("INSERT INTO stock VALUES (1, 'tea', 10, 'x'), (2, 'milk', 20, NULL), (3, 'salt', 30, 'y')")
        .await;
    test
}

/// Compares the returned rows: those of INSERT come in its order, those of other statements in any order.
async fn check(test: &TestEngine, sql: &str, expected: &[&[&str]]) {
    assert_eq!(test.run(sql).await, owned(expected), "{sql}");
}

fn owned(rows: &[&[&str]]) -> Vec<Vec<String>> {
    rows.iter().map(|row| row.iter().map(|value| (*value).to_owned()).collect()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_insert_gives_back_the_rows_it_wrote() {
    let test = stock().await;
    check(
        &test,
        "INSERT INTO stock (name, id) VALUES ('oil', 5), ('egg', 4) RETURNING id, note, n, id * 2 AS d",
        &[&["5", "none", "NULL", "10"], &["4", "none", "NULL", "8"]],
    )
    .await;
    check(&test, "INSERT INTO stock VALUES (1, 'tea', 11, NULL) RETURNING *", &[&["1", "tea", "11", "NULL"]])
        .await;
    check(
        &test,
        "INSERT INTO stock SELECT id + 10, upper(name), n, note FROM stock WHERE id = 2 RETURNING stock.name, id",
        &[&["MILK", "12"]],
    )
    .await;
    let both = "INSERT INTO stock (id, name) VALUES (6, 'a'), (6, 'b') RETURNING name";
    check(&test, both, &[&["a"], &["b"]]).await;
    check(&test, "SELECT name FROM stock WHERE id = 6", &[&["b"]]).await;
    let keeping = "INSERT INTO stock (id, name) VALUES (6, 'c'), (7, 'd'), (7, 'e') ON CONFLICT DO NOTHING RETURNING id, name";
    check(&test, keeping, &[&["7", "d"]]).await;
    check(&test, keeping, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn updates_and_deletes_give_back_the_rows_they_concerned() {
    let test = stock().await;
    check(&test, "UPDATE stock SET n = n + 1 WHERE id = 1 RETURNING *", &[&["1", "tea", "11", "x"]]).await;
    check(
        &test,
        "UPDATE stock AS s SET n = 0, note = name WHERE s.id = 2 RETURNING s.note, n",
        &[&["milk", "0"]],
    )
    .await;
    check(&test, "UPDATE stock SET n = 0 WHERE id = 99 RETURNING id", &[]).await;
    let deleted = "DELETE FROM stock WHERE n > 0 AND id < 3 RETURNING name || '!' AS name, n, id";
    check(&test, deleted, &[&["tea!", "11", "1"]]).await;
    check(&test, deleted, &[]).await;
    check(&test, "DELETE FROM stock RETURNING 1", &[&["1"], &["1"]]).await;
    check(&test, "SELECT count(*) FROM stock", &[&["0"]]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_that_are_given_back_are_those_of_the_rows() {
    let test = stock().await;
    let version = "SELECT _version FROM stock WHERE id = 1";
    for sql in [
        "INSERT INTO stock VALUES (1, 'tea', 1, '') RETURNING _version",
        "UPDATE stock SET n = 2 WHERE id = 1 RETURNING _version",
        "UPDATE stock SET n = o.n FROM stock AS o WHERE o.id = 2 AND stock.id = 1 RETURNING stock._version",
    ] {
        let before = test.run(version).await;
        let given = test.run(sql).await;
        assert_ne!(given, before, "{sql}");
        assert_eq!(given, test.run(version).await, "{sql}");
    }
    let known = test.run(version).await;
    let guarded =
        format!("INSERT INTO stock (id, name, _version) VALUES (1, 'x', {}) RETURNING _version", known[0][0]);
    let newer = test.run(&guarded).await;
    assert_eq!(newer, test.run(version).await);
    test.error(&guarded, ErrorKind::Conflict, "").await;
    assert_eq!(test.run("DELETE FROM stock WHERE id = 1 RETURNING _version").await, newer);
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_are_given_back_to_those_who_name_them() {
    let test = TestEngine::new().await;
    test.run("CREATE LIVE TABLE model_versions (id BIGINT PRIMARY KEY, app_version BIGINT)").await;
    check(&test, "INSERT INTO model_versions VALUES (1, 2) RETURNING *", &[&["1", "2"]]).await;
    let changed = "UPDATE model_versions SET app_version = 3 WHERE _version > 0 RETURNING *";
    check(&test, changed, &[&["1", "3"]]).await;
    check(&test, "DELETE FROM model_versions RETURNING *", &[&["1", "3"]]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_whose_answer_cannot_be_computed_writes_nothing() {
    let test = stock().await;
    let all = "SELECT * FROM stock ORDER BY id";
    let before = test.run(all).await;
    for (sql, kind, words) in [
        ("DELETE FROM stock RETURNING 1 / (id - 2)", ErrorKind::DivisionByZero, "zero"),
        ("UPDATE stock SET n = 0 RETURNING 1 / n", ErrorKind::DivisionByZero, "zero"),
        (
            "INSERT INTO stock (id, name) VALUES (9, 'x') RETURNING cast(name AS INT)",
            ErrorKind::InvalidValue,
            "x",
        ),
        ("DELETE FROM stock RETURNING nope", ErrorKind::UndefinedColumn, "nope"),
        ("DELETE FROM stock RETURNING count(*)", ErrorKind::Unsupported, "no aggregates"),
        ("DELETE FROM stock RETURNING sum(n) OVER ()", ErrorKind::Unsupported, "no aggregates"),
        ("DELETE FROM stock RETURNING (SELECT max(n) FROM stock)", ErrorKind::Unsupported, "no subqueries"),
        (
            "UPDATE stock SET n = 0 RETURNING _version + 1",
            ErrorKind::Unsupported,
            "cannot compute with `_version`",
        ),
        ("INSERT INTO stock (id) VALUES (9) RETURNING id", ErrorKind::NullValue, "null in column `name`"),
    ] {
        test.error(sql, kind, words).await;
        assert_eq!(test.run(all).await, before, "{sql}");
    }
}

/// No two clients draw the same number, and no number is left out.
#[tokio::test(flavor = "multi_thread")]
async fn numbers_can_be_drawn_by_many_at_once() {
    const CLIENTS: usize = 8;
    const EACH: usize = 10;
    let test = stock().await;
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..CLIENTS {
        let session = test.engine.session(SessionOptions::default());
        clients.spawn(async move {
            let mut drawn = Vec::new();
            for _ in 0..EACH {
                let draw = "UPDATE stock SET n = n + 1 WHERE id = 1 RETURNING n";
                let Answer::Rows(rows) = session.query(draw).await.unwrap() else { panic!("no rows") };
                drawn.extend(crate::harness::rows_of(&rows.collect().await.unwrap()));
            }
            drawn
        });
    }
    let mut drawn: Vec<u64> =
        clients.join_all().await.concat().iter().map(|row| row[0].parse().unwrap()).collect();
    drawn.sort_unstable();
    assert_eq!(drawn, (11..11 + (CLIENTS * EACH) as u64).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn updates_take_values_from_other_tables() {
    let test = stock().await;
    test.run("CREATE LIVE TABLE orders (no BIGINT PRIMARY KEY, item BIGINT, n BIGINT)").await;
    test.run("INSERT INTO orders VALUES (1, 1, 5), (2, 2, 7), (3, 9, 1), (4, 2, 7)").await;
    let count = |sql: &'static str| {
        let session = &test.session;
        async move {
            match session.query(sql).await.unwrap_or_else(|error| panic!("{sql}\n{error:?}")) {
                Answer::Done(done) => (done.tag, done.rows.unwrap()),
                Answer::Rows(_) => panic!("{sql} gives rows"),
            }
        }
    };
    let all = "SELECT id, n, note FROM stock ORDER BY id";
    // Two orders agree about row 2, which is counted once.
    let once = count("UPDATE stock SET n = orders.n FROM orders WHERE item = id").await;
    assert_eq!(once, ("UPDATE".to_owned(), 2));
    check(&test, all, &[&["1", "5", "x"], &["2", "7", "NULL"], &["3", "30", "y"]]).await;
    let joined = "UPDATE stock AS s SET n = s.n + o.n, note = p.name \
                  FROM orders o JOIN stock p ON o.item = p.id + 1, (SELECT 1 AS one) \
                  WHERE s.id = o.item AND o.no = 2 AND one = 1";
    assert_eq!(count(joined).await.1, 1);
    check(&test, all, &[&["1", "5", "x"], &["2", "14", "tea"], &["3", "30", "y"]]).await;
    let itself = "UPDATE stock SET n = o.n FROM stock AS o WHERE stock.id = o.id % 3 + 1";
    assert_eq!(count(itself).await.1, 3);
    check(&test, all, &[&["1", "30", "x"], &["2", "5", "tea"], &["3", "14", "y"]]).await;
    assert_eq!(count("UPDATE stock SET n = 0 FROM orders WHERE item = id AND no = 77").await.1, 0);
    let with_others = "UPDATE stock SET n = 1 FROM orders o WHERE item = id AND no < 3 AND id = 2 \
                       RETURNING o.no, stock.n, o.n AS ordered, name";
    check(&test, with_others, &[&["2", "1", "7", "milk"]]).await;
    let everything = "UPDATE stock SET n = 2 FROM orders o WHERE item = id AND no = 1 RETURNING *";
    check(&test, everything, &[&["1", "tea", "2", "x", "1", "1", "5"]]).await;
    // Versions that only a condition reads are not returned, and versions that only RETURNING names are read.
    let newer =
        "UPDATE stock SET n = 3 FROM orders o WHERE item = id AND no = 1 AND o._version > 0 RETURNING *";
    check(&test, newer, &[&["1", "tea", "3", "x", "1", "1", "5"]]).await;
    let theirs =
        "UPDATE stock SET n = 4 FROM orders o WHERE item = id AND no = 1 RETURNING o._version > 0, o.n";
    check(&test, theirs, &[&["true", "5"]]).await;
    let longer = "UPDATE stock SET n = 5 FROM public.orders WHERE item = id AND no = 1 \
                  RETURNING public.orders.n, stock.n AS own";
    check(&test, longer, &[&["5", "5"]]).await;
    let own = "UPDATE stock SET n = 6 FROM public.orders WHERE item = id AND no = 2 \
               RETURNING public.orders.n, stock._version";
    let version = test.run("SELECT 7, _version FROM stock WHERE id = 2").await;
    let given = test.run(own).await;
    assert_ne!(given, version);
    assert_eq!(given, test.run("SELECT 7, _version FROM stock WHERE id = 2").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn deletes_look_at_other_tables() {
    let test = stock().await;
    test.run("CREATE LIVE TABLE orders (no BIGINT PRIMARY KEY, item BIGINT, n BIGINT)").await;
    test.run("INSERT INTO orders VALUES (1, 1, 5), (2, 2, 7), (3, 9, 1), (4, 2, 7)").await;
    let left = "SELECT id FROM stock ORDER BY id";
    let tag = async |sql: &str| match test.session.query(sql).await.unwrap_or_else(|e| panic!("{sql}\n{e:?}"))
    {
        Answer::Done(done) => (done.tag, done.rows.unwrap()),
        Answer::Rows(_) => panic!("{sql} gives rows"),
    };
    let none = ("DELETE".to_owned(), 0);
    assert_eq!(tag("DELETE FROM stock USING orders WHERE item = id AND no = 3").await, none);
    // Names that are in both tables must be qualified: `n = orders.n` could mean all rows.
    test.error("DELETE FROM stock USING orders WHERE n = orders.n", ErrorKind::AmbiguousColumn, "n").await;
    test.error("DELETE FROM stock s USING orders WHERE stock.id = item", ErrorKind::UndefinedColumn, "stock")
        .await;
    test.error("DELETE FROM stock USING nowhere WHERE id = 1", ErrorKind::UndefinedTable, "nowhere").await;
    // It would be chance which of two orders is returned.
    let either = "DELETE FROM stock USING orders o WHERE item = id AND id = 2 RETURNING no";
    test.error(either, ErrorKind::Data, "with id = 2 meets several").await;
    check(&test, left, &[&["1"], &["2"], &["3"]]).await;
    // Two orders name row 2, which is deleted once.
    assert_eq!(tag("DELETE FROM stock AS s USING orders o WHERE o.item = s.id AND o.n = 7").await.1, 1);
    check(&test, left, &[&["1"], &["3"]]).await;
    let joined = "DELETE FROM stock USING orders o JOIN orders p ON p.no = o.no, (SELECT 1 AS one) \
                  WHERE o.item = stock.id AND one = 1 RETURNING stock.*, o.no, p.item + one AS next";
    check(&test, joined, &[&["1", "tea", "10", "x", "1", "2"]]).await;
    let other_name = "DELETE FROM stock AS s WHERE s.id = 3 RETURNING s.name, s._version > 0";
    let given = test.run(other_name).await;
    assert_eq!((given.len(), given[0][1].as_str()), (1, "true"), "{given:?}");
    check(&test, left, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_others_disagree_about_are_left_as_they_are() {
    let test = stock().await;
    test.run("CREATE LIVE TABLE orders (no BIGINT PRIMARY KEY, item BIGINT, n BIGINT)").await;
    test.run("INSERT INTO orders VALUES (1, 1, 5), (2, 2, 7), (3, 2, 8), (4, 3, 9), (5, 3, 9)").await;
    let all = "SELECT * FROM stock ORDER BY id";
    let before = test.run(all).await;
    for (sql, kind, words) in [
        (
            "UPDATE stock SET n = orders.n FROM orders WHERE item = id",
            ErrorKind::Data,
            "the row of table `public.stock` with id = 2 meets several rows of the other tables",
        ),
        (
            "UPDATE stock SET n = o.n FROM orders o WHERE item = id AND id = 3 RETURNING no",
            ErrorKind::Data,
            "with id = 3 meets several",
        ),
        // Names that are in both tables must be qualified.
        ("UPDATE stock SET n = n FROM orders WHERE item = id", ErrorKind::AmbiguousColumn, "n"),
        (
            "UPDATE stock SET id = o.id FROM stock o WHERE o.id = stock.id + 1",
            ErrorKind::Data,
            "duplicate key: two rows of table `public.stock` would have the key (id) = (",
        ),
        (
            "UPDATE stock SET _version = o._version FROM stock o WHERE o.id = stock.id",
            ErrorKind::Unsupported,
            "`_version` cannot be set",
        ),
        ("UPDATE stock SET n = 1 FROM nowhere WHERE id = 1", ErrorKind::UndefinedTable, "nowhere"),
    ] {
        test.error(sql, kind, words).await;
        assert_eq!(test.run(all).await, before, "{sql}");
    }
}

/// Random statements against a map as the model, with the rows that each must return.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_given_back_is_what_a_map_would_give() {
    let mut random = Random(seed());
    let test = TestEngine::new().await;
    test.run("CREATE DISK STORE d WITH (seal_bytes = 4096, checkpoint_bytes = 1024)").await;
    test.run("CREATE LIVE TABLE t (k BIGINT PRIMARY KEY, v BIGINT) WITH (disk_store = d)").await;
    let mut model: BTreeMap<i64, i64> = BTreeMap::new();
    for step in 0..80_i64 {
        let (from, add) = (random.below(60) as i64, random.below(9) as i64);
        let (sql, mut expected): (String, Vec<(i64, i64)>) = match random.below(5) {
            0 | 1 => {
                let rows: Vec<(i64, i64)> =
                    (0..1 + random.below(20)).map(|_| (random.below(60) as i64, step)).collect();
                let values: Vec<String> = rows.iter().map(|(k, v)| format!("({k}, {v})")).collect();
                model.extend(rows.iter().copied());
                (format!("INSERT INTO t VALUES {} RETURNING k, v", values.join(", ")), rows)
            }
            2 => {
                // Each row gets the value that the row of the next key had before, if there is one.
                let next = model.clone();
                let mut changed = Vec::new();
                for (k, v) in model.range_mut(from..) {
                    if let Some(other) = next.get(&(k + 1)) {
                        *v = other + add;
                        changed.push((*k, *v));
                    }
                }
                let sql = format!(
                    "UPDATE t SET v = o.v + {add} FROM t o WHERE o.k = t.k + 1 AND t.k >= {from} RETURNING t.k, t.v"
                );
                (sql, changed)
            }
            3 => {
                // The rows whose next row has a greater value are deleted.
                let all = model.clone();
                let goes = |k: i64, v: i64| k >= from && all.get(&(k + 1)).is_some_and(|other| *other > v);
                let gone = all.iter().map(|(k, v)| (*k, *v)).filter(|(k, v)| goes(*k, *v)).collect();
                model.retain(|k, v| !goes(*k, *v));
                let sql = format!(
                    "DELETE FROM t USING t o WHERE o.k = t.k + 1 AND o.v > t.v AND t.k >= {from} RETURNING t.k, t.v"
                );
                (sql, gone)
            }
            _ => {
                let gone: Vec<(i64, i64)> = model
                    .iter()
                    .filter(|(k, v)| **k >= from && **v > step / 2)
                    .map(|(k, v)| (*k, *v))
                    .collect();
                model.retain(|k, v| !(*k >= from && *v > step / 2));
                (format!("DELETE FROM t WHERE k >= {from} AND v > {} RETURNING *", step / 2), gone)
            }
        };
        let found =
            test.run(&sql).await.into_iter().map(|row| (row[0].parse().unwrap(), row[1].parse().unwrap()));
        let mut found: Vec<(i64, i64)> = found.collect();
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected, "step {step}: {sql}");
        let left = test.run("SELECT k, v FROM t ORDER BY k").await;
        let model: Vec<Vec<String>> = model.iter().map(|(k, v)| vec![k.to_string(), v.to_string()]).collect();
        assert_eq!(left, model, "step {step}: {sql}");
    }
}

#[test]
fn rows_are_given_back_over_http_too() {
    let server = Server::empty(&[]);
    server.query(STOCK);
    let written = server.query("INSERT INTO stock (id, name) VALUES (1, 'tea') RETURNING id, note");
    assert_eq!(written, [["1", "none"]]);
    let body = json!({"sql": "UPDATE stock SET n = $1 WHERE id = $2 RETURNING n, n + $3 AS m", "parameters": [5, 1, 2]});
    let changed = server.post(&body.to_string());
    assert_eq!(changed.status, 200, "{}", changed.body);
    assert!(changed.body.contains("[5,7]"), "{}", changed.body);
}
