//! Random shapes, each asked again and again with other values: cached plans must give the same rows as the tables.
//!
//! A failure prints its seed; `NYALA_SEED=… cargo test` replays it. `NYALA_CASES` asks for more shapes.

use std::time::Duration;

use crate::harness::{TestEngine, assert_same, sorted};
use crate::plans::{cube, hits, raw};
use crate::random::{Random, seed};

const GROUPS: &[&str] = &["year", "city", "day", "price", "rate"];
const CALLS: &[&str] = &["sum(a)", "count(*)", "avg(a)", "sum(a) / count(*)"];

/// A query with the values of one run.
struct Query {
    sql: String,
    /// For LIMIT without ORDER BY: the query without the limit, and the most rows of the answer.
    part: Option<(String, usize)>,
}

/// Draws the shape, which stays the same from one run to the next, and the values, which change.
struct Dice {
    shape: Random,
    values: Random,
}

impl Dice {
    fn year(&mut self) -> usize {
        1990 + self.values.below(11)
    }

    fn small(&mut self) -> usize {
        self.values.below(14)
    }

    fn condition(&mut self) -> String {
        let (year, other) = (self.year(), self.year());
        let (k, n) = (self.small(), self.small());
        match self.shape.below(18) {
            0 => format!("year = {year}"),
            1 => format!("year > {year} OR year IS NULL"),
            2 => format!("year IN ({year}, {other})"),
            3 => format!("year NOT IN ({year}, {other}, 1994)"),
            4 => format!("year IN ({year}, 1994) AND year IN (1994, {other})"),
            5 => format!("year IN ({year}, 1995) OR year NOT IN (1995, {other})"),
            6 => format!("city = 'city''{k}'"),
            7 => format!("city LIKE 'city''{}%' OR city IS NULL", k % 10),
            8 => format!("day BETWEEN DATE '1991-11-2{}' AND DATE '1991-12-0{}'", k % 10, 1 + n % 9),
            9 => format!("price::int = {}", k % 4),
            10 => format!("price::int IN (1, {})", n % 4),
            11 => format!("NOT TRY_CAST(price AS SMALLINT) > {}", k % 3),
            12 => format!("price <= {}.25", k % 3),
            13 => format!("rate::int = {}", k % 3),
            14 => format!("rate > 0.{k} AND rate <> 0.5"),
            15 => format!("CASE WHEN year <> {year} THEN 1000 / (year - {year}) > {k} ELSE false END"),
            16 => format!("year::bigint < {year} AND CAST(year AS TEXT) <> '{other}'"),
            _ => format!("year + {k} > {other} AND NOT year = {year}"),
        }
    }

    fn conditions(&mut self) -> String {
        match self.shape.below(4) {
            0 => String::new(),
            1 => format!("WHERE {}", self.condition()),
            2 => format!("WHERE ({}) AND ({})", self.condition(), self.condition()),
            _ => format!("WHERE ({}) OR ({})", self.condition(), self.condition()),
        }
    }

