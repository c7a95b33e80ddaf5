//! Kylin's API, with the clients that people use: kylinpy and three versions of the JDBC driver.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::encryption::Keys;
use crate::program::{PATIENCE, eventually, run, try_run};
use crate::python::{jar, require, script};
use crate::server::{Server, send};
use crate::star::{Star, repository, sql};

const LISTEN: (&str, &str) = ("NYALA_SERVER__KYLIN_LISTEN", "127.0.0.1:0");

#[test]
fn kylinpy() {
    let star = Star::generate("0.01");
    let server = Server::start(&star.built());
    check(&server, server.http, &mut script("kylin_kylinpy.py"));
    server.check_alive("kylinpy");
}

#[test]
fn jdbc() {
    let star = Star::generate("0.01");
    let (server, classes) = (Server::start(&star.built()), compiled());
    for version in VERSIONS {
        check(&server, server.http, &mut driver(classes.path(), version));
    }
    server.check_alive("the JDBC drivers");
}

/// The port of Kylin's API alone has passwords and encryption like that of HTTP.
#[test]
fn a_port_of_its_own_with_passwords_and_encryption() {
    let (star, keys, classes) = (Star::generate("0.01"), Keys::make(), compiled());
    let data = star.built();
    sql(&data, "CREATE USER root SUPERUSER PASSWORD 'r''oot'");
    let variables = [
        LISTEN,
        ("NYALA_SERVER__AUTHENTICATION", "password"),
        ("NYALA_SERVER__TLS__CERTIFICATE", keys.certificate.to_str().unwrap()),
        ("NYALA_SERVER__TLS__KEY", keys.key.to_str().unwrap()),
    ];
    let server = Server::start_encrypted(&data, &variables);
    let login = [("KYLIN_SSL", "true"), ("KYLIN_USER", "root"), ("KYLIN_PASSWORD", "r'oot")];
    let address = server.kylin.unwrap();
    check(&server, address, script("kylin_kylinpy.py").envs(login));
    for version in VERSIONS {
        check(&server, address, driver(classes.path(), version).envs(login));
    }
    let refused =
        try_run(located(script("kylin_kylinpy.py").envs(login).env("KYLIN_PASSWORD", "x"), address));
    assert_eq!(refused.code, Some(1), "{}", refused.stdout);
    // kylinpy shows the reason.
    assert!(
        refused.stdout.contains("UnauthorizedError: wrong user, password or token"),
        "{}",
        refused.stdout
    );
}

#[test]
fn a_port_of_its_own_has_nothing_else() {
    let server = Server::empty(&[LISTEN]);
    let port = server.kylin.unwrap();
    for (address, path, is_there) in [
        (port, "/kylin/api/projects", true),
        (port, "/healthz", false),
        (port, "/metrics", false),
        (port, "/console/", false),
        (port, "/api/v1/query?sql=SELECT+1", false),
        (port, "/kylin/api/nothing", false),
        (server.http, "/kylin/api/projects", true),
        (server.http, "/healthz", true),
    ] {
        let answer = get(address, path);
        assert_eq!(answer.contains(" 200 OK"), is_there, "{path}: {answer}");
        // Errors have the form that Kylin's clients read.
        assert_eq!(answer.contains("\"exception\""), !is_there, "{path}: {answer}");
    }
    let wrong_method = ask(port, "DELETE", "/kylin/api/projects");
    assert!(wrong_method.contains(" 404 ") && wrong_method.contains("\"exception\""), "{wrong_method}");
    server.check_alive("requests to the port of Kylin's API");
}

/// A page of another site must not use a server of this machine, whatever the port.
#[test]
fn a_port_of_its_own_refuses_pages_of_other_sites() {
    let server = Server::empty(&[LISTEN]);
    let request = "GET /kylin/api/projects HTTP/1.0\r\norigin: https://evil.example\r\n\r\n";
    let answer = String::from_utf8(send(server.kylin.unwrap(), request.as_bytes())).unwrap();
    assert!(answer.contains(" 403 ") && answer.contains("\"exception\""), "{answer}");
}

