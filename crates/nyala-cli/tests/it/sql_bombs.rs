//! Texts that were made to end the process or to hold a thread. Each ends with an error that names a limit, or with an answer, and the
//! server goes on.

use serde_json::json;

use crate::server::Server;

/// Longest time of a statement: one that takes longer has found a hole.
const TIMEOUT_MS: &str = "60000";

fn server() -> Server {
    Server::empty(&[
        ("NYALA_QUERY__STATEMENT_TIMEOUT_MS", TIMEOUT_MS),
        ("NYALA_QUERY__MEMORY_LIMIT_BYTES", "1073741824"),
    ])
}

/// Checks that statements are refused, with these words.
fn check_refused(server: &Server, bombs: &[(String, &str)]) {
    for (sql, words) in bombs {
        let response = server.post(&json!({ "sql": sql }).to_string());
        let body = &response.body;
        assert!(body.contains("limit_exceeded") && body.contains(words), "{sql:.200}\n{words}\n{body:.1000}");
    }
    server.check_alive("refusals");
}

/// Checks that statements end: with an answer, or with an error that is no fault of the server.
fn check_ends(server: &Server, texts: &[String]) {
    for sql in texts {
        let response = server.post(&json!({ "sql": sql }).to_string());
        let ended = response.status == 200 || (400..500).contains(&response.status);
        let body = &response.body;
        assert!(ended && !body.contains("statement_timeout"), "{sql:.200}\n{} {body:.1000}", response.status);
    }
    server.check_alive("answers");
}

fn nested(open: &str, inner: &str, close: &str, times: usize) -> String {
    format!("SELECT {}{inner}{}", open.repeat(times), close.repeat(times))
}

fn list(count: usize, item: impl Fn(usize) -> String) -> String {
    (0..count).map(item).collect::<Vec<_>>().join(", ")
}

fn doubling(times: usize, of: &str) -> String {
    let query = |i: usize| of.replace("BEFORE", &format!("a{i}"));
    let steps = list(times, |i| format!("a{} AS ({})", i + 1, query(i)));
    format!("WITH a0 AS (SELECT 1 AS x), {steps} SELECT count(*) FROM a{times}")
}

/// `SELECT c1 + c1 AS c2 FROM (SELECT c0 + c0 AS c1 FROM …)`
fn sums_of_sums(times: usize, sum: &str, rest: &str) -> String {
    let first = "(SELECT n AS c0 FROM range(3) AS t (n)) AS s0".to_owned();
    let from = (1..=times).fold(first, |from, i| {
        let sum = sum.replace("COLUMN", &format!("c{}", i - 1));
        format!("(SELECT {sum} AS c{i} FROM {from}) AS s{i}")
    });
    format!("SELECT count(*) FROM {from} {}", rest.replace("COLUMN", &format!("c{times}")))
}

#[test]
fn texts_are_refused_before_they_are_parsed() {
    let server = server();
    let many = 100_000;
    check_refused(
        &server,
        &[
            (nested("position(", "'a'", ", 'a')", 60), "too many ways"),
            (nested("CAST(", "1 1", " AS int)", 60), "too many ways"),
            (nested("substring(", "1 1", " FROM 1)", 60), "too many ways"),
            (
                format!("SELECT '{{}}'::regclass, {}", &nested("position(", "'a'", ", 'a')", 60)[7..]),
                "too many ways",
            ),
            (format!("EXPLAIN {}", nested("position(", "'a'", ", 'a')", 60)), "too many ways"),
            (format!("CREATE CUBE c AS {}", nested("position(", "'a'", ", 'a')", 60)), "too many ways"),
            (format!("COPY ({}) TO STDOUT", nested("position(", "'a'", ", 'a')", 60)), "too many ways"),
            (nested("* FROM ((SELECT ", "1", ") a JOIN t ON true)", 30), "double brackets"),
            (format!("SELECT make_array(1){}", "[1]".repeat(many)), "operators"),
            (format!("SELECT NULL::int{}", "[]".repeat(many)), "operators"),
            (format!("SELECT {}'1 day'", "INTERVAL ".repeat(many)), "operators"),
            (format!("SELECT 1{}", " IS DISTINCT FROM 1".repeat(many / 2)), "operators"),
            (nested("CASE WHEN true THEN ", "1", " END", 5000), "nests CASE"),
            (nested(&format!("({}", "1 + ".repeat(200)), "1", ")", 60), "operators and brackets deep"),
        ],
    );
    check_ends(
        &server,
        &[
            nested("position(", "'a'", ", 'a')", 8),
            nested("replace(", "'a'", ", 'a', 'b')", 60),
            nested("abs(", "1 1", ")", 60),
            nested("CASE WHEN true THEN 1 ELSE ", "1", " END", 100),
            format!("SELECT {}1{}", "/*".repeat(many), "*/".repeat(many)),
            format!("SELECT {}1", " /**/".repeat(many)),
            format!("SELECT {}", "$a$ ".repeat(many)),
            nested("array[", "1", "]", 60),
        ],
    );
}

