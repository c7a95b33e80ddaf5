//! Tables, joins, dimensions and measures of a cube, as Kylin's API shows them.

use nyala_engine::{CubeDescription, DescribedExpr, ErrorKind};
use nyala_model::QualifiedName;

use crate::cubes::shop_star;
use crate::harness::TestEngine;

async fn described(test: &TestEngine, select: &str) -> CubeDescription {
    test.run(&format!("CREATE CUBE c AS {select}")).await;
    let described = test.engine.describe_cube(&QualifiedName::new("public", "c")).await.unwrap();
    test.run("DROP CUBE c").await;
    described
}

/// Each table with its alias, `left` if it is optional, and its keys.
fn tables(cube: &CubeDescription) -> Vec<String> {
    let shown = cube.tables.iter().map(|table| {
        let keys = table.keys.iter().map(|(own, other)| format!(" {own} = {other}"));
        let left = if table.is_optional { " left" } else { "" };
        format!("{} {}{left}{}", table.name, table.alias, keys.collect::<String>())
    });
    shown.collect()
}

fn shown(expression: &DescribedExpr) -> String {
    match expression {
        DescribedExpr::Column(column) => column.to_string(),
        DescribedExpr::Constant(text) => format!("constant {text}"),
        DescribedExpr::Sql(sql) => format!("sql {sql}"),
    }
}

/// Each dimension with its expression.
fn dimensions(cube: &CubeDescription) -> Vec<String> {
    let each = cube.dimensions.iter();
    each.map(|dimension| format!("{}: {}", dimension.name, shown(&dimension.expression))).collect()
}

/// Each measure with its function and its arguments.
fn measures(cube: &CubeDescription) -> Vec<String> {
    let shown = cube.measures.iter().map(|measure| {
        let distinct = if measure.is_distinct { " distinct" } else { "" };
        let arguments: Vec<String> = measure.arguments.iter().map(shown).collect();
        format!("{}: {}{distinct} of {}", measure.call, measure.function, arguments.join(", "))
    });
    shown.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_have_the_columns_that_join_them() {
    let test = shop_star().await;
    for (from, expected) in [
        (
            "sales s JOIN shop ON s.shop = shop_id LEFT JOIN product p ON p.product_id = s.product",
            [
                "public.shop shop shop.shop_id = sales.shop",
                "public.product product left product.product_id = sales.product",
            ],
        ),
        (
            "sales, product, shop WHERE shop_id = shop AND product = product_id",
            [
                "public.product product product.product_id = sales.product",
                "public.shop shop shop.shop_id = sales.shop",
            ],
        ),
        // The second use of a table gets a number.
        (
            "sales JOIN shop a ON shop = a.shop_id JOIN shop b ON product = b.shop_id",
            [
                "public.shop shop shop.shop_id = sales.shop",
                "public.shop shop_2 shop_2.shop_id = sales.product",
            ],
        ),
        // A join by more than equal columns shows no keys.
        (
            "sales JOIN shop ON shop = shop_id LEFT JOIN product ON product = product_id AND product_id < shop",
            ["public.shop shop shop.shop_id = sales.shop", "public.product product left"],
        ),
    ] {
        let cube = described(&test, &format!("SELECT day, sum(quantity) FROM {from} GROUP BY day")).await;
        let expected = [&["public.sales sales"][..], &expected].concat();
        assert_eq!(tables(&cube), expected, "{from}");
        assert!(cube.conditions.is_empty(), "{from}: {:?}", cube.conditions);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dimensions_and_measures_are_columns_or_sql() {
    let test = shop_star().await;
    let cube = described(
        &test,
        "SELECT a.city, b.city AS other, date_trunc('month', day) AS month, buyer, sum(quantity), sum(shop), count(*), \
         sum((quantity + buyer) * quantity), count(DISTINCT buyer), bitmap_distinct(product), \
         sum(money) FILTER (WHERE quantity = buyer) \
         FROM sales JOIN shop a ON shop = a.shop_id JOIN shop b ON product = b.shop_id WHERE quantity < buyer \
         GROUP BY a.city, b.city, date_trunc('month', day), buyer",
    )
    .await;
    let found = dimensions(&cube);
    assert_eq!(found[..2], ["city: shop.city", "other: shop_2.city"]);
    assert!(
        found[2].starts_with("month: sql date_trunc(") && found[2].contains("sales.\"day\""),
        "{found:?}"
    );
    assert_eq!(found[3], "buyer: sales.buyer");
    assert_eq!(
        measures(&cube),
        [
            "sum(sales.quantity): sum of sales.quantity",
            "sum(sales.shop): sum of sales.shop",
            "count(1): count of constant 1",
            "sum((sales.quantity + sales.buyer) * sales.quantity): sum of sql (sales.quantity + sales.buyer) * sales.quantity",
            "count(DISTINCT sales.buyer): count distinct of sales.buyer",
            "bitmap_distinct(sales.product): bitmap_distinct of sales.product",
            "sum(sales.money) FILTER (WHERE sales.quantity = sales.buyer): sum of sql CASE WHEN sales.quantity = sales.buyer \
             THEN sales.money END",
        ]
    );
    assert_eq!(cube.conditions, ["sales.quantity < sales.buyer"]);
    assert!(cube.measures[6].data_type.is_decimal(), "{:?}", cube.measures[6].data_type);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_cube_has_no_parts() {
    let test = shop_star().await;
    let error = test.engine.describe_cube(&QualifiedName::new("public", "missing")).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::UndefinedTable, "{error:?}");
}
