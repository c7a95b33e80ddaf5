//! Tables on S3, read through blocks on local disk.

use std::path::Path;

use serde_json::json;

use crate::program::{PATIENCE, eventually, nyala, run, try_run};
use crate::s3::{BUCKET, S3};
use crate::server::Server;

const SUM: &str = "SELECT count(*), sum(v) FROM t WHERE v % 3 = 0";

/// Writes an object with `rows` numbers from `from` on, as another program would.
fn put(s3: &S3, name: &str, from: u64, rows: u64) {
    let folder = tempfile::tempdir().unwrap();
    let last = from + rows - 1;
    let target = format!("s3://{BUCKET}/t/{name}");
    let sql =
        format!("COPY (SELECT v, v * v AS w FROM generate_series({from}, {last}) AS s(v)) TO '{target}'");
    let arguments = ["sql", "--data-dir", folder.path().to_str().unwrap(), "-c", &sql];
    run(nyala(&arguments).envs(s3.variables()));
}

fn with_table(s3: &S3, data_dir: &Path, further: &[(&str, &str)]) -> Server {
    let mut variables = s3.variables().to_vec();
    variables.extend(further);
    let server = Server::start_with(data_dir, &variables);
    server.query(&format!(
        "CREATE EXTERNAL TABLE IF NOT EXISTS t STORED AS PARQUET LOCATION 's3://{BUCKET}/t/'"
    ));
    server
}

/// The sum of all metrics whose names begin with `name`.
fn metric(server: &Server, name: &str) -> u64 {
    let metrics = server.get("/metrics").body;
    let values =
        metrics.lines().filter(|line| line.starts_with(name)).filter_map(|line| line.rsplit_once(' '));
    values.filter_map(|(_, value)| value.parse::<f64>().ok()).sum::<f64>() as u64
}

fn read_bytes(server: &Server) -> u64 {
    metric(server, "nyala_store_read_bytes_total")
}

/// Waits until a statement is answered without the store.
fn warm_up(server: &Server, sql: &str) {
    eventually("a warm cache", PATIENCE, || {
        let before = read_bytes(server);
        server.query(sql);
        read_bytes(server) == before
    });
}

fn expected(ranges: &[(u64, u64)]) -> Vec<Vec<String>> {
    let numbers = ranges.iter().flat_map(|(from, rows)| *from..from + rows).filter(|v| v % 3 == 0);
    let (count, sum) = numbers.fold((0, 0), |(count, sum), v| (count + 1, sum + v));
    vec![vec![count.to_string(), sum.to_string()]]
}

#[test]
fn a_warm_table_asks_its_store_for_nothing() {
    let s3 = S3::start();
    put(&s3, "a.parquet", 0, 300_000);
    put(&s3, "b.parquet", 300_000, 1000);
    let folder = tempfile::tempdir().unwrap();
    let server = with_table(&s3, folder.path(), &[]);
    let all = expected(&[(0, 301_000)]);
    assert_eq!(server.query(SUM), all);
    warm_up(&server, SUM);
    let report = server.query(&format!("EXPLAIN ANALYZE {SUM}")).concat().concat();
    assert!(report.contains("bytes_from_disk=") && report.contains("bytes_from_store=0"), "{report}");
    let use_of_t = "SELECT hit_ratio > 0, bytes_from_disk > 0, bytes_from_store > 0 FROM system.caches \
                    WHERE table_name = 'public.t'";
    assert_eq!(server.query(use_of_t), [["true", "true", "true"]]);
    let files = server.query("SELECT DISTINCT file FROM system.cache_blocks ORDER BY 1");
    assert_eq!(files, ["a", "b"].map(|name| [format!("s3://{BUCKET}/t/{name}.parquet")]));
    drop(server);

    // Blocks outlive the process, also one that was killed.
    let server = with_table(&s3, folder.path(), &[]);
    assert_eq!(server.query(SUM), all);
    assert_eq!(read_bytes(&server), 0);

    let link = server.get("/api/v1/query?sql=DROP%20CACHE");
    assert_eq!(link.status, 405, "{}", link.body);
    let dropped = server.query("DROP CACHE FOR TABLE t");
    assert_ne!(dropped, [["0"]]);
    assert_eq!(server.query("DROP CACHE"), [["0"]]);
    let warmed = server.query("WARM CACHE FOR TABLE t");
    assert_eq!((warmed[0][0].as_str(), &warmed[0][1]), ("2", &warmed[0][2]), "both files, from the store");
    eventually("all blocks on disk", PATIENCE, || server.query("WARM CACHE FOR TABLE t")[0][2] == "0");
    let before = read_bytes(&server);
    assert_eq!(server.query("SELECT sum(w) >= 0 FROM t"), [["true"]]);
    assert_eq!(read_bytes(&server), before, "a column that was never asked for");
    assert_eq!(server.try_query("WARM CACHE FOR TABLE nothing").status, 400);
}

