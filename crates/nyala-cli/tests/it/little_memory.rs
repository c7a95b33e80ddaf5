//! Queries that get less memory than they want: they spill, or say so, and are never wrong.

use std::time::Duration;

use nyala_engine::ErrorKind;
use nyala_model::config::GroupConfig;

use crate::harness::{TestEngine, sorted};

/// Memory of the resource groups, in MiB. With some limits an operator fails at its beginning, with others in the middle.
const LIMITS: [usize; 7] = [1, 2, 3, 5, 8, 13, 21];

/// `SCALE` is an average over a join and an aggregation: operators that give their rows once.
const SCALE: &str = "(SELECT avg(c) / 2 AS a FROM (SELECT x.t, count(*) AS c FROM texts x JOIN texts y ON x.t = y.t GROUP BY x.t) s)";

const QUERIES: &[&str] = &[
    "SELECT count(*), sum(c) FROM (SELECT g, count(DISTINCT t) AS c FROM texts GROUP BY g) s",
    "SELECT count(*), sum(length(x.t)) FROM texts x JOIN texts y ON x.t = y.t AND x.g <= y.g",
    "SELECT count(*), sum(r) FROM (SELECT g, rank() OVER (PARTITION BY g ORDER BY t DESC) AS r FROM texts) s",
    "SELECT t, g FROM texts ORDER BY t DESC, g LIMIT 3 OFFSET 60000",
    "SELECT count(*) FROM texts JOIN SCALE s ON g > s.a",
    "SELECT count(*) FROM texts LEFT JOIN SCALE s ON g < s.a",
    "SELECT count(*), count(g) FROM SCALE s LEFT JOIN texts ON g < s.a",
    "SELECT count(*) FROM texts WHERE g > (SELECT a FROM SCALE s)",
    "SELECT count(*) FROM texts WHERE EXISTS (SELECT FROM SCALE s WHERE s.a < g)",
    "SELECT count(*), count(m.g) FROM (SELECT g, max(t) AS t FROM texts GROUP BY g) m LEFT JOIN (VALUES (3), (7)) v(n) ON m.g % 10 > v.n",
    "SELECT g FROM texts WHERE g < 9000 EXCEPT SELECT g FROM texts WHERE length(t) > 20 AND g < 8990",
];

#[tokio::test(flavor = "multi_thread")]
async fn queries_with_little_memory_are_right_or_say_so() {
    let test = TestEngine::with_config(|config| {
        for mib in LIMITS {
            let group = GroupConfig { query_memory_bytes: mib << 20, ..GroupConfig::default() };
            config.admission.groups.insert(format!("g{mib}"), group);
        }
    })
    .await;
    let folder = test.path("texts");
    for file in 0..4 {
        let (from, to) = (file * 20_000, file * 20_000 + 19_999);
        let rows = format!(
            "SELECT n % 9001 AS g, 'a longer text: ' || (n * 7919 % 60000) AS t FROM generate_series({from}, {to}) AS s(n)"
        );
        test.run(&format!("COPY ({rows}) TO '{}/{file}.parquet'", folder.display())).await;
    }
    test.run(&format!("CREATE EXTERNAL TABLE texts STORED AS PARQUET LOCATION '{}/'", folder.display()))
        .await;
    let queries: Vec<String> = QUERIES.iter().map(|sql| sql.replace("SCALE", SCALE)).collect();
    let mut expected = Vec::new();
    for sql in &queries {
        expected.push(sorted(test.run(sql).await));
    }
    let mut refused = 0;
    for mib in LIMITS {
        test.run(&format!("SET nyala.resource_group = 'g{mib}'")).await;
        for (sql, expected) in queries.iter().zip(&expected) {
            let ended = tokio::time::timeout(Duration::from_secs(120), test.try_run(sql)).await;
            match ended.unwrap_or_else(|_| panic!("{sql} goes on for ever with {mib} MiB")) {
                Ok(rows) => assert_eq!(&sorted(rows), expected, "{sql} with {mib} MiB"),
                Err(error) => {
                    assert_eq!(error.kind, ErrorKind::ResourcesExhausted, "{sql} with {mib} MiB: {error}");
                    refused += 1;
                }
            }
        }
    }
    assert!(refused > 0 && refused < LIMITS.len() * queries.len(), "{refused} refused");
}
