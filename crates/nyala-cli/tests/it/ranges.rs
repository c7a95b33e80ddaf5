//! Many ranges in one `BUILD CUBE`: their rows are read in one pass, and each becomes a segment of its own.

use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use arrow::array::{Date32Array, Float64Array, Int64Array, RecordBatch, StringArray};

use crate::batch;
use crate::harness::{TestEngine, sorted, write_parquet};
use crate::server::{Server, send, statement_request};
use crate::star::{Star, sql};

/// 2024-01-01.
const FIRST_DAY: i32 = 19_723;
/// The days of 2024, of which those of March have no rows.
const DAYS: i32 = 366;
const MARCH: std::ops::Range<i32> = 60..91;

/// Every third of the days, so that each of three files has some of every month; one row has no day, and each
/// dimension is null now and then.
fn sales(first: i32) -> RecordBatch {
    let days = (first..DAYS).step_by(3).filter(|day| !MARCH.contains(day)).flat_map(|day| [Some(day); 20]);
    let days: Vec<Option<i32>> = days.chain((first == 1).then_some(None)).collect();
    let numbers: Vec<i64> = (0..days.len() as i64).map(|n| n * 3 + i64::from(first)).collect();
    let some = |n: &i64, part: i64| (n % part != 0).then_some(*n);
    batch!(
        "day" => Date32Array::from_iter(days.iter().map(|day| day.map(|day| FIRST_DAY + day))),
        "shop" => StringArray::from_iter(numbers.iter().map(|n| some(n, 11).map(|n| format!("shop {}", n % 7)))),
        "size" => Int64Array::from_iter(numbers.iter().map(|n| some(n, 13).map(|n| n % 5))),
        "weight" => Float64Array::from_iter(numbers.iter().map(|n| some(n, 17).map(|n| (n % 4) as f64 / 8.0))),
        "shop_id" => Int64Array::from_iter_values(numbers.iter().map(|n| n % 9)),
        "amount" => Int64Array::from_iter(numbers.iter().map(|n| some(n, 5))),
    )
}

async fn shops(threads: usize) -> TestEngine {
    let test = TestEngine::with_config(|config| config.query.threads = threads).await;
    for file in 1..3 {
        write_parquet(&test.path(&format!("sales/part-{file}.parquet")), &[sales(file)]);
    }
    test.table("sales", &[sales(0)]).await;
    // The last two shops have no city: the outer join makes nulls.
    let cities = batch!(
        "id" => Int64Array::from_iter_values(0..7),
        "city" => StringArray::from_iter((0..7).map(|n| (n != 3).then(|| format!("city {}", n % 3)))),
    );
    test.table("cities", &[cities]).await;
    test
}

fn create(name: &str) -> String {
    format!(
        "CREATE CUBE {name} PARTITION BY RANGE (day) EVERY INTERVAL '1 month' AS \
         SELECT sum(amount), count(*), avg(amount) FILTER (WHERE size > 2), count(DISTINCT amount), min(shop) \
         FROM sales AS s LEFT JOIN cities ON shop_id = id \
         GROUP BY GROUPING SETS ((city, shop, size), (shop), (weight, city), (day, size), (city, weight, day))"
    )
}

const MONTHS: usize = 12;

