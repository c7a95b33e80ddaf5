//! Random cubes over a random small star, random queries: with and without cubes the answer is the same.
//!
//! A failure prints its seed; `NYALA_SEED=… cargo test` replays it. `NYALA_CASES` asks for more cases.

use arrow::array::{
    BooleanArray, Date32Array, Decimal128Array, Float64Array, Int32Array, Int64Array, RecordBatch,
    StringArray,
};

use crate::batch;
use crate::harness::{TestEngine, assert_same, sorted, write_parquet};
use crate::random::{Random, seed};

const QUERIES_PER_CUBE: usize = 50;

const DIMENSIONS: &[&str] = &[
    "region",
    "city",
    "size",
    "kind",
    "color",
    "flag",
    "day",
    "date_trunc('month', day)",
    "size % 3",
    "lower(kind)",
    "day + 1",
    "day - DATE '2020-01-01'",
];

const MEASURES: &[&str] = &[
    "count(*)",
    "count(amount)",
    "sum(amount)",
    "sum(price)",
    "min(price)",
    "max(amount)",
    "avg(amount)",
    "avg(price)",
    "stddev(price)",
    "var_pop(amount)",
    "corr(amount, price)",
    "covar_samp(price, amount)",
    "regr_slope(price, amount)",
    "count(DISTINCT buyer)",
    "sum(DISTINCT buyer)",
    "bitmap_distinct(buyer)",
    "bitmap_distinct(color)",
    "bitmap_distinct(price)",
    "bitmap_distinct(amount) FILTER (WHERE flag)",
    "bitmap_to_string(bitmap_agg(amount))",
    "bitmap_count(bitmap_union(to_bitmap(buyer)))",
    "intersect_count(buyer, color, 'red', 'blue')",
    "approx_distinct(amount)",
    "approx_distinct(color)",
    "approx_top_k(amount, 3)",
    "min(color)",
    "max(day)",
    "min(day - size)",
    "sum(day - DATE '2020-01-01')",
    "max(day + INTERVAL '36 hours')",
    "bool_or(flag)",
    "bit_xor(buyer)",
    "sum(amount * price)",
    "sum(CASE WHEN flag THEN amount ELSE 0 END)",
    "sum(amount) FILTER (WHERE flag)",
    "sum(small)",
    "count(small)",
    "sum(money)",
    "count(money)",
    "avg(money)",
];

/// Calls that follow from dimensions, or from a measure with this text in it, by some rule of matching.
const DERIVED: &[(&str, &[&str])] = &[
    ("avg(small)", &["sum(small)", "count(small)"]),
    ("avg(money)", &["sum(money)", "count(money)"]),
    ("sum(money)", &["avg(money)"]),
    ("count(amount)", &["avg(amount)"]),
    ("stddev_pop(price)", &["stddev(price)"]),
    ("var(amount)", &["var_pop(amount)"]),
    ("covar_pop(price, amount)", &["covar_samp"]),
    ("regr_intercept(price, amount)", &["regr_slope"]),
    ("sum(2 * amount)", &["sum(amount)"]),
    ("sum(amount * size)", &["sum(amount)", "size"]),
    ("sum(amount - 3)", &["sum(amount)", "count(amount)"]),
    ("sum(small + size)", &["sum(small)", "count(small)", "size"]),
    ("sum(money * 3)", &["sum(money)"]),
    ("sum(1)", &[]),
    ("sum(size)", &["size"]),
    ("avg(size)", &["size"]),
    ("count(city)", &["city"]),
    ("min(city)", &["city"]),
    ("max(region || color)", &["region", "color"]),
    ("count(DISTINCT kind)", &["kind"]),
    ("sum(DISTINCT size)", &["size"]),
    ("bool_and(flag)", &["flag"]),
    ("max(date_trunc('year', day))", &["day"]),
    ("count(*) FILTER (WHERE region = 'north')", &["region"]),
    ("sum(amount) FILTER (WHERE size > 3)", &["sum(amount)", "size"]),
    ("avg(price) FILTER (WHERE city IS NULL OR color = 'red')", &["avg(price)", "city", "color"]),
    ("stddev(price) FILTER (WHERE flag)", &["stddev(price)", "flag"]),
    ("count(DISTINCT buyer) FILTER (WHERE kind = 'K1')", &["count(DISTINCT buyer)", "kind"]),
    ("sum(amount) FILTER (WHERE flag AND region = 'east')", &["sum(amount) FILTER", "region"]),
    ("sum(CASE WHEN region = 'north' THEN amount END)", &["sum(amount)", "region"]),
    ("sum(CASE WHEN city = 'a' THEN amount ELSE 0 END)", &["sum(amount)", "city"]),
    ("sum(CASE WHEN size > 4 THEN price ELSE 0 END)", &["sum(price)", "size"]),
    ("sum(CASE kind WHEN 'K1' THEN small WHEN 'K2' THEN 5 END)", &["sum(small)", "kind"]),
    ("sum(CASE WHEN color = 'red' THEN 1 ELSE 0 END)", &["color"]),
    ("count(CASE WHEN size > 2 THEN 1 END)", &["size"]),
    ("avg(CASE WHEN region = 'south' THEN price END)", &["avg(price)", "region"]),
    ("max(CASE WHEN flag THEN amount ELSE 7 END)", &["max(amount)", "flag"]),
    ("count(DISTINCT buyer)", &["bitmap_distinct(buyer)"]),
    ("count(DISTINCT color)", &["bitmap_distinct(color)"]),
    ("count(DISTINCT buyer) FILTER (WHERE size > 2)", &["bitmap_distinct(buyer)", "size"]),
    ("sum(coalesce(amount, 0))", &["sum(amount)"]),
    ("sum(coalesce(money, 0))", &["sum(money)"]),
    ("avg(coalesce(small, 0))", &["sum(small)"]),
    ("sum(CASE WHEN size > 4 THEN money ELSE 0 END)", &["sum(money)", "size"]),
    ("sum(CASE WHEN kind = 'K1' THEN money ELSE 1.25 END)", &["sum(money)", "kind"]),
    ("min(1)", &[]),
    ("bitmap_distinct(kind)", &["kind"]),
];

