//! Settings as clients of both doors set them: a list, and nothing else.

use serde_json::json;
use tokio_postgres::NoTls;

use crate::server::Server;

/// Options of DataFusion that break every later query, or change the meaning of queries.
const OTHERS: [(&str, &str); 12] = [
    ("datafusion.optimizer.max_passes", "0"),
    ("datafusion.optimizer.skip_failed_rules", "true"),
    ("datafusion.optimizer.enable_topk_aggregation", "true"),
    ("datafusion.optimizer.repartition_joins", "false"),
    ("datafusion.execution.skip_physical_aggregate_schema_check", "false"),
    ("datafusion.execution.coalesce_batches", "false"),
    ("datafusion.execution.parquet.pushdown_filters", "true"),
    ("datafusion.execution.sort_spill_reservation_bytes", "999999999999"),
    ("datafusion.explain.format", "tree"),
    ("datafusion.format.safe", "false"),
    ("datafusion.catalog.default_schema", "system"),
    ("datafusion.sql_parser.dialect", "mysql"),
];

/// Invalid values of settings, and the error messages.
const WRONG: [(&str, &str, &str); 10] = [
    ("datafusion.execution.batch_size", "0", "from 1 to 65536"),
    ("datafusion.execution.batch_size", "-1", "from 1 to 65536"),
    ("datafusion.execution.batch_size", "18446744073709551616", "from 1 to 65536"),
    ("datafusion.execution.batch_size", "many", "from 1 to 65536"),
    ("datafusion.execution.target_partitions", "100000", "from 1 to"),
    ("statement_timeout", "-1", "from 0 to 2147483647 ms"),
    ("statement_timeout", "99999999999999999999", "from 0 to 2147483647 ms"),
    ("timezone", "Nowhere/City", "a time zone"),
    ("nyala.use_cubes", "maybe", "`on` or `off`"),
    ("nyala.check_files", "2", "`on` or `off`"),
];

const TAKEN: [(&str, &str); 8] = [
    ("datafusion.execution.batch_size", "65536"),
    ("datafusion.execution.target_partitions", "1"),
    ("nyala.pushdown", "off"),
    ("nyala.use_cubes", "off"),
    ("search_path", "elsewhere"),
    ("statement_timeout", "60000"),
    ("timezone", "Europe/Oslo"),
    ("nyala.result_cache", "on"),
];

const QUERY: &str = "SELECT count(*) FROM generate_series(1, 1000) AS s (n) WHERE n % 2 = 0";

#[test]
fn what_is_not_on_the_list_is_refused_over_http() {
    let server = Server::empty(&[]);
    for (name, value) in OTHERS {
        for body in [
            json!({"sql": format!("SET {name} = {value}")}),
            json!({"sql": format!("SET {name} = '{value}'")}),
            json!({"sql": QUERY, "settings": {name: value}}),
            json!({"sql": format!("RESET {name}")}),
            json!({"sql": format!("SHOW {name}")}),
        ] {
            let response = server.post(&body.to_string());
            assert_eq!(response.status, 400, "{body}: {}", response.body);
            assert!(response.body.contains("\"undefined_object\""), "{body}: {}", response.body);
            assert!(
                response.body.contains("the nearest that it may change is `"),
                "{body}: {}",
                response.body
            );
        }
    }
    for (name, value, rule) in WRONG {
        let response = server.post(&json!({"sql": QUERY, "settings": {name: value}}).to_string());
        assert_eq!(response.status, 400, "{name} = {value}: {}", response.body);
        assert!(response.body.contains(rule) && response.body.contains(name), "{name}: {}", response.body);
    }
    for (name, value) in TAKEN {
        assert_eq!(server.query_with(QUERY, &json!({name: value})), [["500"]], "{name}");
        let shown = server.query_with(&format!("SHOW {name}"), &json!({name: value}));
        assert_eq!(shown, [[value]], "{name}");
    }
    assert_eq!(server.query(QUERY), [["500"]]);
}

#[tokio::test]
async fn what_is_not_on_the_list_is_refused_over_postgresql() {
    let server = Server::empty(&[]);
    let (client, connection) = tokio_postgres::connect(&server.url(), NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    for (name, value) in OTHERS {
        for sql in [
            format!("SET {name} = '{value}'"),
            format!("SET SESSION {name} TO '{value}'"),
            format!("BEGIN; SET LOCAL {name} = '{value}'"),
            format!("RESET {name}"),
        ] {
            let error = client.batch_execute(&sql).await.unwrap_err();
            assert_eq!(error.code().map(|code| code.code()), Some("42704"), "{sql}: {error:?}");
            let _ = client.batch_execute("ROLLBACK").await;
        }
        assert!(connects(&server, name, value).await.is_err(), "{name}");
    }
    for (name, value, rule) in WRONG {
        let error = client.batch_execute(&format!("SET {name} = '{value}'")).await.unwrap_err();
        let message = error.as_db_error().unwrap().message();
        assert_eq!(error.code().map(|code| code.code()), Some("22023"), "{name}: {message}");
        let rule = rule.replace('`', "\"");
        assert!(message.contains(&rule) && message.contains(name), "{name}: {message}");
    }
    let one = client.query_one(QUERY, &[]).await.unwrap();
    assert_eq!(one.get::<_, i64>(0), 500);
    for (name, value) in TAKEN {
        connects(&server, name, value).await.unwrap();
    }
    drop(client);
    connection.await.unwrap().unwrap();
}

/// Connects with a setting, and asks for its value in three ways.
async fn connects(server: &Server, name: &str, value: &str) -> Result<(), tokio_postgres::Error> {
    let mut config: tokio_postgres::Config = server.url().parse().unwrap();
    config.options(format!("-c {name}={value}"));
    let (client, connection) = config.connect(NoTls).await?;
    let connection = tokio::spawn(connection);
    for sql in [
        format!("SHOW {name}"),
        format!("SELECT setting FROM pg_settings WHERE name = '{name}'"),
        format!("SELECT value FROM system.settings WHERE name = '{name}'"),
    ] {
        let row = client.query_one(&sql, &[]).await.unwrap();
        assert_eq!(row.get::<_, &str>(0), value, "{sql}");
    }
    assert_eq!(client.query_one(QUERY, &[]).await.unwrap().get::<_, i64>(0), 500);
    drop(client);
    connection.await.unwrap()
}

/// All lists of settings agree, and every setting is documented.
#[test]
fn every_setting_is_shown_everywhere_and_documented() {
    let server = Server::empty(&[]);
    let shown = server.query("SHOW ALL");
    let listed = server.query("SELECT name, value, description FROM system.settings ORDER BY name");
    assert_eq!(shown, listed);
    assert!(shown.iter().all(|setting| !setting[2].is_empty()), "{shown:?}");
    let reference =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/settings.md"))
            .unwrap();
    for setting in &shown {
        let name = &setting[0];
        assert!(
            reference.contains(&format!("| `{name}` |")),
            "`{name}` is not in docs/reference/settings.md"
        );
        assert_eq!(server.query(&format!("SHOW {name}")), [[setting[1].clone()]]);
    }
}
