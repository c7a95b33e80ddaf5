//! TPC-H with cubes for its reports: equal answers, and each query served as the benchmark's page says.

use std::collections::BTreeSet;
use std::path::Path;

use crate::harness::{assert_same, sorted};
use crate::program::{nyala, run};
use crate::server::Server;
use crate::star::{repository, sql};

#[test]
fn cubes_serve_the_queries_that_the_page_names() {
    let folder = tempfile::tempdir().unwrap();
    let server = served(folder.path(), "0.01");
    let page = page();
    assert_eq!(page.len(), 22, "queries on the page");
    let mut rows = 0;
    for line in &page {
        let report = server.explain(&line.sql);
        let prefix = "answered from cube `public.";
        let cubes: BTreeSet<String> = report
            .lines()
            .filter_map(|line| line.strip_prefix(prefix)?.split('`').next().map(str::to_owned))
            .collect();
        assert_eq!(cubes, line.cubes, "{}\n{report}", line.name);
        // A query may have several aggregations, and some of them may be served.
        let whole = !cubes.is_empty() && !report.contains("answered from the tables");
        assert_eq!(whole, line.reasons.is_empty(), "{}\n{report}", line.name);
        for reason in &line.reasons {
            assert!(report.contains(reason), "{}: {reason}\n{report}", line.name);
        }
        let with = sorted(server.query(&line.sql));
        assert_same(&line.name, &with, &sorted(server.query_tables(&line.sql)));
        rows += with.len();
    }
    assert!(rows > 500, "only {rows} rows in all answers");
}

/// Serves the tables with every cube built.
fn served(folder: &Path, scale: &str) -> Server {
    let (data_dir, files) = (folder.join("data"), folder.join("tpch"));
    run(nyala(&["gen", "tpch", "--scale", scale, "--out"]).arg(&files));
    sql(&data_dir, &benchmark("tables.sql").replace("${DATA}", &files.to_string_lossy()));
    let cubes = benchmark("cubes.sql");
    sql(&data_dir, &cubes);
    for name in cubes.lines().filter_map(|line| line.strip_prefix("CREATE CUBE ")) {
        let name = name.split_whitespace().next().unwrap();
        sql(&data_dir, &format!("BUILD CUBE {name}"));
    }
    Server::start(&data_dir)
}

/// A query's line on the page.
struct Line {
    name: String,
    sql: String,
    /// The cubes that answer aggregations of the query.
    cubes: BTreeSet<String>,
    /// Why some aggregations are left to the tables, in the words of EXPLAIN.
    reasons: Vec<String>,
}

fn page() -> Vec<Line> {
    let page = benchmark("README.md");
    let lines = page.lines().filter_map(|line| line.strip_prefix("| [Q")?.strip_suffix('|'));
    lines
        .map(|line| {
            let cells: Vec<&str> = line.split(" | ").collect();
            let [query, cubes, reasons] = cells[..] else { panic!("three cells: {line}") };
            let (number, file) = query.trim_end_matches(')').split_once("](").unwrap();
            let text = benchmark(file);
            let sql = text.trim().trim_end_matches(';').to_owned();
            let reasons = in_backticks(reasons);
            Line {
                name: format!("Q{number}"),
                sql,
                cubes: in_backticks(cubes).into_iter().collect(),
                reasons,
            }
        })
        .collect()
}

/// The texts in single or double backticks, the latter around texts that have backticks themselves.
fn in_backticks(cell: &str) -> Vec<String> {
    let mark = if cell.contains("``") { "``" } else { "`" };
    cell.split(mark).skip(1).step_by(2).map(|text| text.trim().to_owned()).collect()
}

fn benchmark(name: &str) -> String {
    std::fs::read_to_string(repository("benchmarks/tpch").join(name)).unwrap()
}