const FILTERS: &[&str] = &[
    "region = 'north'",
    "region <> 'south'",
    "city IS NULL",
    "city IN ('a', 'c', 'e')",
    "city LIKE '%b%' OR region = 'east'",
    "size BETWEEN 2 AND 5",
    "size > 3",
    "size IS NOT NULL AND size < 6",
    "kind = 'K1'",
    "lower(kind) = 'k2'",
    "color NOT IN ('red')",
    "NOT flag",
    "flag IS NULL OR flag",
    "day >= DATE '2020-02-10'",
    "date_trunc('month', day) = '2020-02-01'",
    "CASE WHEN size > 4 THEN region ELSE 'north' END = 'north'",
    "coalesce(city, 'none') <> 'none'",
    "extract(month FROM date_trunc('month', day)) = 1",
    "extract(month FROM day) = 2",
    "day >= DATE '2020-02-01'",
    "day BETWEEN DATE '2020-02-01' AND DATE '2020-02-29'",
    "day < DATE '2020-03-01' AND NOT day < DATE '2020-02-01'",
    "date_trunc('quarter', day) = '2020-01-01'",
    "day IS NULL OR day > DATE '2020-03-15'",
    "day IN (DATE '2020-01-01', DATE '2020-02-02', DATE '2020-03-03')",
    "day >= TIMESTAMP '2020-01-31 12:00:00' AND day <> DATE '2020-02-05'",
    "day > DATE '2020-03-01' - INTERVAL '1 month'",
    "buyer BETWEEN 10 AND 39",
    "buyer < 20 OR buyer >= 50",
    "buyer IS NULL",
    "day IS DISTINCT FROM NULL",
    "day IS NOT DISTINCT FROM DATE '2020-02-02'",
    "NOT (day IS NULL)",
    "NOT (day >= DATE '2020-02-01')",
    "day IS DISTINCT FROM DATE '2020-02-02' AND buyer IS DISTINCT FROM NULL",
    "coalesce(day, DATE '2020-02-01') < DATE '2020-03-01'",
];

/// Ways to divide the cube, and ranges of it that can be built.
const DIVISIONS: &[(&str, &[&str])] = &[
    ("day) EVERY INTERVAL '1 month'", &["'2020-01-01' TO '2020-02-01'", "'2020-02-01' TO '2020-04-01'"]),
    ("day) EVERY INTERVAL '1 week'", &["'2019-12-30' TO '2020-01-27'", "'2020-02-10' TO '2020-03-16'"]),
    ("buyer) EVERY 20", &["0 TO 20", "20 TO 60"]),
];

