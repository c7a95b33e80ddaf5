//! RECOMMEND CUBE: its proposals can be created and built, and then answer the recorded queries.

use nyala_engine::ErrorKind;

use crate::cubes::shop_star;
use crate::harness::TestEngine;
use crate::star::{Star, queries, repository};

/// Asks, builds the proposed cubes, and checks that they answer all queries; gives the proposals.
async fn round_trip(test: &TestEngine, wish: &str, asked: &[String]) -> Vec<Vec<String>> {
    for query in asked {
        test.run(query).await;
    }
    let rows = test.run(wish).await;
    let proposals: Vec<Vec<String>> = rows.iter().filter(|row| row[0] != "NULL").cloned().collect();
    for proposal in &proposals {
        test.run(&proposal[0]).await;
    }
    for cube in test.run("SHOW CUBES").await {
        test.run(&format!("BUILD CUBE {}", cube[1])).await;
    }
    for query in asked {
        let report = test.explain(query).await;
        assert!(!report.contains("answered from the tables"), "{query}\n{report}\n{proposals:#?}");
        test.check_hit(query).await;
        test.run(query).await;
    }
    let left = test.run(wish).await;
    assert!(left.is_empty(), "{left:#?}");
    proposals
}

fn number(text: &str) -> f64 {
    text.parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_star_is_served_by_what_is_proposed() {
    let test = shop_star().await;
    let all = "sales JOIN shop ON shop = shop_id JOIN product ON product = product_id";
    let asked = [
        format!("SELECT country, sum(quantity) FROM {all} WHERE category = 'tea' GROUP BY country"),
        format!("SELECT upper(city), avg(price), count(DISTINCT shop) FROM {all} GROUP BY upper(city)"),
        "SELECT date_trunc('month', day) AS m, count(*) FROM sales GROUP BY 1".to_owned(),
        "SELECT product, shop, max(price) FROM sales WHERE shop IN (1, 3) GROUP BY ROLLUP (product, shop)"
            .to_owned(),
        "SELECT DISTINCT category FROM sales JOIN product ON product = product_id".to_owned(),
        "SELECT sum(quantity) FROM sales".to_owned(),
    ];
    let proposals = round_trip(&test, "RECOMMEND CUBE FOR TABLE sales", &asked).await;
    // Both joins keep every row, so one cube serves queries with and without them.
    assert_eq!(proposals.len(), 1, "{proposals:#?}");
    let [statement, asked, share, cuboids, cells, bytes, rows, ..] = proposals[0].as_slice() else {
        panic!("{proposals:?}")
    };
    assert!(statement.starts_with("CREATE CUBE public.sales_cube AS SELECT "), "{statement}");
    assert_eq!((asked.as_str(), rows.as_str()), ("6", "2000"), "{proposals:#?}");
    assert!((number(share) - 1.0).abs() < 1e-9, "{share}");
    assert!(number(cuboids) >= 2.0 && number(bytes) > number(cells), "{proposals:#?}");
    // The whole table was seen, so the estimate is exact.
    let built: f64 = test.run("SHOW CUBES").await.iter().map(|cube| number(&cube[8])).sum();
    assert!((built - number(cells)).abs() < 0.5, "{built} {cells}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_cube_can_serve_has_its_reason() {
    let test = shop_star().await;
    test.run("SELECT median(price) FROM sales").await;
    test.run("SELECT sum(quantity) FROM sales WHERE day > '2022-02-02'").await;
    test.run("SELECT count(*) FROM shop").await;
    let rows = test.run("RECOMMEND CUBE FOR SCHEMA public").await;
    let reasons: Vec<&String> = rows.iter().filter(|row| row[0] == "NULL").map(|row| &row[7]).collect();
    assert!(reasons.iter().any(|reason| reason.contains("median")), "{rows:#?}");
    let shares: f64 = rows.iter().map(|row| number(&row[2])).sum();
    assert!((shares - 1.0).abs() < 1e-9, "{rows:#?}");
    assert!(rows.iter().all(|row| !row[0].contains("median")), "{rows:#?}");
    let narrow = test.run("RECOMMEND CUBE FOR TABLE shop").await;
    assert!(narrow.iter().all(|row| !row[0].contains("sales") && row[1] == "1"), "{narrow:#?}");
    test.run("CREATE SCHEMA empty").await;
    assert!(test.run("RECOMMEND CUBE FOR SCHEMA empty").await.is_empty());
    test.error("RECOMMEND CUBE FOR SCHEMA none", ErrorKind::UndefinedObject, "`none`").await;
    test.error("RECOMMEND CUBE FOR TABLE none", ErrorKind::UndefinedTable, "`public.none`").await;
}

/// Queries could not read a cube that is switched off, so that it is not called unused.
#[tokio::test(flavor = "multi_thread")]
async fn a_cube_that_is_off_is_told_as_such() {
    let test = shop_star().await;
    test.run("CREATE CUBE c AS SELECT shop, max(quantity) FROM sales GROUP BY shop").await;
    test.run("BUILD CUBE c").await;
    for function in ["sum", "count", "min", "max", "avg"] {
        for column in ["quantity", "price"] {
            for group in ["product", "day"] {
                test.run(&format!("SELECT {group}, {function}({column}) FROM sales GROUP BY {group}")).await;
            }
        }
    }
    let told = async || -> Vec<[String; 2]> {
        let rows = test.run("RECOMMEND CUBE FOR TABLE sales").await.into_iter();
        let of_cube = rows.filter(|row| row[0] == "DROP CUBE public.c" || row[7].contains("`public.c`"));
        of_cube.map(|row| [row[0].clone(), row[7].clone()]).collect()
    };
    let advice = async || -> Vec<String> {
        test.run("ANALYZE CUBE c").await.into_iter().map(|row| row[5].clone()).collect()
    };
    let unused = "none of 20 different queries over `public.sales` read it since it was built";
    assert_eq!(told().await, [["DROP CUBE public.c", unused]]);
    assert_eq!(advice().await, ["not used"]);
    test.run("ALTER CUBE c SET (answers = off)").await;
    let off = "cube `public.c` is switched off, so no query reads it; \
               ALTER CUBE public.c SET (answers = on) switches it on";
    assert_eq!(told().await, [["NULL", off]]);
    assert_eq!(advice().await, ["switched off"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_star_schema_benchmark_is_served_by_what_is_proposed() {
    let star = Star::generate("0.01");
    let test = TestEngine::new().await;
    let tables = std::fs::read_to_string(repository("benchmarks/ssb/tables.sql")).unwrap();
    let tables = tables.replace("${DATA}", &star.files().to_string_lossy());
    for statement in tables.split(';').filter(|text| text.contains("CREATE")) {
        test.run(statement).await;
    }
    let asked: Vec<String> = queries().into_iter().map(|(_, query)| query).collect();
    let proposals = round_trip(&test, "RECOMMEND CUBE FOR SCHEMA public", &asked).await;
    assert_eq!(proposals.len(), 1, "{proposals:#?}");
    assert_eq!(proposals[0][1], "13", "{proposals:#?}");
    // There are fewer sets than queries, because some serve several.
    assert!((2.0..=13.0).contains(&number(&proposals[0][3])), "{proposals:#?}");
    println!("{proposals:#?}");
}