/// Clients of Kylin's API give a query up by closing their connection.
#[test]
fn a_closed_connection_ends_its_query() {
    let server = Server::empty(&[]);
    let left_alone = "SELECT count(*) FROM generate_series(1, 1000000000000) AS t(n) WHERE n % 7 = 8";
    let running = format!("SELECT count(*) FROM system.queries WHERE query = '{left_alone}'");
    let body = serde_json::json!({ "sql": left_alone }).to_string();
    let head = format!("POST /kylin/api/query HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}", body.len());
    let mut client = TcpStream::connect(server.http).unwrap();
    client.write_all(format!("{head}\r\n\r\n{body}").as_bytes()).unwrap();
    eventually("the query runs", PATIENCE, || server.query(&running) == [["1"]]);
    drop(client);
    eventually("the query has ended", PATIENCE, || server.query(&running) == [["0"]]);
}

/// Names in quotes and capitals are looked up as they are written, but not again and again.
#[test]
fn names_in_capitals_are_planned_once() {
    let server = Server::empty(&[]);
    let ask = |sql: &str| {
        let body = serde_json::json!({ "sql": sql, "project": "public" }).to_string();
        let (status, answer) = call(server.http, "POST", "/query", &body);
        assert_eq!((status, &answer["exceptionMessage"]), (200, &Value::Null), "{sql}");
        answer
    };
    let shown = |most: u32| {
        let answer = ask(&format!("SELECT \"N\" FROM \"SEEN\" WHERE \"N\" < {most}"));
        (answer["columnMetas"][0]["label"].clone(), answer["results"].clone())
    };
    ask("CREATE VIEW seen AS SELECT 1 AS n");
    for most in [5, 6, 7] {
        assert_eq!(shown(most), ("N".into(), serde_json::json!([["1"]])));
    }
    // Only the first of the statements was tried as it is written.
    let failed = "SELECT count(*) FROM system.query_log WHERE status = 'failed' AND query LIKE '%\"SEEN\"%' AND query NOT LIKE '%query_log%'";
    assert_eq!(server.query(failed), [["1"]]);
    // From now on the name exists as it is written.
    ask("CREATE VIEW \"SEEN\" AS SELECT 2 AS \"N\"");
    assert_eq!(shown(5), ("N".into(), serde_json::json!([["2"]])));
    assert_eq!(server.query(failed), [["1"]]);
}

#[test]
fn each_project_has_a_history_of_its_own() {
    let server = Server::empty(&[]);
    let ask = |project: &str, sql: &str| {
        let body = serde_json::json!({ "sql": sql, "project": project }).to_string();
        call(server.http, "POST", "/query", &body).1
    };
    ask("nyala", "CREATE SCHEMA shop");
    for number in 0..12 {
        ask("SHOP", &format!("SELECT {number} AS n"));
    }
    assert_eq!(ask("shop", "SELECT n FROM nothing")["isException"], true);
    ask("public", "SELECT 100 AS n");
    let history = |query: &str| {
        let (status, answer) = call(server.http, "GET", &format!("/query/query_histories?{query}"), "");
        assert_eq!(status, 200, "{query}: {answer}");
        let shown = answer["query_histories"].as_array().unwrap();
        let texts: Vec<String> =
            shown.iter().map(|query| query["sql_text"].as_str().unwrap().to_owned()).collect();
        (answer["size"].as_u64().unwrap(), texts)
    };
    let (size, first) = history("project=shop");
    assert_eq!((size, first.len()), (13, 10));
    assert_eq!((first[0].as_str(), first[1].as_str()), ("SELECT n FROM nothing", "SELECT 11 AS n"));
    assert_eq!(history("project=SHOP&page_offset=1").1, ["SELECT 2 AS n", "SELECT 1 AS n", "SELECT 0 AS n"]);
    let two = (13, vec!["SELECT 10 AS n".to_owned(), "SELECT 9 AS n".to_owned()]);
    assert_eq!(history("project=shop&page_offset=1&page_size=2"), two);
    assert_eq!(history("project=shop&offset=1&limit=2"), two);
    let (_, everything) = history("project=nyala&page_size=1000");
    for text in ["SELECT 100 AS n", "SELECT 0 AS n"] {
        assert!(everything.iter().any(|known| known == text), "{text}: {everything:?}");
    }
    assert_eq!(history("project=nowhere"), (0, vec![]));
    let others = history("project=public&page_size=1000").1;
    assert!(!others.iter().any(|text| text == "SELECT 0 AS n"), "{others:?}");
}