/// Tables and their joins with the fact table.
const JOINS: &[(&str, &str, &[&str])] = &[
    ("place", "sales.place = place.place_id", &["region", "city", "size"]),
    ("product", "sales.product = product.product_id", &["kind"]),
];

pub async fn star(random: &mut Random) -> TestEngine {
    let test = TestEngine::new().await;
    let (places, products) = (3 + random.below(20) as i32, 2 + random.below(6) as i32);
    let regions = ["north", "south", "east"];
    let cities = [Some("a"), Some("b"), Some("c"), Some("ab"), None];
    let place = batch!(
        "place_id" => Int32Array::from_iter_values(0..places),
        "region" => StringArray::from_iter_values((0..places).map(|_| *random.pick(&regions))),
        "city" => StringArray::from_iter((0..places).map(|_| *random.pick(&cities))),
        "size" => Int32Array::from_iter((0..places).map(|_| random.chance(90).then_some(random.below(8) as i32))),
    );
    let product = batch!(
        "product_id" => Int32Array::from_iter_values(0..products),
        "kind" => StringArray::from_iter((0..products).map(|_| random.chance(85).then_some(format!("K{}", random.below(3))))),
    );
    let rows = [0, 1, 300, 1500][random.below(4)];
    // Sometimes a key has no partner: then the join loses rows and must not be dropped.
    let lost = if random.chance(30) { 1 } else { 0 };
    let keys = (places + lost) as usize;
    // Each file has some of the days, or all of them, so that a change may concern one segment or all.
    let files = 1 + random.below(3);
    let by_day = random.chance(50);
    for file in 0..files {
        let days = if by_day { 90 / files * file..90 / files * (file + 1) } else { 0..90 };
        let sales = sales(random, rows / files, (keys, lost == 0), products as usize, days);
        write_parquet(&test.path(&format!("sales/{file}.parquet")), &[sales]);
    }
    // Some regions lie in two lands, some in none.
    let lands = random.below(5);
    let land = batch!(
        "land_region" => StringArray::from_iter((0..lands).map(|_| random.chance(90).then_some(*random.pick(&regions)))),
        "land" => StringArray::from_iter((0..lands).map(|_| random.chance(90).then_some(*random.pick(&["x", "y"])))),
    );
    test.table("land", &[land]).await;
    test.table("place", &[place]).await;
    test.table("product", &[product]).await;
    let location = test.path("sales");
    let create = "CREATE EXTERNAL TABLE sales STORED AS PARQUET LOCATION";
    test.run(&format!("{create} '{}/'", location.display())).await;
    test.run("SET nyala.check_files = on").await;
    test
}

/// Rows of the fact table. `keys` says how many places there are, and whether each row has one of them.
fn sales(
    random: &mut Random,
    rows: usize,
    (keys, whole): (usize, bool),
    products: usize,
    days: std::ops::Range<usize>,
) -> RecordBatch {
    batch!(
        "place" => Int32Array::from_iter((0..rows).map(|_| (whole || random.chance(95)).then_some(random.below(keys) as i32))),
        "product" => Int32Array::from_iter_values((0..rows).map(|_| random.below(products) as i32)),
        "day" => Date32Array::from_iter((0..rows).map(|_| random.chance(95).then_some(18_262 + (days.start + random.below(days.len())) as i32))),
        "color" => StringArray::from_iter((0..rows).map(|_| random.chance(80).then_some(*random.pick(&["red", "green", "blue"])))),
        "flag" => BooleanArray::from_iter((0..rows).map(|_| random.chance(80).then_some(random.chance(50)))),
        "amount" => Int64Array::from_iter((0..rows).map(|_| random.chance(85).then_some(random.below(1000) as i64 - 300))),
        "price" => Float64Array::from_iter((0..rows).map(|_| random.chance(90).then_some(random.below(100_000) as f64 / 128.0))),
        "buyer" => Int64Array::from_iter((0..rows).map(|_| random.chance(90).then_some(random.below(60) as i64))),
        "small" => Int32Array::from_iter((0..rows).map(|_| random.chance(85).then_some(random.below(100) as i32 - 50))),
        "money" => Decimal128Array::from_iter((0..rows).map(|_| random.chance(85).then_some(random.below(90_000) as i128 - 9_000)))
            .with_precision_and_scale(10, 2)
            .unwrap(),
    )
}