#[test]
fn replaced_and_deleted_files_are_never_mixed_with_others() {
    let s3 = S3::start();
    put(&s3, "a.parquet", 0, 300_000);
    put(&s3, "b.parquet", 300_000, 300_000);
    let folder = tempfile::tempdir().unwrap();
    // Listings are used for ten minutes: the server does not hear of a change before it reads the file.
    let server = with_table(&s3, folder.path(), &[("NYALA_CUBES__CHECK_FILES_MS", "600000")]);
    assert_eq!(server.query(SUM), expected(&[(0, 600_000)]));
    warm_up(&server, SUM);
    put(&s3, "b.parquet", 700_000, 300_000);
    assert_eq!(server.query(SUM), expected(&[(0, 600_000)]), "as it was a short time ago");
    server.query("DROP CACHE");
    // The statement finds the change while it reads, and begins again.
    assert_eq!(server.query(SUM), expected(&[(0, 300_000), (700_000, 300_000)]));
    put(&s3, "a.parquet", 1000, 5000);
    let now = expected(&[(1000, 5000), (700_000, 300_000)]);
    assert_eq!(server.query_with(SUM, &json!({"nyala.check_files": "on"})), now);
    // Files that the server writes itself are seen at once.
    server.query(&format!("COPY (SELECT 3 AS v, 9 AS w) TO 's3://{BUCKET}/t/c.parquet'"));
    assert_eq!(server.query(SUM), expected(&[(3, 1), (1000, 5000), (700_000, 300_000)]));
}

#[test]
fn text_files_are_cached_too() {
    let s3 = S3::start();
    let folder = tempfile::tempdir().unwrap();
    let server = s3.serve(folder.path());
    for (format, name) in [("CSV", "a.csv"), ("NDJSON", "a.json")] {
        let place = format!("s3://{BUCKET}/{name}");
        server.query(&format!("COPY (SELECT v FROM generate_series(0, 200000) AS s(v)) TO '{place}'"));
        server.query(&format!("CREATE EXTERNAL TABLE t STORED AS {format} LOCATION '{place}'"));
        assert_eq!(server.query(SUM), expected(&[(0, 200_001)]), "{format}");
        warm_up(&server, SUM);
        assert_eq!(server.query(SUM), expected(&[(0, 200_001)]), "{format}");
        let report = server.query(&format!("EXPLAIN ANALYZE {SUM}")).concat().concat();
        assert!(report.contains("bytes_from_store=0"), "{report}");
        server.query("DROP TABLE t");
    }
}

#[test]
fn the_cache_may_be_off_or_elsewhere() {
    let s3 = S3::start();
    put(&s3, "a.parquet", 0, 10_000);
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = with_table(&s3, folder.path(), &[("NYALA_STORAGE__CACHE__ENABLED", "false")]);
    assert_eq!(server.query(SUM), expected(&[(0, 10_000)]));
    let before = read_bytes(&server);
    assert_eq!(server.query(SUM), expected(&[(0, 10_000)]));
    assert!(read_bytes(&server) > before);
    assert!(server.try_query("WARM CACHE FOR TABLE t").body.contains("storage.cache.enabled"));
    assert!(!folder.path().join("block-cache").exists());
    drop(server);

    let place = other.path().join("blocks").display().to_string();
    let elsewhere = [("NYALA_STORAGE__CACHE__FOLDER", place.as_str())];
    let server = with_table(&s3, folder.path(), &elsewhere);
    warm_up(&server, SUM);
    let own = server.try_query(&format!("CREATE EXTERNAL TABLE own STORED AS CSV LOCATION '{place}/'"));
    assert!(own.body.contains("files of the server itself"), "{}", own.body);
    let second = tempfile::tempdir().unwrap();
    let data = second.path().display().to_string();
    let mut command = nyala(&["serve", "--data-dir", &data, "--http-listen", "127.0.0.1:0"]);
    let refused = try_run(command.args(["--postgres-listen", "127.0.0.1:0"]).envs(elsewhere));
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("is in use by another process"), "{}", refused.stderr);
}
