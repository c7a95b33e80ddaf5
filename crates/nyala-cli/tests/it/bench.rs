//! `nyala bench` against a server: every door and mode, its reports and its errors.

use std::path::Path;

use serde_json::Value;

use crate::program::{Finished, nyala, try_run};
use crate::server::Server;
use crate::star::Star;

#[test]
fn the_star_queries_run_through_every_door_and_mode_without_errors() {
    let star = Star::generate("0.01");
    let server = Server::start(&star.built());
    let http = format!("http://{}", server.http);
    for (url, mode) in [
        (server.url(), "simple"),
        (server.url(), "extended"),
        (server.url(), "prepared"),
        (http.clone(), "simple"),
        (http, "extended"),
    ] {
        let report = report(&star.path("report.json"), &["ssb", "--url", &url, "--mode", mode], &server);
        let runs = report["runs"].as_array().unwrap();
        assert_eq!(runs.len(), 2, "{url} {mode}");
        for run in runs {
            assert_eq!(run["total"]["errors"], 0, "{url} {mode}: {run}");
            assert_eq!(run["total"]["unfinished"], 0, "{url} {mode}: {run}");
            assert!(run["total"]["handled"].as_u64().unwrap() > 0, "{url} {mode}: {run}");
            assert!(run["ceiling"]["per_second"].as_f64().unwrap() > 0.0, "{url} {mode}: {run}");
            assert!(run["cost"]["server_cpu_ms_per_query"].is_f64(), "{url} {mode}: {run}");
            assert!(run["cost"]["server_memory_bytes"].as_u64().unwrap() > 1_000_000, "{url} {mode}: {run}");
            assert_eq!(run["queries"].as_array().unwrap().len(), 13, "{url} {mode}");
        }
        check_sums(&report);
    }
    // Cubes answer the measured queries.
    for (_, sql) in printed(60) {
        let explained = server.explain(&sql);
        assert!(explained.contains("answered from cube"), "{sql}\n{explained}");
    }
}

/// The numbers of the queries add up to those of the run.
fn check_sums(report: &Value) {
    for run in report["runs"].as_array().unwrap() {
        let of = |numbers: &Value| numbers["handled"].as_u64().unwrap();
        let sum: u64 = run["queries"].as_array().unwrap().iter().map(of).sum();
        assert_eq!(of(&run["total"]), sum, "{run}");
    }
}

#[test]
fn the_page_holds_everything_and_loads_nothing() {
    let server = Server::empty(&[]);
    let folder = tempfile::tempdir().unwrap();
    let (file, page) = (folder.path().join("q.sql"), folder.path().join("report.html"));
    std::fs::write(&file, "-- name: <one>\nSELECT {{n: 1..9}} AS n, 'x' AS t;").unwrap();
    let finished = bench(&[file.to_str().unwrap(), "--url", &server.url(), "--html", page.to_str().unwrap()]);
    assert_eq!(finished.code, Some(0), "{finished:?}");
    for words in ["threads", "handled queries", "p99.9", "SELECT 1 per second"] {
        assert!(finished.stdout.contains(words), "{words}: {}", finished.stdout);
    }
    let page = std::fs::read_to_string(page).unwrap();
    assert_eq!(page.matches("<svg").count(), 5);
    assert!(page.contains("&lt;one&gt;"), "names are escaped");
    for outside in ["<script", "src=", "href=", "url(", "@import"] {
        assert!(!page.contains(outside), "`{outside}` in the page");
    }
}