/// A file that was not there when segments were built, or one that is replaced or gone.
fn change_files(random: &mut Random, test: &TestEngine) {
    let files: Vec<_> =
        std::fs::read_dir(test.path("sales")).unwrap().map(|file| file.unwrap().path()).collect();
    let start = random.below(80);
    let more = sales(random, 40, (3, true), 2, start..start + 10);
    match random.below(3) {
        0 if files.len() > 1 => std::fs::remove_file(random.pick(&files)).unwrap(),
        1 => write_parquet(random.pick(files.as_slice()).as_path(), &[more]),
        _ => write_parquet(&test.path(&format!("sales/new-{}.parquet", files.len())), &[more]),
    }
}

/// Builds all of the cube or some ranges, and sometimes merges, then sometimes lets files change.
pub async fn build(random: &mut Random, test: &TestEngine, cube: &str, ranges: &[&str]) {
    if ranges.is_empty() || random.chance(50) {
        test.run(&format!("BUILD CUBE {cube}")).await;
    } else {
        let range = *random.pick(ranges);
        test.run(&format!("BUILD CUBE {cube} FROM {range}")).await;
    }
    if !ranges.is_empty() && random.chance(30) {
        // Refused where there is a hole or nothing; that is fine.
        let _ = test.try_run(&format!("MERGE CUBE {cube}")).await;
    }
    if random.chance(30) {
        change_files(random, test);
        if random.chance(30) {
            let again = if random.chance(50) { "BUILD" } else { "REFRESH" };
            test.run(&format!("{again} CUBE {cube}")).await;
        }
    }
}

/// Some changes of the cube, and sometimes a build. Each change also updates `cube`, so that queries ask for
/// the new dimensions and measures.
async fn change(random: &mut Random, test: &TestEngine, cube: &mut Cube) {
    for _ in 0..random.below(4) {
        let action = match random.below(8) {
            0 | 1 => {
                let dimension = *random.pick(DIMENSIONS);
                match random.chance(50) {
                    true => format!("ADD DIMENSION {dimension}"),
                    false => format!("ADD DIMENSION {dimension}, GROUPING SET ({dimension})"),
                }
            }
            2 => format!("DROP DIMENSION {}", random.pick(&cube.1)),
            3 | 4 => format!("ADD MEASURE {}", random.pick(MEASURES)),
            5 => format!("DROP MEASURE {}", random.pick(&cube.2)),
            verb => {
                let set = random.some(&cube.1, 3).join(", ");
                format!("{} GROUPING SET ({set})", ["ADD", "DROP"][verb - 6])
            }
        };
        let sql = format!("ALTER CUBE c {action}");
        match test.try_run(&sql).await {
            Ok(_) => {
                cube.0 = format!("{}\n{sql}", cube.0);
                follow(cube, &action);
            }
            // The action has duplicates, missing dimensions or measures, or empty sets.
            Err(error) => assert!(
                ["already", "has no dimension", "has no measure", "no grouping set", "would have no measure"]
                    .iter()
                    .any(|words| error.message.contains(words)),
                "{}\n{sql}\n{error:?}",
                cube.0
            ),
        }
        if random.chance(15) {
            change_files(random, test);
        }
        if random.chance(75) {
            test.run("BUILD CUBE c").await;
        }
    }
}

/// Updates the dimensions and measures of `cube` after a change, as far as queries should ask for them.
fn follow(cube: &mut Cube, action: &str) {
    let first = action.split(", GROUPING").next().unwrap();
    let added = |items: &[&'static str], verb: &str| {
        items.iter().find(|item| first == format!("ADD {verb} {item}")).copied()
    };
    cube.1.extend(added(DIMENSIONS, "DIMENSION"));
    cube.2.extend(added(MEASURES, "MEASURE"));
    let dropped = |verb: &str, item: &str| action == format!("DROP {verb} {item}");
    if cube.1.len() > 1 {
        cube.1.retain(|item| !dropped("DIMENSION", item));
    }
    if cube.2.len() > 1 {
        cube.2.retain(|item| !dropped("MEASURE", item));
    }
}

fn from_all(random: &mut Random) -> String {
    if random.chance(50) {
        let joins = JOINS.iter().map(|(table, on, _)| {
            let side = if random.chance(12) { "LEFT " } else { "" };
            format!("{side}JOIN {table} ON {on}")
        });
        format!("sales {}", joins.collect::<Vec<_>>().join(" "))
    } else {
        "sales JOIN product ON product_id = product JOIN place ON place = place_id".to_owned()
    }
}