    fn groups(&mut self) -> Vec<&'static str> {
        let mut groups = self.shape.some(GROUPS, 3);
        if groups.is_empty() {
            groups.push("year");
        }
        groups
    }

    /// An aggregation with the groups and `v` as columns.
    fn block(&mut self, groups: &[&str]) -> String {
        let (call, conditions) = (*self.shape.pick(CALLS), self.conditions());
        let having = match self.shape.below(5) {
            0 => format!("HAVING sum(a) > {}", self.year() * 50),
            1 => format!("HAVING count(*) > {} AND sum(a) / count(*) > {}", self.small(), 480 + self.small()),
            _ => String::new(),
        };
        let list = groups.join(", ");
        format!("SELECT {list}, {call} AS v FROM f {conditions} GROUP BY {list} {having}")
    }

    fn query(&mut self) -> Query {
        let groups = self.groups();
        let (list, first) = (groups.join(", "), groups[0]);
        let block = self.block(&groups);
        let (few, k) = (1 + self.values.below(9), self.small());
        let sql = match self.shape.below(14) {
            0 | 1 => block,
            2 => {
                return Query { sql: format!("{block} LIMIT {few}"), part: Some((block, few)) };
            }
            3 => {
                // A limit that is the same in all runs is part of the shape.
                return Query { sql: format!("{block} LIMIT 4"), part: Some((block, 4)) };
            }
            4 => format!("SELECT count(*), count(v) > {k} FROM ({block} LIMIT {few}) q"),
            5 => format!("{block} ORDER BY {list}, v LIMIT {few} OFFSET {}", k % 5),
            6 => {
                let kind = *self.shape.pick(&["UNION ALL", "UNION", "EXCEPT", "INTERSECT"]);
                format!("{block} {kind} {}", self.block(&groups))
            }
            7 => format!("SELECT count(*) > {k}, min(v) FROM ({block} UNION ALL {}) q", self.block(&groups)),
            8 => format!("SELECT count(*) FROM ({block}) p CROSS JOIN ({}) q", self.block(&["year"])),
            9 => {
                let side = *self.shape.pick(&["JOIN", "LEFT JOIN"]);
                let years = self.block(&["year"]);
                format!(
                    "SELECT q.year, v, n FROM ({years}) q {side} beside ON beside.year = q.year AND id > {k}"
                )
            }
            10 => {
                let among = format!("(SELECT year FROM beside WHERE n <> {k})");
                format!("SELECT city, sum(a) FROM f WHERE year IN {among} AND price < {k} GROUP BY city")
            }
            11 => {
                let least = format!("(SELECT min(v) FROM ({}) s)", self.block(&["day"]));
                format!("SELECT {list}, v FROM ({block}) q WHERE v >= {least}")
            }
            12 => {
                format!("SELECT {first}, count(*), max(v) FROM ({block}) q WHERE v <> {k} GROUP BY {first}")
            }
            _ => format!("SELECT DISTINCT {first}, v IS NULL FROM ({block}) q"),
        };
        Query { sql, part: None }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn random_shapes_with_random_values_give_the_answers_of_the_tables() {
    let test = TestEngine::new().await;
    cube(&test).await;
    test.run("CREATE LIVE TABLE beside (id BIGINT PRIMARY KEY, year INT, n INT)").await;
    let shapes = std::env::var("NYALA_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(150);
    let mut random = Random(seed());
    let (mut ready, mut id) = (0, 0);
    for _ in 0..shapes {
        let shape = random.next();
        for run in 0..7 {
            if random.chance(30) {
                id += 1;
                let (year, n) = (1990 + random.below(11), random.below(5));
                test.run(&format!("INSERT INTO beside VALUES ({}, {year}, {n})", id % 40)).await;
            }
            let mut dice = Dice { shape: Random(shape), values: Random(random.next()) };
            let Query { sql, part } = dice.query();
            let before = hits(&test);
            let answer = sorted(test.run(&sql).await);
            ready += hits(&test) - before;
            let whole = raw(&test, part.as_ref().map_or(&sql, |(whole, _)| whole)).await;
            match part {
                None => assert_same(&format!("run {run}: {sql}"), &answer, &whole),
                Some((_, most)) => {
                    assert_eq!(answer.len(), whole.len().min(most), "run {run}: {sql}");
                    let groups = |row: &[String]| row[..row.len() - 1].to_vec();
                    let mut known = whole.iter().map(|row| groups(row));
                    for row in &answer {
                        // Averages may differ in their last digit, groups do not.
                        assert!(known.any(|known| known == groups(row)), "run {run}: {row:?} of {sql}");
                    }
                }
            }
            if run < 4 {
                test.settle().await;
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
    }
    println!("{ready} of {} answers came from ready plans", shapes * 7);
    assert!(ready * 4 > shapes, "only {ready} answers of {shapes} shapes came from ready plans");
}
