//! Builds in the background: the answer is the job's number, and the job goes on without its client.

use serde_json::Value;

use crate::loads::psql;
use crate::program::{PATIENCE, eventually};
use crate::server::Server;

/// A cube with so many cells that its build takes a while.
const PREPARE: [&str; 2] = [
    "CREATE TABLE big AS SELECT v AS a, v % 1000003 AS b, v % 7 AS c FROM generate_series(1, 200000) AS g(v)",
    "CREATE CUBE cells WITH (auto_refresh = off) AS SELECT a, b, c, count(*) FROM big GROUP BY CUBE (a, b, c)",
];

fn server() -> Server {
    let server = Server::empty(&[]);
    PREPARE.iter().for_each(|sql| drop(server.query(sql)));
    server
}

fn job(server: &Server, number: &str) -> Value {
    let response = server.get(&format!("/api/v1/jobs/{number}"));
    assert_eq!(response.status, 200, "{}", response.body);
    serde_json::from_str(&response.body).unwrap()
}

/// Begins a job in the background; gives its number.
fn begin(server: &Server, sql: &str) -> String {
    let rows = server.query(sql);
    assert_eq!((rows.len(), rows[0].len()), (1, 1), "{sql}: {rows:?}");
    rows[0][0].clone()
}

fn ends(server: &Server, number: &str) -> Value {
    eventually("its end", PATIENCE, || job(server, number)["state"] != "running");
    job(server, number)
}

#[test]
fn a_build_goes_on_without_its_client() {
    let server = server();
    let built = begin(&server, "BUILD CUBE cells WITH (wait = off)");
    let ended = ends(&server, &built);
    assert_eq!((&ended["state"], &ended["kind"]), (&"done".into(), &"build".into()), "{ended}");
    assert_eq!(server.query("SELECT state FROM system.cubes"), [["ready"]]);
    assert_eq!(begin(&server, "BUILD CUBE cells WITH (wait = off)"), "NULL", "there is nothing to do");

    let refreshed = begin(&server, "REFRESH CUBE cells WITH (wait = off)");
    assert!(refreshed.parse::<u64>().unwrap() > built.parse::<u64>().unwrap());
    assert_eq!(ends(&server, &refreshed)["kind"], "refresh");

    let told = psql(&server, "REFRESH CUBE cells WITH (wait = off)", "");
    assert_eq!(told.code, Some(0), "{told:?}");
    let ended = ends(&server, told.stdout.trim());
    assert_eq!((&ended["state"], &ended["kind"]), (&"done".into(), &"refresh".into()), "{ended}");
}

#[test]
fn a_job_that_nobody_waits_for_is_cancelled() {
    let server = server();
    // Once in a while the job has ended before it is cancelled: then another one is begun.
    eventually("a cancelled job", PATIENCE, || {
        let number = begin(&server, "REFRESH CUBE cells WITH (wait = off)");
        let asked = server.delete(&format!("/api/v1/jobs/{number}"));
        assert!(matches!(asked.status, 202 | 409), "{}", asked.body);
        ends(&server, &number)["state"] == "cancelled"
    });
    assert_eq!(ends(&server, &begin(&server, "REFRESH CUBE cells WITH (wait = off)"))["state"], "done");
}

#[test]
fn what_keeps_a_build_from_beginning_is_told_at_once() {
    let server = server();
    let check = |sql: &str, status: u16, code: &str| {
        let refused = server.try_query(sql);
        assert!(refused.status == status && refused.body.contains(code), "{sql}: {}", refused.body);
    };
    check("BUILD CUBE missing WITH (wait = off)", 400, "undefined_table");
    check("BUILD CUBE cells WITH (wait = off) FROM 1 TO 2", 400, "invalid_definition");
    check("BUILD CUBE cells WITH (hurry = on)", 400, "undefined_object");
    let link = server.get("/api/v1/query?sql=BUILD%20CUBE%20cells%20WITH%20(wait%20%3D%20off)");
    assert_eq!(link.status, 405, "{}", link.body);
    assert_eq!(server.query("SHOW JOBS"), Vec::<Vec<String>>::new());
}

#[test]
fn a_job_ends_with_its_server_and_is_begun_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::start(folder.path());
    PREPARE.iter().for_each(|sql| drop(server.query(sql)));
    let number = begin(&server, "BUILD CUBE cells WITH (wait = off)");
    server.process.signal("TERM");
    assert_eq!(server.finish(PATIENCE).code, Some(0));
    let server = Server::start(folder.path());
    let left = job(&server, &number);
    assert!(["cancelled", "done"].contains(&left["state"].as_str().unwrap()), "{left}");
    ends(&server, &begin(&server, "REFRESH CUBE cells WITH (wait = off)"));
    assert_eq!(server.query("SELECT state FROM system.cubes"), [["ready"]]);
}