pub type Cube = (String, Vec<&'static str>, Vec<&'static str>, &'static [&'static str]);

pub fn random_cube(random: &mut Random, name: &str) -> Cube {
    let mut dimensions = random.some(DIMENSIONS, 6);
    if dimensions.is_empty() {
        dimensions.push("region");
    }
    let mut measures = random.some(MEASURES, 8);
    if !measures.contains(&"count(*)") {
        measures.push("count(*)");
    }
    let mut elements = Vec::new();
    let mut rest = dimensions.as_slice();
    while !rest.is_empty() {
        let (taken, left) = rest.split_at(1 + random.below(rest.len().min(3)));
        rest = left;
        let list = taken.join(", ");
        elements.push(match random.below(4) {
            0 => list,
            1 => format!("ROLLUP ({list})"),
            2 => format!("CUBE ({list})"),
            _ => format!("GROUPING SETS (({list}), ())"),
        });
    }
    let filter = if random.chance(15) { "WHERE flag IS NOT NULL " } else { "" };
    let (division, ranges) = random.pick(DIVISIONS);
    let (division, ranges) = match random.chance(60) {
        true => (format!(" PARTITION BY RANGE ({division}"), *ranges),
        false => (String::new(), [].as_slice()),
    };
    let sql = format!(
        "CREATE CUBE {name}{division} AS SELECT {} FROM {} {filter}GROUP BY {}",
        measures.join(", "),
        from_all(random),
        elements.join(", ")
    );
    (sql, dimensions, measures, ranges)
}

