//! Statements around tables, schemas and settings, and their errors.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{Array, DictionaryArray, Int32Array, Int64Array, ListArray, StringArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, Int32Type, SchemaRef};
use datafusion::common::ScalarValue;
use nyala_engine::{Answer, ErrorKind};

use crate::batch;
use crate::harness::{TestEngine, parsed, rows_of, sorted, write_parquet};

/// pandas writes categories like this: the file tells that its columns were dictionaries in memory.
#[tokio::test(flavor = "multi_thread")]
async fn columns_that_were_dictionaries_are_what_their_values_are() {
    let test = TestEngine::new().await;
    let kinds: DictionaryArray<Int32Type> = [Some("a"), None, Some("b"), Some("a")].into_iter().collect();
    let (keys, values) = (Int32Array::from(vec![0, 1, 1, 0]), Int64Array::from(vec![7, 9]));
    let numbers = DictionaryArray::new(keys, Arc::new(values));
    let item = Field::new_list_field(kinds.data_type().clone(), true);
    let lists = ListArray::new(
        Arc::new(item),
        OffsetBuffer::from_lengths([2, 0, 1, 1]),
        Arc::new(kinds.clone()),
        None,
    );
    let first = batch!("kind" => kinds, "number" => numbers, "list" => lists);
    test.table("t", &[first]).await;
    let values: StringArray = [Some("c"), Some("a")].into_iter().collect();
    let item = Field::new_list_field(DataType::Utf8, true);
    let lists =
        ListArray::new(Arc::new(item), OffsetBuffer::from_lengths([1, 1]), Arc::new(values.clone()), None);
    let second = batch!("kind" => values, "number" => Int64Array::from(vec![1, 2]), "list" => lists);
    write_parquet(&test.path("t/part-1.parquet"), &[second]);
    test.run("CREATE CUBE c AS SELECT kind, sum(number), count(*) FROM t GROUP BY kind").await;
    test.run("BUILD CUBE c").await;
    let test = test.reopen().await;
    assert_eq!(
        test.run("SELECT kind, sum(number), count(*) FROM t GROUP BY kind ORDER BY kind").await,
        [["a", "16", "3"], ["b", "9", "1"], ["c", "1", "1"], ["NULL", "9", "1"]]
    );
    test.check_hit("SELECT kind, sum(number) FROM t WHERE kind IN ('a', 'c') GROUP BY kind").await;
    let filtered = "SELECT number, list FROM t WHERE kind = 'a' AND number < 7 OR list[1] = 'b'";
    assert_eq!(sorted(test.run(filtered).await), [["2", "[a]"], ["9", "[b]"]]);
    assert_eq!(test.run("SELECT max(kind), min(kind) FROM t").await, [["c", "a"]]);
    let types =
        "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 't' ORDER BY 1";
    assert!(test.run(types).await.iter().all(|row| !row[1].contains("Dictionary")));
}