/// Scripts leave values empty, write keys twice, and send old keys beside new ones.
#[test]
fn urls_are_read_as_scripts_write_them() {
    let server = Server::empty(&[]);
    for path in [
        "/cubes?cubeName=&modelName=&projectName=nyala&project=&limit=15&offset=",
        "/jobs?statuses=RUNNING,ERROR&statuses=FINISHED&time_filter=4",
        "/jobs?status=2&status=8&limit=15&limit=15&timeFilter=1&cubeName=",
    ] {
        assert_eq!(call(server.http, "GET", path, ""), (200, serde_json::json!([])), "{path}");
    }
    for (method, path, words) in [
        ("GET", "/cubes?limit=many", "`limit` is `many`"),
        ("GET", "/jobs?statuses=done", "`done` is no state of jobs"),
        ("GET", "/jobs?time_filter=7", "time filter 7 is none of"),
        ("GET", "/query/query_histories?page_size=-1", "`page_size` or `pageSize` or `limit` is `-1`"),
        ("PUT", "/jobs/status?action=DISCARD", "name the jobs to end"),
        ("GET", "/cubes/%ff", ""),
    ] {
        let (status, answer) = call(server.http, method, path, "");
        assert!(status >= 400, "{path}: {answer}");
        assert!(answer["exception"].as_str().unwrap().contains(words), "{path}: {answer}");
    }
}

#[test]
fn there_is_no_port_of_its_own_without_an_address() {
    let server = Server::empty(&[]);
    assert_eq!(server.kylin, None);
    assert!(!server.process.stdout().contains("jdbc:kylin"), "{}", server.process.stdout());
}

