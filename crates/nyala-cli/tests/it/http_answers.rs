//! Names that HTTP clients give themselves, and headers that tell them of changed rows.

use serde_json::{Value, json};

use crate::server::{Response, Server};

fn header(response: &Response, name: &str) -> Option<String> {
    let mut lines = response.head.lines().filter_map(|line| line.split_once(':'));
    lines.find_map(|(found, value)| found.eq_ignore_ascii_case(name).then(|| value.trim().to_owned()))
}

#[test]
fn every_format_tells_how_many_rows_a_statement_changed() {
    let server = Server::empty(&[]);
    server.query("CREATE TABLE stock (id BIGINT PRIMARY KEY, n BIGINT)");
    let check = |accept: &str, sql: &str, expected: Option<&str>| {
        let response = server.post_with(&json!({ "sql": sql }).to_string(), &format!("accept: {accept}\r\n"));
        assert_eq!(response.status, 200, "{accept} {sql}: {}", response.body);
        assert_eq!(header(&response, "x-nyala-rows-affected").as_deref(), expected, "{accept} {sql}");
    };
    for accept in [
        "application/json",
        "application/x-ndjson",
        "text/csv",
        "application/vnd.apache.arrow.stream",
        "application/vnd.apache.parquet",
    ] {
        check(accept, "INSERT INTO stock SELECT v, v FROM generate_series(1, 7) AS s(v)", Some("7"));
        check(accept, "UPDATE stock SET n = 0 WHERE id > 4", Some("3"));
        check(accept, "DELETE FROM stock WHERE id > 100", Some("0"));
        check(accept, "DELETE FROM stock", Some("7"));
        // These statements change no rows of tables, or give rows.
        check(accept, "CREATE SCHEMA IF NOT EXISTS s", None);
        check(accept, "SELECT count(*) FROM stock", None);
    }
}

#[test]
fn a_client_names_its_application() {
    let server = Server::empty(&[]);
    let own = "SELECT application FROM system.queries WHERE query LIKE '%system.queries%'";
    let told = |response: &Response| -> Value {
        assert_eq!(response.status, 200, "{}", response.body);
        serde_json::from_str::<Value>(&response.body).unwrap()["rows"][0][0].clone()
    };
    let ask = |headers: &str, more: &Value| {
        let mut body = json!({ "sql": own });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        told(&server.post_with(&body.to_string(), headers))
    };
    let (agent, named) = ("user-agent: curl/9\r\n", "x-nyala-application: Monthly report\r\n");
    assert_eq!(ask("", &json!({})), "http");
    assert_eq!(ask(agent, &json!({})), "curl/9");
    assert_eq!(ask(&format!("{agent}{named}"), &json!({})), "Monthly report");
    assert_eq!(ask(&format!("{agent}{named}"), &json!({"application": "Übersicht"})), "Übersicht");
    let sql = own.replace('%', "%25").replace(' ', "%20");
    assert_eq!(told(&server.get(&format!("/api/v1/query?application=Sheet%207&sql={sql}"))), "Sheet 7");
    // Loads take the name from the header, too.
    server.query("CREATE TABLE stock (id BIGINT PRIMARY KEY)");
    let logged = "SELECT DISTINCT application FROM system.query_log WHERE query LIKE 'POST %stock/rows'";
    let load = "POST /api/v1/tables/stock/rows HTTP/1.0\r\ncontent-type: text/csv\r\ncontent-length: 5\r\n";
    crate::server::send(server.http, format!("{load}{named}\r\nid\n1\n").as_bytes());
    assert_eq!(server.query(logged), [["Monthly report"]]);
}
