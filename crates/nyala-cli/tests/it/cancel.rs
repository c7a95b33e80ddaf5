//! Queries that clients give up, through every door and at any moment, under load: afterwards nothing is held.
//!
//! `NYALA_CANCELS` says how many there are.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio_postgres::{NoTls, SimpleQueryMessage};

use crate::program::{PATIENCE, eventually};
use crate::server::{Server, rows_of, statement_request};
use crate::star::Star;

/// Some end at once, some would take minutes, some spill, some give more rows than any client reads.
const QUERIES: [&str; 6] = [
    "SELECT d_year, sum(lo_revenue) FROM lineorder JOIN dates ON lo_orderdate = d_datekey GROUP BY d_year",
    "SELECT count(*) FROM lineorder a, lineorder b WHERE a.lo_revenue + b.lo_revenue > 7",
    "SELECT a.lo_orderkey + b.lo_orderkey FROM lineorder a, lineorder b",
    "SELECT * FROM lineorder ORDER BY lo_revenue * -1, lo_orderkey",
    "SELECT lo_orderkey, count(DISTINCT lo_partkey) FROM lineorder GROUP BY 1 ORDER BY 2 DESC",
    "SELECT 1",
];

/// Clients at once.
const CLIENTS: u64 = 9;

#[test]
fn queries_given_up_through_any_door_hold_nothing() {
    let star = Star::generate("0.01");
    let data = star.built();
    let config = star.path("nyala.toml");
    let text = "query.memory_limit_bytes = 268435456\nadmission.groups.default.slots = 3\n";
    std::fs::write(&config, text).unwrap();
    let server = Server::start_with(&data, &[("NYALA_CONFIG", config.to_str().unwrap())]);
    let cancels = std::env::var("NYALA_CANCELS").ok().and_then(|n| n.parse().ok()).unwrap_or(450_u64);
    // Once before measuring, so that caches are filled.
    give_up(&server, CLIENTS * 10);
    settled(&server, &data);
    let before = gauge(&server, "process_resident_memory_bytes");
    give_up(&server, cancels);
    settled(&server, &data);
    let after = gauge(&server, "process_resident_memory_bytes");
    // An allocator keeps some pages; a leak of even 100 KB a query would be far beyond this.
    assert!(after < before + 192e6, "{before} bytes before, {after} after {cancels} queries");
    server.check_alive("clients gave up");
}

fn give_up(server: &Server, count: u64) {
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            scope.spawn(move || {
                for round in 0..count / CLIENTS {
                    let dice = (client * 7919 + round).wrapping_mul(2_654_435_761) >> 9;
                    let sql = QUERIES[usize::try_from(dice % 6).unwrap()];
                    let delay = Duration::from_micros((dice >> 4) % 12_000);
                    match client % 3 {
                        0 => by_postgres_cancel(server, sql, delay),
                        1 => by_leaving_http(server, sql, delay),
                        _ => by_delete(server, sql, delay),
                    }
                }
            });
        }
    });
}

/// The cancel request of PostgreSQL's protocol; sometimes the connection is just closed.
fn by_postgres_cancel(server: &Server, sql: &str, delay: Duration) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let (client, connection) = tokio_postgres::connect(&server.url(), NoTls).await.unwrap();
        let connection = tokio::spawn(connection);
        let token = client.cancel_token();
        let query = client.simple_query(sql);
        if delay.as_micros().is_multiple_of(3) {
            let _ = tokio::time::timeout(delay, query).await;
            connection.abort();
            return;
        }
        let cancel = async {
            tokio::time::sleep(delay).await;
            token.cancel_query(NoTls).await.unwrap();
        };
        let (answer, ()) = tokio::join!(query, cancel);
        if let Err(error) = answer {
            assert_eq!(error.code().map(|code| code.code()), Some("57014"), "{sql}: {error:?}");
            // The connection goes on.
            let one = client.simple_query("SELECT 1").await;
            // A cancel that came late may have met this query instead.
            if let Ok(one) = one {
                assert!(one.iter().any(|message| matches!(message, SimpleQueryMessage::Row(_))));
            }
        }
    });
}

fn by_leaving_http(server: &Server, sql: &str, delay: Duration) {
    let mut socket = TcpStream::connect(server.http).unwrap();
    socket.write_all(&statement_request(sql)).unwrap();
    socket.set_read_timeout(Some(delay.max(Duration::from_micros(1)))).unwrap();
    let started = Instant::now();
    let mut buffer = [0; 4096];
    while started.elapsed() < delay && matches!(socket.read(&mut buffer), Ok(read) if read > 0) {}
}

/// Ends any running query, of this client or another.
fn by_delete(server: &Server, sql: &str, delay: Duration) {
    std::thread::scope(|scope| {
        scope.spawn(|| by_leaving_http(server, sql, Duration::from_millis(40)));
        std::thread::sleep(delay);
        let running = server.get("/api/v1/queries");
        // Another client may have ended this listing.
        if running.status == 499 {
            return;
        }
        assert_eq!(running.status, 200, "{}", running.body);
        let document: Value = serde_json::from_str(&running.body).unwrap_or_else(|_| json!({"rows": []}));
        for row in rows_of(&document) {
            let status = server.delete(&format!("/api/v1/queries/{}", row[0])).status;
            assert!(matches!(status, 204 | 404), "{status}");
        }
    });
}

/// Waits until the metrics and the folder of temporary files say that nothing is held.
fn settled(server: &Server, data: &Path) {
    eventually("nothing runs and no memory is held", PATIENCE, || {
        gauge(server, "nyala_queries_running") == 0.0 && gauge(server, "nyala_memory_reserved_bytes") == 0.0
    });
    eventually("all slots are free", PATIENCE, || {
        let slots = server.query("SELECT sum(running), sum(queued) FROM system.resource_groups");
        slots == [["0", "0"]]
    });
    let spilled = files_below(&data.join("tmp"));
    assert_eq!(spilled, 0, "temporary files are left");
}

fn files_below(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| if entry.path().is_dir() { files_below(&entry.path()) } else { 1 }).sum()
}

fn gauge(server: &Server, name: &str) -> f64 {
    let metrics = server.get("/metrics").body;
    let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.and_then(|value| value.trim().parse().ok()).unwrap_or(f64::NAN)
}