/// Calls of the query: measures, or aggregates that follow from those of the cube.
fn random_calls(
    random: &mut Random,
    dimensions: &[&'static str],
    measures: &[&'static str],
) -> Vec<&'static str> {
    let stray = random.chance(5);
    let mut calls = random.some(if stray { MEASURES } else { measures }, 4);
    let known = |text: &&str| dimensions.iter().chain(measures).any(|known| known.contains(*text));
    for _ in 0..random.below(3) {
        let (call, needs) = random.pick(DERIVED);
        if (stray || needs.iter().all(known)) && !calls.contains(call) {
            calls.push(call);
        }
    }
    if calls.is_empty() {
        calls.push("count(*)");
    }
    calls
}

fn random_filters(random: &mut Random, dimensions: &[&'static str], stray: bool) -> Vec<&'static str> {
    let near = |filter: &str| {
        dimensions.iter().any(|d| {
            filter.contains(d) || filter.contains("buyer") || (d.contains("day") && filter.contains("day"))
        })
    };
    let usable: Vec<&str> = FILTERS.iter().filter(|f| stray || near(f)).copied().collect();
    if usable.is_empty() { Vec::new() } else { random.some(&usable, 2) }
}

fn random_from(random: &mut Random, text: &str) -> String {
    let mut from = "sales".to_owned();
    for (table, on, columns) in JOINS {
        if columns.iter().any(|column| text.contains(column)) || random.chance(20) {
            let side = if random.chance(20) { "LEFT " } else { "" };
            from = format!("{from} {side}JOIN {table} ON {on}");
        }
    }
    if text.contains("land") {
        let side = if random.chance(40) { "LEFT " } else { "" };
        from = format!("{from} {side}JOIN land ON land_region = region");
    }
    from
}

/// The groups, plainly or as sets, and a column that tells the sets apart.
fn random_grouping(random: &mut Random, groups: &[&str]) -> (String, Option<String>) {
    let list = groups.join(", ");
    if groups.is_empty() || random.chance(75) {
        return (list, None);
    }
    let grouping = match random.below(4) {
        0 => format!("ROLLUP ({list})"),
        1 => format!("CUBE ({list})"),
        2 => format!("GROUPING SETS (({list}), ({}), ())", groups[0]),
        _ => format!("GROUPING SETS (({list}), ({list}))"),
    };
    (grouping, Some(format!("GROUPING({list}) AS sets")))
}

pub fn random_query(
    random: &mut Random,
    dimensions: &[&'static str],
    measures: &[&'static str],
    filtered: bool,
) -> String {
    let stray = random.chance(10);
    let mut groups = random.some(if stray { DIMENSIONS } else { dimensions }, 3);
    let mut filters = random_filters(random, dimensions, stray);
    if filtered && random.chance(80) {
        filters.push("flag IS NOT NULL");
    }
    if random.chance(if dimensions.contains(&"region") { 12 } else { 2 }) {
        groups.push("land");
        groups.extend((!groups.contains(&"region")).then_some("region"));
    }
    let distinct = !groups.is_empty() && random.chance(10);
    let calls = if distinct { Vec::new() } else { random_calls(random, dimensions, measures) };
    let from =
        random_from(random, &format!("{} {} {}", groups.join(" "), filters.join(" "), calls.join(" ")));
    let (grouping, sets) = if distinct { (String::new(), None) } else { random_grouping(random, &groups) };
    let mut columns: Vec<String> = groups.iter().enumerate().map(|(i, g)| format!("{g} AS g{i}")).collect();
    columns.extend(calls.iter().enumerate().map(|(i, c)| format!("{c} AS v{i}")));
    let in_sets = sets.is_some();
    columns.extend(sets);
    let select = if distinct { "SELECT DISTINCT" } else { "SELECT" };
    let mut sql = format!("{select} {} FROM {from}", columns.join(", "));
    if !filters.is_empty() {
        sql = format!("{sql} WHERE ({})", filters.join(") AND ("));
    }
    if !grouping.is_empty() {
        sql = format!("{sql} GROUP BY {grouping}");
    }
    if random.chance(15) && !distinct {
        sql = format!("{sql} HAVING count(*) > {}", random.below(5));
    }
    if random.chance(20) && !groups.is_empty() && !in_sets {
        let order: Vec<String> = (0..groups.len()).map(|i| format!("g{i}")).collect();
        sql = format!("{sql} ORDER BY {} LIMIT {}", order.join(", "), 1 + random.below(10));
    }
    if random.chance(15) { format!("SELECT * FROM ({sql}) AS q") } else { sql }
}

#[tokio::test(flavor = "multi_thread")]
async fn cubes_never_change_an_answer() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let cases = number("NYALA_CASES").unwrap_or(2_000) as usize;
    let seed = seed();
    let mut random = Random(seed);
    let (mut done, mut hits, mut warm) = (0, 0, 0);
    while done < cases {
        let test = star(&mut random).await;
        for _ in 0..2 {
            let mut parts = random_cube(&mut random, "c");
            test.run(&parts.0).await;
            build(&mut random, &test, "c", parts.3).await;
            change(&mut random, &test, &mut parts).await;
            let (cube, dimensions, measures, _) = parts;
            let other = random.chance(25).then(|| random_cube(&mut random, "d"));
            if let Some((cube, .., ranges)) = &other {
                test.run(cube).await;
                build(&mut random, &test, "d", ranges).await;
            }
            for _ in 0..QUERIES_PER_CUBE {
                let query = random_query(
                    &mut random,
                    &dimensions,
                    &measures,
                    cube.contains("WHERE flag IS NOT NULL"),
                );
                let before = test.engine.stats().cube_hits;
                let with = sorted(test.run(&query).await);
                hits += usize::from(test.engine.stats().cube_hits > before);
                test.settle().await;
                let in_memory = test.engine.stats().hot_cuboids.hits;
                let again = sorted(test.run(&query).await);
                warm += usize::from(test.engine.stats().hot_cuboids.hits > in_memory);
                test.run("SET nyala.use_cubes = off").await;
                let without = sorted(test.run(&query).await);
                test.run("SET nyala.use_cubes = on").await;
                let report = match with == without && again == without {
                    true => String::new(),
                    false => {
                        let plans = test.run(&format!("EXPLAIN {query}")).await;
                        plans.into_iter().map(|row| row[1].clone()).collect::<Vec<_>>().join("\n")
                    }
                };
                let context = format!("NYALA_SEED={seed}\n{cube}\n{query}\n{report}");
                assert_same(&context, &with, &without);
                assert_same(&format!("from memory: {context}"), &again, &without);
                done += 1;
            }
            test.run("DROP CUBE c").await;
            test.run("DROP CUBE IF EXISTS d").await;
        }
    }
    println!("{done} queries, {hits} answered from cubes, {warm} of them from memory too");
    assert!(warm * 10 > hits * 9, "only {warm} of {hits} answers came from memory the second time");
    // The share depends on the drawn cubes: once it was less than a quarter.
    assert!(hits * 10 > done, "only {hits} of {done} queries were answered from a cube");
}