#[tokio::test(flavor = "multi_thread")]
async fn ranges_made_together_hold_what_each_made_alone_holds() {
    let test = shops(2).await;
    test.run(&create("alone")).await;
    for month in 1..=MONTHS {
        let to = if month == MONTHS { "2025-01-01".to_owned() } else { format!("2024-{:02}-01", month + 1) };
        test.run(&format!("BUILD CUBE alone FROM '2024-{month:02}-01' TO '{to}'")).await;
    }
    // The remaining rows are those without a day.
    test.run("BUILD CUBE alone").await;
    test.run(&create("together")).await;
    test.run("BUILD CUBE together").await;

    let segments = |cube: &str| {
        let sql = format!(
            "SELECT range, state, source_rows, cuboids, rows FROM system.segments WHERE cube = '{cube}'"
        );
        let test = &test;
        async move { sorted(test.run(&sql).await) }
    };
    let made = segments("together").await;
    assert_eq!(made, segments("alone").await);
    assert_eq!(made.len(), MONTHS + 1, "{made:?}");
    assert!(
        made.iter().filter(|segment| segment[1] == "ready" && segment[3] == "5").count() == MONTHS,
        "{made:?}"
    );
    let march = made.iter().find(|segment| segment[0].starts_with("[2024-03-01")).unwrap();
    assert_eq!((march[1].as_str(), march[3].as_str()), ("empty", "0"));

    let cuboids = |cube: &str| {
        let sql = format!("SHOW CUBOIDS FOR {cube}");
        let test = &test;
        async move { test.run(&sql).await }
    };
    let (together, alone) = (cuboids("together").await, cuboids("alone").await);
    let cells = |cuboids: &[Vec<String>]| {
        cuboids.iter().map(|cuboid| (cuboid[2].clone(), cuboid[4].clone())).collect::<Vec<_>>()
    };
    assert_eq!(cells(&together), cells(&alone));
    // A pass over several ranges writes one file for each; a pass over a single range writes one for each thread.
    let files =
        |cuboids: &[Vec<String>]| cuboids.iter().map(|c| c[6].parse::<usize>().unwrap()).sum::<usize>();
    assert!(files(&together) < files(&alone), "ranges were not made together");
    let jobs = test.run("SHOW JOBS").await;
    let read = |job: &Vec<String>| job[4].parse::<u64>().unwrap();
    assert_eq!(read(&jobs[0]), jobs[1..].iter().map(read).sum::<u64>(), "{jobs:?}");

    for cube in ["alone", "together"] {
        for query in [
            "SELECT city, shop, size, sum(amount), count(*) FROM sales LEFT JOIN cities ON shop_id = id GROUP BY city, shop, size",
            "SELECT weight, avg(amount) FILTER (WHERE size > 2), min(shop) FROM sales LEFT JOIN cities ON shop_id = id GROUP BY weight",
            "SELECT count(DISTINCT amount), count(*) FROM sales LEFT JOIN cities ON shop_id = id WHERE day >= '2024-05-01'",
            "SELECT shop, count(*) FROM sales LEFT JOIN cities ON shop_id = id WHERE day >= '2024-02-01' AND day < '2024-05-01' GROUP BY shop",
        ] {
            test.check_hit(query).await;
        }
        check_cells(&test, cube).await;
        test.run(&format!("DROP CUBE {cube}")).await;
    }
}

/// Checks the cells; some queries are not compared, because their conditions make the optional table a required one.
async fn check_cells(test: &TestEngine, cube: &str) {
    let findings = test.run(&format!("CHECK CUBE {cube} SAMPLE 60")).await;
    let with = |result: &str| findings.iter().filter(|row| row[3] == result).count();
    assert_eq!(with("ok") + with("not compared"), findings.len(), "{findings:?}");
    assert!(with("ok") > 20, "{findings:?}");
}