#[test]
fn plans_are_refused_before_they_are_made() {
    let server = server();
    let nested_exists = |n: usize| {
        let open = "EXISTS (SELECT 1 FROM range(3) AS t (n) WHERE ".repeat(n);
        format!("SELECT 1 WHERE {open}true{}", ")".repeat(n))
    };
    let nested_rows = |compared: &str, n: usize| {
        let open = format!("n {compared} (SELECT n FROM range(3) AS t (n) WHERE ").repeat(n);
        format!("SELECT n FROM range(3) AS t (n) WHERE {open}n > 1{}", ") IS NOT FALSE".repeat(n))
    };
    check_refused(
        &server,
        &[
            (
                doubling(30, "SELECT * FROM BEFORE UNION ALL SELECT * FROM BEFORE"),
                "SELECTs, tables and joins",
            ),
            (doubling(30, "SELECT p.x FROM BEFORE p, BEFORE q"), "SELECTs, tables and joins"),
            (
                doubling(30, "SELECT (SELECT max(x) FROM BEFORE) + (SELECT 1 FROM BEFORE) AS x"),
                "SELECTs, tables",
            ),
            (sums_of_sums(30, "COLUMN + COLUMN", "WHERE COLUMN > 0"), "expressions"),
            (sums_of_sums(30, "'x' || COLUMN || COLUMN", ""), "expressions"),
            (
                sums_of_sums(30, "CASE WHEN COLUMN > 1 THEN COLUMN ELSE 0 END", "GROUP BY COLUMN"),
                "expressions",
            ),
            (
                format!("SELECT count(*) FROM t GROUP BY CUBE ({})", list(15, |i| format!("c{i}"))),
                "grouping sets",
            ),
            (
                format!("SELECT count(*) FROM t GROUP BY {}", list(20, |i| format!("CUBE (a{i}, b{i})"))),
                "grouping sets",
            ),
            (nested_exists(40), "nested deeper than 16"),
            (format!("SELECT coalesce({})", list(100_000, |_| "NULL".to_owned())), "100000 arguments"),
            (format!("SELECT {}", list(100_000, |_| "1".to_owned())), "100000 expressions"),
            (
                format!("SELECT 1 FROM {}", list(20_000, |i| format!("range(1) AS t{i} (n)"))),
                "SELECTs, tables and joins",
            ),
        ],
    );
    check_ends(
        &server,
        &[
            doubling(6, "SELECT * FROM BEFORE UNION ALL SELECT * FROM BEFORE"),
            sums_of_sums(8, "COLUMN + COLUMN", "WHERE COLUMN > 0"),
            nested_exists(8),
            nested_rows("NOT IN", 15),
            nested_rows("> ALL", 15),
            format!(
                "SELECT count(*) FROM range(9) AS t (n) WHERE n IN ({})",
                list(100_000, |i| i.to_string())
            ),
            vec!["SELECT 1"; 500].join(" UNION ALL "),
            vec!["SELECT 1"; 300].join(" UNION "),
        ],
    );
}

#[test]
fn functions_are_refused_before_they_compute() {
    let server = server();
    let over = |call: &str| format!("SELECT max(length({call})) FROM generate_series(1, 8192) AS t (n)");
    let text = "repeat(n::text, 3000)";
    check_refused(
        &server,
        &[
            (over(&format!("replace({text}, '1', repeat('b', 20000))")), "replace"),
            (over(&format!("regexp_replace({text}, '.', repeat('b', 10000), 'g')")), "regexp_replace"),
            (over(&format!("concat({text}, repeat({text}, 9))")), "repeat"),
            (over("lpad(n::text, 100000000, 'xyz')"), "lpad"),
            (over(&format!("concat_ws({text}, n, n, n, n, n, n, n)")), "concat_ws"),
            (over(&format!("{0} || {0} || {0} || {0} || {0}", text)), "||"),
            (over("array_to_string(array_resize([n], 100000000, n), ',')"), "array_resize"),
            ("SELECT array_length(array_resize([1], 2000000000, 1))".to_owned(), "array_resize"),
            (over("array_to_string(array_repeat(repeat('x', 1000), 100000 + n::int), ',')"), "array_repeat"),
            (
                "SELECT count(*) FROM generate_series(1, 8192) AS t (n) WHERE 'abc' LIKE '%a_' || n::text || '%b'".to_owned(),
                "LIKE",
            ),
            (
                r"SELECT count(*) FROM generate_series(1, 8192) AS t (n) WHERE 'abc' ~ ('\w{20}' || n::text)".to_owned(),
                "different patterns",
            ),
            ("SELECT repeat('x', 1000000), n FROM generate_series(1, 8192) AS t (n)".to_owned(), "constant"),
            (
                "SELECT array_has_all(generate_series(1, 100000 + n), generate_series(5, 100000)) FROM range(10) AS t (n)".to_owned(),
                "array_has_all",
            ),
            ("SELECT levenshtein(repeat('ab', 100000), repeat('ba', 100000))".to_owned(), "levenshtein"),
            (over(r"regexp_match('abc', '\w{20}' || n::text)[1]"), "different patterns"),
            (over("regexp_match(n::text, '((a{100}){100}){100}')[1]"), "states"),
            (
                "SELECT count(*) FROM range(9) AS t (n) WHERE n::text ~ '((a{100}){100}){100}'".to_owned(),
                "states",
            ),
        ],
    );
    check_ends(
        &server,
        &[
            over("replace(n::text, '1', 'one') || upper(n::text) || translate(n::text, '1', 'x')"),
            over("regexp_replace(n::text, '[0-9]', 'x', 'g') || lpad(n::text, 10)"),
            "SELECT max(strpos(repeat('a', 500000), repeat('a', 250000) || 'b')) FROM range(9) AS t (n)"
                .to_owned(),
            "SELECT max(levenshtein(n::text, 'abcdefghij')) FROM generate_series(1, 8192) AS t (n)"
                .to_owned(),
        ],
    );
    assert_eq!(
        server.query(
            "SELECT 'a' || n || 'b', NULL || n::text, concat(n, '-', NULL) FROM range(2) AS t (n) ORDER BY n"
        ),
        [["a0b", "NULL", "0-"], ["a1b", "NULL", "1-"]]
    );
}