async fn with_table() -> TestEngine {
    let test = TestEngine::new().await;
    let rows = batch!(
        "id" => Int64Array::from_iter_values(0..100),
        "name" => StringArray::from_iter_values((0..100).map(|i| format!("n{i}"))),
    );
    test.table("t", &[rows]).await;
    test
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_of_every_format_can_be_read_and_survive_a_restart() {
    let test = with_table().await;
    std::fs::create_dir_all(test.path("csv")).unwrap();
    std::fs::write(test.path("csv/a.csv"), "id,name\n1,x\n2,\n").unwrap();
    std::fs::write(test.path("one.ndjson"), "{\"a\":1,\"b\":\"x\"}\n{\"a\":2,\"b\":null}\n").unwrap();
    let (csv, json) = (test.path("csv"), test.path("one.ndjson"));
    test.run(&format!("CREATE EXTERNAL TABLE c STORED AS CSV LOCATION '{}/'", csv.display())).await;
    test.run(&format!("CREATE EXTERNAL TABLE j STORED AS NDJSON LOCATION '{}'", json.display())).await;
    for year in [2023, 2024] {
        let rows = batch!("v" => Int64Array::from(vec![year]));
        write_parquet(&test.path(&format!("p/year={year}/x.parquet")), &[rows]);
    }
    let parts = test.path("p");
    test.run(&format!(
        "CREATE EXTERNAL TABLE p (v BIGINT, year INT) STORED AS PARQUET PARTITIONED BY (year) LOCATION '{}/'",
        parts.display()
    ))
    .await;
    let test = test.reopen().await;
    assert_eq!(test.run("SELECT count(*), max(name) FROM t").await, [["100", "n99"]]);
    assert_eq!(test.run("SELECT id, name FROM c ORDER BY id").await.len(), 2);
    assert_eq!(test.run("SELECT sum(a), count(b) FROM j").await, [["3", "1"]]);
    assert_eq!(test.run("SELECT v, year + 1 FROM p WHERE year = 2024").await, [["2024", "2025"]]);
    let rows = batch!("v" => Int64Array::from(vec![1]));
    write_parquet(&test.path("p/year=2025/x.parquet"), &[rows]);
    assert_eq!(test.run("SELECT count(*) FROM p").await, [["3"]], "a new file is seen at once");
    let tables: Vec<_> = test.run("SHOW TABLES").await.into_iter().map(|row| row[2].clone()).collect();
    for name in ["t", "c", "j", "p"] {
        assert!(tables.iter().any(|table| table == name), "{tables:?}");
    }
    assert_eq!(test.run("DESCRIBE p").await.len(), 2);
    assert_eq!(
        test.run("SELECT column_name FROM information_schema.columns WHERE table_name = 't' ORDER BY 1")
            .await,
        [["id"], ["name"]]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn schemas_are_namespaces() {
    let test = with_table().await;
    test.run("CREATE SCHEMA sales").await;
    test.error("CREATE SCHEMA sales", ErrorKind::DuplicateSchema, "already exists").await;
    test.run("CREATE SCHEMA IF NOT EXISTS sales").await;
    let location = test.path("t");
    test.run(&format!("CREATE EXTERNAL TABLE sales.u STORED AS PARQUET LOCATION '{}/'", location.display()))
        .await;
    test.error("SELECT * FROM u", ErrorKind::UndefinedTable, "`public.u` does not exist").await;
    test.run("SET search_path = sales").await;
    assert_eq!(test.run("SELECT count(*) FROM u").await, [["100"]]);
    test.run("CREATE CUBE k AS SELECT count(*) FROM u").await;
    test.run("BUILD CUBE k").await;
    test.run("SET search_path = public").await;
    test.check_hit("SELECT count(*) FROM sales.u").await;
    test.error("DROP SCHEMA sales", ErrorKind::Needed, "needed by").await;
    test.run("DROP SCHEMA sales CASCADE").await;
    test.error("SELECT * FROM sales.u", ErrorKind::UndefinedTable, "does not exist").await;
    test.error("CREATE SCHEMA pg_catalog", ErrorKind::InvalidDefinition, "belongs to the system").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mistakes_name_the_thing_and_the_next_step() {
    let test = with_table().await;
    test.error(
        "SELECT * FROM tt",
        ErrorKind::UndefinedTable,
        "table `public.tt` does not exist / `SHOW TABLES`",
    )
    .await;
    test.error(
        "SELECT nme FROM t",
        ErrorKind::UndefinedColumn,
        "column `nme` does not exist / did you mean `name`?",
    )
    .await;
    test.error("SELECT conut(*) FROM t", ErrorKind::UndefinedObject, "function `conut` does not exist").await;
    test.error("SELEC 1", ErrorKind::Syntax, "SELEC").await;
    test.error("SELECT 1; SELECT 2", ErrorKind::Syntax, "more than one statement").await;
    test.error("SELECT 1/0", ErrorKind::DivisionByZero, "division by zero").await;
    for (value, kind) in [
        ("'x'::int", ErrorKind::InvalidValue),
        ("'maybe'::boolean", ErrorKind::InvalidValue),
        ("'1,5'::decimal(5, 2)", ErrorKind::InvalidValue),
        ("'Date'::double", ErrorKind::InvalidValue),
        ("'2024-02-30'::date", ErrorKind::InvalidTime),
        ("'soon'::timestamp", ErrorKind::InvalidTime),
        ("'25:61'::time", ErrorKind::InvalidTime),
        ("INTERVAL '1 moon'", ErrorKind::InvalidTime),
        ("70000::smallint", ErrorKind::OutOfRange),
        ("1e30::bigint", ErrorKind::OutOfRange),
        ("12345.6::decimal(5, 2)", ErrorKind::OutOfRange),
        ("'12345.6'::decimal(5, 2)", ErrorKind::OutOfRange),
        ("99999999999.5::decimal(20, 2)::int", ErrorKind::OutOfRange),
        ("1e40::double::decimal(38, 0)", ErrorKind::OutOfRange),
    ] {
        test.error(&format!("SELECT {value}"), kind, "").await;
    }
    test.error("SET nyala.use_cube = off", ErrorKind::UndefinedObject, "did you mean `nyala.use_cubes`")
        .await;
    test.error("INSERT INTO t VALUES (1, 'a')", ErrorKind::Unsupported, "not a live table").await;
    test.error("COPY t TO '/proc/x.csv'", ErrorKind::PermissionDenied, "/proc/x.csv").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_locations_are_refused_when_the_table_is_created() {
    let test = with_table().await;
    std::fs::create_dir_all(test.path("empty")).unwrap();
    std::fs::create_dir_all(test.path("corrupt")).unwrap();
    std::fs::write(test.path("corrupt/x.parquet"), b"PAR1 this is not parquet PAR1").unwrap();
    let create = |name: &str| {
        format!("CREATE EXTERNAL TABLE x STORED AS PARQUET LOCATION '{}/'", test.path(name).display())
    };
    test.error(&create("missing"), ErrorKind::Unreadable, "does not exist").await;
    test.error(&create("empty"), ErrorKind::Unreadable, "holds no readable file").await;
    test.error(&create("corrupt"), ErrorKind::Unreadable, "cannot read the files of").await;
    let format = create("t").replace("PARQUET", "ORC");
    test.error(&format, ErrorKind::InvalidDefinition, "use PARQUET, DELTA, CSV or NDJSON").await;
    test.error(
        &create("t").replace(&test.path("").display().to_string(), "gopher://"),
        ErrorKind::InvalidDefinition,
        "gopher",
    )
    .await;
    let outside =
        TestEngine::with_config(|config| config.storage.allowed_locations = vec!["file:///data".into()])
            .await;
    outside.error(&create("t"), ErrorKind::InvalidDefinition, "is not allowed").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_damaged_or_deleted_later_is_a_clear_error() {
    let test = with_table().await;
    let file = test.path("t/part-0.parquet");
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes.truncate(middle);
    std::fs::write(&file, bytes).unwrap();
    test.error("SELECT sum(id) FROM t", ErrorKind::Unreadable, "cannot read a source file").await;
    std::fs::remove_file(&file).unwrap();
    assert_eq!(test.run("SELECT count(*) FROM t").await, [["0"]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn monstrous_texts_end_within_seconds_and_harm_nobody() {
    let test = with_table().await;
    let limit = ErrorKind::LimitExceeded;
    test.error(&format!("SELECT {}", vec!["1"; 100_000].join("+")), limit, "chain").await;
    test.error(&format!("SELECT 1 WHERE {}", vec!["1=1"; 100_000].join(" OR ")), limit, "chain").await;
    test.error(&vec!["SELECT 1"; 50_000].join(" UNION ALL "), limit, "SELECTs").await;
    test.error(&"(".repeat(1 << 20), limit, "brackets").await;
    test.error(&format!("SELECT '{}'", "x".repeat(100 << 20)), limit, "bytes").await;
    // Statements within the limits must run.
    let begin = Instant::now();
    test.run(&format!("SELECT {} FROM t", vec!["id"; 250].join("+"))).await;
    test.run(&format!(
        "SELECT count(*) FROM t WHERE {}",
        (0..2000).map(|i| format!("id = {i}")).collect::<Vec<_>>().join(" OR ")
    ))
    .await;
    test.run(&format!("SELECT {}1{}", "(".repeat(60), ")".repeat(60))).await;
    test.run(&vec!["SELECT 1"; 500].join(" UNION ALL ")).await;
    println!("statements at the limits took {:?}", begin.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_end_when_cancelled_or_out_of_time() {
    let test = with_table().await;
    let endless = "SELECT count(*) FROM generate_series(1, 10000000000000) AS s (n) WHERE n % 3 = 1";
    let session = test.session.clone();
    let waiting = tokio::spawn(async move {
        match session.query(endless).await {
            Ok(Answer::Rows(rows)) => rows.collect().await.map(|_| ()),
            Ok(Answer::Done(_)) => Ok(()),
            Err(error) => Err(error),
        }
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    test.session.cancel();
    let ended = tokio::time::timeout(Duration::from_secs(10), waiting).await.unwrap().unwrap();
    assert_eq!(ended.unwrap_err().kind, ErrorKind::Cancelled);
    test.run("SET statement_timeout = '200ms'").await;
    test.error(endless, ErrorKind::Timeout, "statement_timeout").await;
    test.run("SET statement_timeout = 0").await;
    assert_eq!(test.run("SELECT count(*) FROM t").await, [["100"]]);
    let deadline = Instant::now() + Duration::from_secs(10);
    while test.engine.stats().queries_running > 0 || test.engine.stats().memory_reserved_bytes > 0 {
        assert!(Instant::now() < deadline, "{:?}", test.engine.stats());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_join_frees_the_threads_that_computed_it() {
    let test = with_table().await;
    test.run("SET statement_timeout = '300ms'").await;
    for join in ["t a, t b, t c, t d, t e", "t a JOIN t b ON a.id < b.id + 200, t c, t d, t e"] {
        for _ in 0..4 {
            test.error(
                &format!("SELECT sum(a.id + e.id) FROM {join}"),
                ErrorKind::Timeout,
                "statement_timeout",
            )
            .await;
        }
    }
    test.run("SET statement_timeout = '5s'").await;
    assert_eq!(test.run("SELECT count(*) FROM t").await, [["100"]], "the query threads are free again");
    let chain: String = (0..300).map(|i| format!(" WHEN id = {i} THEN 'x{i}'")).collect();
    test.run(&format!("SELECT CASE{chain} END FROM t")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn prepared_statements_take_parameters_and_see_later_changes() {
    let test = with_table().await;
    let statement = parsed(&test.session, "SELECT name FROM t WHERE id = $1");
    let prepared = test.session.prepare(statement).await.unwrap();
    assert_eq!(prepared.parameter_types(), [Some(arrow::datatypes::DataType::Int64)]);
    for id in [3_i32, 4] {
        let value = datafusion::common::ScalarValue::Int32(Some(id));
        let Answer::Rows(rows) = test.session.execute(&prepared, vec![value]).await.unwrap() else {
            panic!("no rows");
        };
        assert_eq!(crate::harness::rows_of(&rows.collect().await.unwrap()), [[format!("n{id}")]]);
    }
    let error = test.session.execute(&prepared, Vec::new()).await.map(|_| ()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidParameter);
    test.run("DROP TABLE t").await;
    let value = datafusion::common::ScalarValue::Int64(Some(1));
    let error = test.session.execute(&prepared, vec![value]).await.map(|_| ()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::UndefinedTable);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_stricter_of_two_conditions_wins_whichever_side_the_constant_is_on() {
    let test = TestEngine::new().await;
    test.table("t", &[batch!("x" => Int64Array::from_iter_values(0..10))]).await;
    for (condition, count) in [
        ("5 <= x AND 5 < x", "4"),
        ("5 >= x AND 5 > x", "5"),
        ("x >= 5 AND 5 < x", "4"),
        ("5 < x AND 5 <= x", "4"),
        ("CAST('5' AS BIGINT) <= x AND 5 < x", "4"),
    ] {
        let rows = test.run(&format!("SELECT count(*) FROM t WHERE {condition}")).await;
        assert_eq!(rows[0][0], count, "{condition}");
    }
}

/// A statement whose names and types alone take seconds: each query of WITH uses the one before twice.
fn slow_to_prepare() -> String {
    let mut sql = "WITH c0 AS (SELECT 1 AS a, 2 AS b)".to_owned();
    for level in 1..18 {
        let below = level - 1;
        sql += &format!(", c{level} AS (SELECT x.a, y.b FROM c{below} x JOIN c{below} y ON x.a = y.b)");
    }
    sql + " SELECT count(*) FROM c17"
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_prepared_is_listed_can_be_killed_and_counts_once() {
    let test = TestEngine::with_config(|config| {
        config.query.max_plan_nodes = 1_000_000;
        config.query.max_plan_expressions = 10_000_000;
    })
    .await;
    let session = test.session.clone();
    let begun = Instant::now();
    let statement = parsed(&session, &slow_to_prepare());
    let preparing = tokio::spawn(async move { session.prepare(statement).await.map(drop) });
    let listed = "SELECT query_id, state FROM system.queries WHERE query LIKE 'WITH c0%'";
    let row = loop {
        assert!(!preparing.is_finished(), "it was prepared unseen");
        if let Some(row) = test.run(listed).await.pop() {
            break row;
        }
    };
    assert_eq!(row[1], "planning");
    test.run(&format!("KILL QUERY {}", row[0])).await;
    assert_eq!(preparing.await.unwrap().unwrap_err().kind, ErrorKind::Cancelled);
    assert_eq!(test.run(listed).await, Vec::<Vec<String>>::new());
    let logged = "SELECT status, took_us, planning_us FROM system.query_log WHERE query LIKE 'WITH c0%'";
    let [row] = test.run(logged).await.try_into().unwrap();
    let (took, planning): (u64, u64) = (row[1].parse().unwrap(), row[2].parse().unwrap());
    assert_eq!(row[0], "killed");
    assert!(0 < took && 0 < planning && u128::from(took) < begun.elapsed().as_micros(), "{row:?}");

    // A statement that is only prepared does not run.
    let total = || test.engine.stats().queries_total;
    let before = total();
    let statement = parsed(&test.session, "SELECT 41 + 1");
    let prepared = test.session.prepare(statement).await.unwrap();
    assert_eq!(total(), before);
    assert_eq!(
        test.run("SELECT count(*) FROM system.query_log WHERE query = 'SELECT 41 + 1'").await,
        [["0"]]
    );
    for _ in 0..2 {
        drop(test.session.execute(&prepared, Vec::new()).await.unwrap());
    }
    assert_eq!(
        test.run("SELECT count(*) FROM system.query_log WHERE query = 'SELECT 41 + 1'").await,
        [["2"]]
    );
    assert_eq!(total(), before + 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_may_be_called_the_same() {
    let test = TestEngine::new().await;
    test.table("t", &[batch!("id" => Int64Array::from(vec![1, 2]), "n" => Int64Array::from(vec![10, 20]))])
        .await;
    for (sql, names, rows) in [
        ("SELECT id, id FROM t ORDER BY id", "id id", "1 1, 2 2"),
        ("SELECT id, t.id FROM t ORDER BY 2 DESC", "id id", "2 2, 1 1"),
        ("SELECT 1 AS a, 2 AS a, 3 AS \"A\"", "a a A", "1 2 3"),
        ("SELECT 1 AS ÄB, 2 AS äB", "Äb äb", "1 2"),
        ("SELECT COUNT(*), count(*), count(*) AS n FROM t", "count count n", "2 2 2"),
        ("SELECT n, sum(id), n, sum(id) FROM t GROUP BY n ORDER BY 3", "n sum n sum", "10 1 10 1, 20 2 20 2"),
        ("SELECT *, id FROM t ORDER BY id LIMIT 1", "id n id", "1 10 1"),
        ("SELECT n, *, n + 1 AS n FROM t WHERE id = $1", "n id n n", "10 1 10 11"),
        ("WITH c AS (SELECT id FROM t) SELECT id AS x, id AS x FROM c WHERE id < 2", "x x", "1 1"),
        ("SELECT id, id::text, (t.id)::int, n FROM t WHERE id = 1", "id id id n", "1 1 1 10"),
        (
            "SELECT (n + id)::int AS a, n + id, TRY_CAST(n + id AS INT) FROM t WHERE id = 1",
            "a ?column? int4",
            "11 11 11",
        ),
        ("SELECT n::text FROM t ORDER BY n", "n", "10, 20"),
        ("SELECT n::text, id::text FROM t ORDER BY t.n DESC", "n id", "20 2, 10 1"),
        ("SELECT id::text FROM t ORDER BY -id", "id", "2, 1"),
        ("SELECT (10 - id)::text, id, id::int FROM t ORDER BY abs(id - 3), id", "text id id", "8 2 2, 9 1 1"),
        ("SELECT DISTINCT n, n FROM t ORDER BY n", "n n", "10 10, 20 20"),
    ] {
        let statement = parsed(&test.session, sql);
        let prepared = test.session.prepare(statement).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        let values = if sql.contains('$') { vec![ScalarValue::Int64(Some(1))] } else { Vec::new() };
        let Answer::Rows(answer) = test.session.execute(&prepared, values).await.unwrap() else {
            panic!("{sql} gives no rows")
        };
        let called = |schema: &SchemaRef| {
            schema.fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(called(&prepared.schema().unwrap()), names, "{sql}");
        assert_eq!(called(&answer.schema()), names, "{sql}");
        let found: Vec<String> =
            rows_of(&answer.collect().await.unwrap()).iter().map(|row| row.join(" ")).collect();
        assert_eq!(found.join(", "), rows, "{sql}");
    }
    test.run("CREATE LIVE TABLE l (a BIGINT PRIMARY KEY, b BIGINT)").await;
    test.run("INSERT INTO l SELECT id, id FROM t").await;
    assert_eq!(test.run("SELECT a, b FROM l ORDER BY a").await, [["1", "1"], ["2", "2"]]);
    assert_eq!(test.run("SELECT id FROM (SELECT id, id FROM t) ORDER BY id").await, [["1"], ["2"]]);
    assert_eq!(test.run("SELECT sum FROM (SELECT sum(id), sum(n) FROM t)").await, [["3"]]);
    assert_eq!(
        test.run("SELECT n, count(*) FROM t GROUP BY n ORDER BY count, n LIMIT 1").await,
        [["10", "1"]]
    );
    test.error("SELECT id FROM t AS a, t AS b", ErrorKind::AmbiguousColumn, "column `id` is ambiguous").await;
}

/// A quote in a name stands twice in its text.
#[tokio::test(flavor = "multi_thread")]
async fn schemas_may_have_quotes_in_their_names() {
    let test = TestEngine::new().await;
    test.run("CREATE SCHEMA \"Odd \"\"names\"\"\"").await;
    let found =
        test.run("SELECT schema_name FROM information_schema.schemata WHERE schema_name LIKE 'Odd%'").await;
    assert_eq!(found, [["Odd \"names\""]]);
    test.run("CREATE LIVE TABLE \"Odd \"\"names\"\"\".t (a BIGINT PRIMARY KEY)").await;
    test.run("DROP TABLE \"Odd \"\"names\"\"\".t").await;
    test.run("DROP SCHEMA \"Odd \"\"names\"\"\"").await;
}
