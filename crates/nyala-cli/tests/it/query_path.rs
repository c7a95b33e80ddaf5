//! A query that is answered from memory never reads files, the catalog or the configuration.

use std::process::Command;
use std::time::Duration;

use tokio_postgres::NoTls;
use tokio_postgres::types::Type;

use crate::program::{PATIENCE, Running, eventually, nyala, try_run};
use crate::server::Server;
use crate::star::Star;

/// System calls by which a process reads or writes files, and none that it uses for sockets.
const FILE_CALLS: &str = "open,openat,openat2,creat,pread64,preadv,preadv2,pwrite64,pwritev,pwritev2,\
                          stat,lstat,newfstatat,statx,access,faccessat,faccessat2,getdents64,fsync,fdatasync";

/// A trace of system calls shows that the process touches no file while dashboards are answered.
#[test]
fn queries_from_memory_touch_no_file() {
    let star = Star::generate("0.01");
    // Files of tables are listed and the history is stored in the background, not by queries.
    let server = Server::start_with(&star.built(), &[("NYALA_CUBES__CHECK_FILES_MS", "3600000")]);
    let load = |duration: &str| {
        let arguments = ["bench", "ssb", "--url", &server.url(), "--clients", "4", "--ceiling", "0s"];
        let mut command = nyala(&arguments);
        command.args(["--warmup", "0s", "--duration", duration]);
        let finished = try_run(&mut command);
        assert_eq!(finished.code, Some(0), "{}\n{}", finished.stdout, finished.stderr);
    };
    // After this load, everything is in memory and has a cached plan.
    load("3s");
    let calls = star.path("calls.txt");
    let id = server.process.id().to_string();
    let mut tracer = Command::new("strace");
    tracer
        .args(["-f", "-qq", "-y", "-e", &format!("trace={FILE_CALLS}"), "-o"])
        .arg(&calls)
        .args(["-p", &id]);
    let mut tracing = Running::start(&mut tracer);
    eventually("strace is attached", PATIENCE, || calls.exists() && is_traced(&id));
    let before = plan_misses(&server);
    load("2s");
    assert_eq!(plan_misses(&server), before, "a query was planned");
    tracing.signal("INT");
    tracing.finish(Duration::from_secs(20));
    let calls = std::fs::read_to_string(&calls).unwrap();
    // The metrics tell how much memory the process has.
    let others = ["catalog.sqlite", "/proc/"];
    let by_queries: Vec<&str> =
        calls.lines().filter(|call| !others.iter().any(|other| call.contains(other))).collect();
    assert!(by_queries.is_empty(), "{by_queries:#?}");
}

fn is_traced(id: &str) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    status.lines().any(|line| line.strip_prefix("TracerPid:").is_some_and(|tracer| tracer.trim() != "0"))
}

fn plan_misses(server: &Server) -> u64 {
    let metrics = server.get("/metrics").body;
    let line = metrics.lines().find_map(|line| line.strip_prefix("nyala_plan_cache_misses_total "));
    line.map_or(0, |count| count.trim().parse().unwrap())
}

/// A driver may declare a year as a number with a fraction. That needs no plan of its own, unless the value has a fraction.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_client_declares_leaves_the_plan_ready() {
    let star = Star::generate("0.01");
    let server = Server::start_with(&star.built(), &[]);
    let (client, connection) = tokio_postgres::connect(&server.url(), NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    let sql = "SELECT d_year, count(*) FROM lineorder, dates WHERE lo_orderdate = d_datekey AND d_year >= $1 \
               GROUP BY d_year ORDER BY d_year";
    let years = async |from: f64| {
        let statement = client.prepare_typed(sql, &[Type::FLOAT8]).await.unwrap();
        let rows = client.query(&statement, &[&from]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect::<Vec<i32>>()
    };
    let mut planned = u64::MAX;
    for _ in 0..200 {
        assert_eq!(years(1996.0).await, [1996, 1997, 1998]);
        let now = plan_misses(&server);
        if now == planned {
            break;
        }
        planned = now;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(years(1997.0).await, [1997, 1998]);
    assert_eq!(plan_misses(&server), planned, "it is planned each time");
    assert_eq!(years(1996.5).await, [1997, 1998]);
    let halves = "SELECT count(*) FROM dates WHERE d_year / $1 = 998.5";
    let halves = client.prepare_typed(halves, &[Type::FLOAT8]).await.unwrap();
    let days: i64 = client.query_one(&halves, &[&2.0_f64]).await.unwrap().get(0);
    assert_eq!(days, 365);
    drop(client);
    connection.await.unwrap().unwrap();
}

/// Every metric that the dashboard shows is one that the server has, and every one of those is explained.
#[test]
fn metrics_are_explained_and_those_of_the_dashboard_exist() {
    let server = Server::empty(&[]);
    server.query("CREATE LIVE TABLE t (id BIGINT PRIMARY KEY)");
    server.query("SELECT 1");
    let run = crate::program::run;
    run(Command::new("psql").arg(server.url()).args(["-X", "-c", "SELECT 1"]));
    let metrics = server.get("/metrics").body;
    let dashboard = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/grafana/nyala.json");
    let dashboard = std::fs::read_to_string(dashboard).unwrap();
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let shown = dashboard.split(|c| !is_name(c));
    let shown: Vec<&str> =
        shown.filter(|word| word.starts_with("nyala_") || word.starts_with("process_")).collect();
    assert!(shown.len() > 15, "{shown:?}");
    for name in shown {
        assert!(metrics.lines().any(|line| line.starts_with(name)), "`{name}` is not in /metrics");
    }
    let reference = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/metrics.md");
    let reference = std::fs::read_to_string(reference).unwrap();
    let names: Vec<&str> = metrics
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split_ascii_whitespace().next())
        .collect();
    assert!(names.len() > 40, "{names:?}");
    for name in names {
        assert!(reference.contains(&format!("`{name}`")), "`{name}` is not in docs/reference/metrics.md");
    }
    // A counter that never counted has a value, too.
    for line in ["nyala_http_refused_total 0", "nyala_build_info{version=", "process_cpu_seconds_total "] {
        assert!(metrics.lines().any(|found| found.starts_with(line)), "{line}\n{metrics}");
    }
}