#[test]
fn arrivals_at_a_rate_are_all_accounted_for() {
    let server = Server::empty(&[]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("q.sql");
    std::fs::write(&file, "SELECT 1").unwrap();
    let report = report(
        &folder.path().join("report.json"),
        &[file.to_str().unwrap(), "--url", &server.url(), "--rate", "200", "--drain", "60s"],
        &server,
    );
    for run in report["runs"].as_array().unwrap() {
        assert_eq!(run["total"]["handled"], 200, "one second at 200 a second: {run}");
    }
}

#[test]
fn what_runs_beside_is_reported_apart() {
    let server = Server::empty(&[]);
    let folder = tempfile::tempdir().unwrap();
    let (file, other) = (folder.path().join("q.sql"), folder.path().join("other.sql"));
    std::fs::write(&file, "SELECT {{n: 1..9}} AS n").unwrap();
    std::fs::write(&other, "-- name: long\nSELECT count(*) FROM generate_series(1, 100000)").unwrap();
    let (file, other, url) = (file.to_str().unwrap(), other.to_str().unwrap(), server.url());
    let arguments = [file, "--url", &url, "--beside", other, "--beside-clients", "2"];
    let beside = report(&folder.path().join("report.json"), &arguments, &server);
    let runs = beside["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 4, "each number of clients alone and with others: {beside}");
    for pair in runs.chunks(2) {
        assert_eq!(pair[0]["clients"], pair[1]["clients"]);
        assert!(
            pair[0]["beside"].is_null() && pair[1]["beside"]["p95_ratio"].as_f64().unwrap() > 0.0,
            "{pair:?}"
        );
        assert!(pair[1]["beside"]["handled"].as_u64().unwrap() > 0, "{pair:?}");
        assert_eq!((&pair[1]["beside"]["clients"], &pair[1]["beside"]["errors"]), (&2.into(), &0.into()));
    }
    // The report has one run of each kind, with the numbers of all rounds.
    let rounds = [&arguments[..], &["--rounds", "3", "--duration", "200ms"]].concat();
    let rounds = report(&folder.path().join("rounds.json"), &rounds, &server);
    let runs = rounds["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 4, "{rounds}");
    for run in runs {
        let number = |value: &Value| value.as_f64().unwrap();
        let each: Vec<f64> = run["rounds_per_second"].as_array().unwrap().iter().map(number).collect();
        let (slowest, fastest) =
            (each.iter().copied().fold(f64::MAX, f64::min), each.iter().copied().fold(0.0, f64::max));
        assert_eq!(each.len(), 3, "{run}");
        assert!((slowest - 1e-6..=fastest + 1e-6).contains(&number(&run["per_second"])), "{run}");
        assert!(number(&run["elapsed_seconds"]) >= 0.5, "{run}");
        let sum: f64 = run["queries"].as_array().unwrap().iter().map(|query| number(&query["handled"])).sum();
        assert_eq!(number(&run["total"]["handled"]), sum, "{run}");
    }
    // Errors of the queries of `--beside` fail the run, too.
    std::fs::write(other, "SELECT nope").unwrap();
    let finished = bench(&arguments);
    assert_eq!(finished.code, Some(1), "{finished:?}");
    assert!(finished.stderr.contains("queries failed"), "{finished:?}");
}

#[test]
fn errors_of_the_server_are_counted_and_end_in_failure() {
    // There are more clients than connections: clients without a connection try again and again.
    let server = Server::empty(&[("NYALA_SERVER__MAX_CONNECTIONS", "4")]);
    let folder = tempfile::tempdir().unwrap();
    let (file, json) = (folder.path().join("q.sql"), folder.path().join("report.json"));
    std::fs::write(&file, "SELECT 1").unwrap();
    let arguments = [file.to_str().unwrap(), "--url", &server.url(), "--json", json.to_str().unwrap()];
    let finished = bench(&[&arguments[..], &["--clients", "12", "--ceiling", "0s"]].concat());
    assert_eq!(finished.code, Some(1), "{finished:?}");
    assert!(finished.stderr.contains("queries failed"), "{finished:?}");
    let report: Value = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    let run = &report["runs"][0];
    assert!(run["total"]["errors"].as_u64().unwrap() > 0, "{run}");
    assert!(run["total"]["handled"].as_u64().unwrap() > 0, "{run}");
    assert!(!run["error_messages"].as_object().unwrap().is_empty(), "{run}");
}

#[test]
fn what_cannot_run_is_told_before_anything_is_measured() {
    let server = Server::empty(&[]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("q.sql");
    let check = |text: &str, more: &[&str], words: &str| {
        std::fs::write(&file, text).unwrap();
        let url = server.url();
        let arguments = [&[file.to_str().unwrap(), "--url", &url], more].concat();
        let finished = bench(&arguments);
        assert_eq!(finished.code, Some(1), "{text}: {finished:?}");
        assert!(finished.stderr.contains(words), "{text}: {}", finished.stderr);
        assert!(!finished.stderr.contains("clients: "), "{text}: {}", finished.stderr);
    };
    check("SELECT nope", &[], "query `q` fails");
    check("-- columns: 2\nSELECT 1", &[], "1 columns instead of 2");
    check("SELECT {{nope}}", &[], "`nope` is not declared");
    check("-- nothing", &[], "no queries");
    check("SELECT 1", &["--server-pid", "4000000000"], "is not found");
    check("SELECT 1", &["--rate", "0"], "`--rate` must be");
    check("SELECT 1", &["--json", "/no/such/folder/r.json"], "cannot write `/no/such/folder/r.json`");
    check("SELECT 1", &["--beside", "ssb", "--beside-clients", "0"], "`--beside-clients` must be");
}

/// Statements that the seed draws, by name.
fn printed(count: usize) -> Vec<(String, String)> {
    let finished = try_run(&mut nyala(&["bench", "ssb", "--print", &count.to_string()]));
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let lines: Vec<_> = finished.stdout.lines().map(|line| line.split_once('\t').unwrap()).collect();
    assert_eq!(lines.len(), count);
    lines.into_iter().map(|(name, sql)| (name.to_owned(), sql.to_owned())).collect()
}

fn report(json: &Path, arguments: &[&str], server: &Server) -> Value {
    let pid = server.process.id().to_string();
    let finished = bench(&[arguments, &["--json", json.to_str().unwrap(), "--server-pid", &pid]].concat());
    assert_eq!(finished.code, Some(0), "{arguments:?}: {finished:?}");
    serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap()
}

fn bench(arguments: &[&str]) -> Finished {
    let mut command = nyala(&["bench", "--warmup", "0s"]);
    if !arguments.contains(&"--duration") {
        command.args(["--duration", "1s"]);
    }
    if !arguments.contains(&"--clients") {
        command.args(["--clients", "1,4"]);
    }
    if !arguments.contains(&"--ceiling") {
        command.args(["--ceiling", "200ms"]);
    }
    try_run(command.args(arguments))
}