/// What one dialect switches or deletes is seen by the other dialect and by SQL.
#[test]
fn cubes_are_switched_and_segments_deleted() {
    let star = Star::generate("0.01");
    let data = star.path("data");
    star.define(&data);
    sql(
        &data,
        "CREATE CUBE years PARTITION BY RANGE (lo_orderdate) EVERY INTERVAL '1 year' AS \
         SELECT lo_discount, sum(lo_tax) FROM lineorder GROUP BY lo_discount; BUILD CUBE years; \
         CREATE CUBE old_years AS SELECT lo_discount, count(*) FROM lineorder GROUP BY lo_discount",
    );
    let server = Server::start(&data);
    let done = |method: &str, path: &str, body: &str| {
        let (status, answer) = call(server.http, method, path, body);
        assert_eq!(status, 200, "{method} {path}: {answer}");
        answer
    };
    // kylinpy takes the first cube for the one that it has named.
    let listed = done("GET", "/cubes?cubeName=years", "");
    let names: Vec<&str> =
        listed.as_array().unwrap().iter().map(|cube| cube["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["years", "old_years"]);
    // The count is of cells of the cuboid, also with a cached plan, or of rows of the table.
    let scanned = |pushed_down: bool| {
        let sql = "SELECT lo_discount, sum(lo_tax) FROM lineorder GROUP BY lo_discount";
        let body = serde_json::json!({ "sql": sql, "forcedToPushDown": pushed_down }).to_string();
        done("POST", "/query", &body)["totalScanCount"].to_string()
    };
    for _ in 0..4 {
        let cells = server.query("SELECT rows FROM system.cuboids WHERE cube = 'years'");
        assert_eq!(cells, [[scanned(false)]]);
    }
    assert_eq!(server.query("SELECT count(*) FROM lineorder"), [[scanned(true)]]);
    let is_hit = || {
        let report = server.explain("SELECT lo_discount, sum(lo_tax) FROM lineorder GROUP BY lo_discount");
        report.starts_with("answered from cube `public.years`")
    };
    let answers = || server.query("SELECT answers FROM system.cubes WHERE cube = 'years'");
    assert!(is_hit());
    assert_eq!(done("PUT", "/cubes/years/disable", "")["status"], "DISABLED");
    assert_eq!((is_hit(), answers()), (false, vec![vec!["false".to_owned()]]));
    done("PUT", "/models/years/status", r#"{"status": "online"}"#);
    assert_eq!((is_hit(), answers()), (true, vec![vec!["true".to_owned()]]));

    let segments = || done("GET", "/cubes/years", "")["segments"].as_array().unwrap().clone();
    assert_eq!(segments().len(), 7);
    let year = segments().into_iter().find(|segment| segment["date_range_start"] == 725_846_400_000_i64);
    let year = year.unwrap();
    assert_eq!(year["name"], "19930101000000_19940101000000");
    let left = done("DELETE", "/cubes/years/segs/19930101000000_19940101000000", "");
    assert_eq!(left["segments"].as_array().unwrap().len(), 6);
    let gone =
        server.query("SELECT state FROM system.segments WHERE cube = 'years' AND range_from = '19930101'");
    assert_eq!(gone, [["missing"]]);
    let id = year["id"].as_str().unwrap();
    for (path, words) in [
        (format!("/models/years/segments?ids={id}"), "has no segment"),
        ("/models/years/segments?project=nyala".to_owned(), "name the segments in `ids` or `names`"),
        ("/models/years/segments?project=other&purge=true".to_owned(), "does not exist"),
    ] {
        let (status, answer) = call(server.http, "DELETE", &path, "");
        assert!(status == 500 && answer["exception"].as_str().unwrap().contains(words), "{path}: {answer}");
    }
    // The name of an unknown segment must not stand for all segments.
    let refresh = format!(r#"{{"type": "REFRESH", "ids": ["{id}"]}}"#);
    let (status, answer) = call(server.http, "PUT", "/models/years/segments", &refresh);
    assert!(status == 500 && answer["exception"].as_str().unwrap().contains("has no segment"), "{answer}");
    assert_eq!(segments().len(), 6);
    assert_eq!(done("PUT", "/cubes/years/purge", "")["segments"], serde_json::json!([]));
    assert_eq!(server.query("SELECT state FROM system.cubes WHERE cube = 'years'"), [["not built"]]);
}

const VERSIONS: [&str; 3] = ["3.1.3", "4.0.3", "5.0.0-beta"];

/// The folder of the compiled program that uses a driver.
fn compiled() -> tempfile::TempDir {
    require("javac", "a JDK, 17 or later (Debian: default-jdk-headless)");
    let (classes, source) = (tempfile::tempdir().unwrap(), repository("tests/compat/KylinJdbc.java"));
    run(Command::new("javac").arg("-d").arg(classes.path()).arg(source));
    classes
}

fn driver(classes: &Path, version: &str) -> Command {
    println!("Kylin's driver {version}");
    // The second archive has classes that the driver needs and today's Java lacks.
    let jars = [jar("org.apache.kylin:kylin-jdbc", version), jar("javax.xml.bind:jaxb-api", "2.3.1")];
    let class_path = std::env::join_paths(jars.iter().map(PathBuf::as_path).chain([classes])).unwrap();
    let mut command = Command::new("java");
    command.arg("-cp").arg(class_path).arg("KylinJdbc");
    command
}

fn located(client: &mut Command, address: SocketAddr) -> &mut Command {
    client.env("HTTPHOST", address.ip().to_string()).env("HTTPPORT", address.port().to_string())
}

/// Runs a client, on the tables of the Star Schema Benchmark.
fn check(server: &Server, address: SocketAddr, client: &mut Command) {
    let finished = try_run(located(client, address));
    println!("{}", finished.stdout);
    let log = server.process.stderr();
    assert_eq!(finished.code, Some(0), "{}\n{}\nserver: {log}", finished.stdout, finished.stderr);
    assert!(!log.contains(" ERROR "), "the server reports faults of its own:\n{log}");
}

fn get(address: SocketAddr, path: &str) -> String {
    ask(address, "GET", path)
}

/// Calls the API; gives the status and the answer.
fn call(address: SocketAddr, method: &str, path: &str, body: &str) -> (u16, Value) {
    let length = body.len();
    let head = format!("{method} /kylin/api{path} HTTP/1.0\r\ncontent-length: {length}\r\n\r\n");
    let answer = String::from_utf8(send(address, (head + body).as_bytes())).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), serde_json::from_str(body).unwrap())
}

fn ask(address: SocketAddr, method: &str, path: &str) -> String {
    let request = format!("{method} {path} HTTP/1.0\r\n\r\n");
    String::from_utf8(send(address, request.as_bytes())).unwrap()
}