/// With more threads than ranges, several threads make the cells of one range.
#[tokio::test(flavor = "multi_thread")]
async fn a_few_ranges_use_all_threads() {
    let test = shops(4).await;
    test.run(&create("c")).await;
    test.run("BUILD CUBE c FROM '2024-01-01' TO '2024-03-01'").await;
    check_cells(&test, "c").await;
    let cuboids = test.run("SHOW CUBOIDS FOR c").await;
    assert!(cuboids.iter().any(|cuboid| cuboid[6].parse::<usize>().unwrap() > 2), "{cuboids:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ranges_that_memory_is_too_short_for_are_made_all_the_same() {
    let test = TestEngine::with_config(|config| {
        config.query.memory_limit_bytes = 200 << 20;
        config.query.threads = 2;
    })
    .await;
    let rows = 150_000;
    let name = |prefix: &str, n: i64| format!("{prefix} with a name that is long enough to matter {n}");
    let sales = batch!(
        "day" => Date32Array::from_iter_values((0..rows).map(|n| FIRST_DAY + (n % 120) as i32)),
        "buyer" => StringArray::from_iter_values((0..rows).map(|n| name("buyer", n))),
        "thing" => StringArray::from_iter_values((0..rows).map(|n| name("thing", n * 7))),
        "place" => StringArray::from_iter_values((0..rows).map(|n| name("place", n * 13))),
        "amount" => Int64Array::from_iter_values(0..rows),
    );
    test.table("sales", &[sales]).await;
    test.run(
        "CREATE CUBE c PARTITION BY RANGE (day) EVERY INTERVAL '1 month' AS SELECT sum(amount), count(*) FROM sales \
         GROUP BY GROUPING SETS ((buyer), (thing), (place), (buyer, thing), (thing, place), (day))",
    )
    .await;
    test.run("BUILD CUBE c").await;
    let segments = test.run("SHOW SEGMENTS FOR c").await;
    assert!(segments.len() == 4 && segments.iter().all(|s| s[4] == "ready" && s[7] == "6"), "{segments:?}");
    assert_eq!(test.run("SHOW CUBES").await[0][7], rows.to_string());
    test.check_hit("SELECT day, count(*), sum(amount) FROM sales GROUP BY day").await;
    test.check_hit(
        "SELECT buyer, thing, sum(amount) FROM sales WHERE buyer LIKE '%77' GROUP BY buyer, thing",
    )
    .await;
}

/// A build that goes on treats each range of a pass by itself: each keeps the roots that were recorded in it.
#[test]
fn a_build_of_many_ranges_that_is_killed_goes_on_with_what_was_finished() {
    let star = Star::generate("0.1");
    let data = star.path("data");
    star.define(&data);
    let months = std::fs::read_to_string(crate::star::repository("benchmarks/ssb/cube.sql")).unwrap();
    let months =
        months.replace("ssb AS", "ssb PARTITION BY RANGE (lo_orderdate) EVERY INTERVAL '1 month' AS");
    let mut resumed = 0;
    for wanted in [1, 100, 400, 700] {
        sql(&data, "DROP CUBE IF EXISTS ssb");
        sql(&data, &months);
        let mut server = Server::start(&data);
        let address = server.http;
        let building = std::thread::spawn(move || send(address, &statement_request("BUILD CUBE ssb")));
        while !building.is_finished() && cuboids_done(&server) < wanted {
            sleep(Duration::from_millis(1));
        }
        server.process.kill();
        building.join().unwrap();
        let server = Server::start(&data);
        let segments = server.query("SHOW SEGMENTS FOR ssb");
        let left = segments.iter().filter(|s| s[4] == "interrupted" && s[7] != "0");
        let left: Vec<String> = left.map(|segment| segment[2].clone()).collect();
        assert_eq!(server.try_query("BUILD CUBE ssb").status, 200);
        let segments = server.query("SHOW SEGMENTS FOR ssb");
        assert!(segments.iter().all(|s| s[4] == "ready" && s[7] == "10"), "{segments:?}");
        let taken_up = left.iter().filter(|left| segments.iter().any(|segment| segment[2] == **left)).count();
        assert_eq!(taken_up, left.len(), "finished cuboids were made again");
        check_whole(&server, &data);
        resumed += taken_up;
    }
    assert!(resumed > 0, "no build was killed between two cuboids");
}

fn check_whole(server: &Server, data: &Path) {
    let findings = server.query("CHECK CUBE ssb SAMPLE 10");
    assert!(findings.iter().all(|row| row[3] == "ok"), "{findings:?}");
    let rows = server.query("SELECT count(*) FROM lineorder")[0][0].clone();
    let cube = &server.query("SHOW CUBES")[0];
    assert_eq!((cube[2].as_str(), cube[7].as_str()), ("ready", rows.as_str()));
    let owned = server.query("SHOW CUBOIDS FOR ssb");
    let owned: usize = owned.iter().map(|cuboid| cuboid[6].parse::<usize>().unwrap()).sum();
    assert_eq!(files_below(&data.join("cubes")), owned, "files are lost, or of no segment");
}

/// Finished cuboids of the newest job.
fn cuboids_done(server: &Server) -> u64 {
    let jobs: serde_json::Value = serde_json::from_str(&server.get("/api/v1/jobs").body).unwrap();
    let running = jobs["jobs"][0]["state"] == "running";
    if running { jobs["jobs"][0]["cuboids_done"].as_u64().unwrap() } else { 0 }
}

fn files_below(folder: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    entries
        .map(|entry| entry.unwrap().path())
        .map(|path| if path.is_dir() { files_below(&path) } else { 1 })
        .sum()
}
