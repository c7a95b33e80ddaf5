//! A server with live tables that is killed while clients write: acknowledged rows are there afterwards, and no
//! statement is there in part. `NYALA_KILLS` asks for more rounds.

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use crate::program::run;
use crate::python::require;
use crate::random::{Random, seed};
use crate::server::Server;

const ROUNDS: usize = 5;
const WRITERS: i64 = 6;
/// Rows of one statement.
const TOGETHER: i64 = 3;

/// The acknowledgements that one client received.
#[derive(Debug, Default)]
struct Told {
    /// Statements that were acknowledged.
    written: BTreeSet<i64>,
    /// Statements that were deleted again, and acknowledged.
    deleted: BTreeSet<i64>,
    /// The statement with an unanswered deletion.
    doubtful: Option<i64>,
    /// A lower bound of the client's counter.
    counted: i64,
}

#[test]
fn what_was_acknowledged_outlives_the_process() {
    require("psql", "the PostgreSQL client (Debian: postgresql-client)");
    let rounds = std::env::var("NYALA_KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(ROUNDS);
    let mut random = Random(seed());
    let folder = tempfile::tempdir().unwrap();
    let mut told: Vec<Told> = (0..WRITERS).map(|_| Told::default()).collect();
    let next = Arc::new(AtomicI64::new(0));
    let server = Server::start(folder.path());
    for (store, table) in [("small", "batches"), ("other", "counters")] {
        let options = "seal_bytes = 32768, checkpoint_bytes = 8192, checkpoint_interval_ms = 100";
        psql(&server, &format!("CREATE DISK STORE {store} WITH ({options})"));
        let columns = match table {
            "batches" => "statement BIGINT, part BIGINT, filler TEXT, PRIMARY KEY (statement, part)",
            _ => "id BIGINT PRIMARY KEY, n BIGINT",
        };
        psql(&server, &format!("CREATE LIVE TABLE {table} ({columns}) WITH (disk_store = {store})"));
    }
    for id in 0..WRITERS {
        psql(&server, &format!("INSERT INTO counters VALUES ({id}, 0)"));
    }
    let mut server = Some(server);
    for round in 0..rounds {
        let mut running = server.take().unwrap_or_else(|| Server::start(folder.path()));
        let moment = Duration::from_millis(100 + random.below(500) as u64);
        println!("round {round}: killed after {moment:?}");
        let url = running.url();
        let stop = &AtomicBool::new(false);
        told = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..WRITERS)
                .zip(told)
                .map(|(id, told)| {
                    let (url, next) = (url.clone(), Arc::clone(&next));
                    scope.spawn(move || write(&url, id, &next, stop, told))
                })
                .collect();
            std::thread::sleep(moment);
            running.process.kill();
            stop.store(true, Ordering::Relaxed);
            clients.into_iter().map(|client| client.join().unwrap()).collect()
        });
        drop(running);
        let after = Server::start(folder.path());
        told = verify(&after, told);
        server = Some(after);
    }
    let (written, counted): (usize, i64) =
        (told.iter().map(|told| told.written.len()).sum(), told.iter().map(|told| told.counted).sum());
    println!("{written} statements and {counted} counts in {rounds} rounds");
    assert!(written > rounds && counted > 0, "too little was written to tell anything");
}

/// Writes until the connection breaks.
fn write(url: &str, id: i64, next: &AtomicI64, stop: &AtomicBool, mut told: Told) -> Told {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let Ok((client, connection)) = tokio_postgres::connect(url, tokio_postgres::NoTls).await else {
            return;
        };
        let _connection = tokio::spawn(connection);
        let insert = "INSERT INTO batches VALUES ($1, 0, $2), ($1, 1, $2), ($1, 2, $2)";
        let count = "UPDATE counters SET n = n + 1 WHERE id = $1";
        let delete = "DELETE FROM batches WHERE statement = $1";
        while !stop.load(Ordering::Relaxed) {
            let statement = next.fetch_add(1, Ordering::Relaxed);
            let filler = "x".repeat((statement % 50) as usize * 10);
            match client.execute(insert, &[&statement, &filler]).await {
                Ok(rows) => assert_eq!(rows, TOGETHER as u64),
                Err(_) => return,
            }
            told.written.insert(statement);
            match client.execute(count, &[&id]).await {
                Ok(rows) => assert_eq!(rows, 1),
                Err(_) => return,
            }
            told.counted += 1;
            let old = told.written.first().copied().filter(|_| told.written.len() > 40);
            if let Some(old) = old {
                told.doubtful = Some(old);
                if client.execute(delete, &[&old]).await.is_err() {
                    return;
                }
                told.doubtful = None;
                told.written.remove(&old);
                told.deleted.insert(old);
            }
        }
    });
    told
}

/// Compares the stored rows with the acknowledgements.
fn verify(server: &Server, told: Vec<Told>) -> Vec<Told> {
    let parts = format!(
        "SELECT count(*) FROM (SELECT statement FROM batches GROUP BY statement HAVING count(*) <> {TOGETHER})"
    );
    assert_eq!(psql(server, &parts).trim(), "0", "a statement is there in part");
    let there: BTreeSet<i64> = psql(server, "SELECT DISTINCT statement FROM batches")
        .lines()
        .map(|line| line.parse().unwrap())
        .collect();
    let counters = psql(server, "SELECT n FROM counters ORDER BY id");
    let counters: Vec<i64> = counters.lines().map(|line| line.parse().unwrap()).collect();
    let checked = told.into_iter().zip(counters).map(|(mut told, counter)| {
        if let Some(doubtful) = told.doubtful.take().filter(|doubtful| !there.contains(doubtful)) {
            told.written.remove(&doubtful);
            told.deleted.insert(doubtful);
        }
        let lost: Vec<&i64> = told.written.difference(&there).collect();
        assert!(lost.is_empty(), "statements {lost:?} were acknowledged and are gone");
        let back: Vec<&i64> = told.deleted.intersection(&there).collect();
        assert!(back.is_empty(), "statements {back:?} were deleted and are there");
        // The last increment may have taken effect without an answer.
        assert!((told.counted..=told.counted + 1).contains(&counter), "{counter}, not {}", told.counted);
        told.counted = counter;
        told
    });
    checked.collect()
}

fn psql(server: &Server, sql: &str) -> String {
    run(Command::new("psql").args(["-X", "-q", "-At", "-v", "ON_ERROR_STOP=1", "-c", sql, &server.url()]))
}
