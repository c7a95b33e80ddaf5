//! Conditions that scans of live tables check themselves, against a model of the table and of SQL's three truth values.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;

use crate::harness::{TestEngine, sorted};
use crate::random::{Random, seed};

const KEYS: usize = 150_000;

#[derive(Clone)]
struct Row {
    number: Option<i64>,
    text: Option<String>,
}

impl Row {
    fn random(dice: &mut Random) -> Self {
        let number = (!dice.chance(10)).then(|| dice.below(200) as i64 - 100);
        let text = (!dice.chance(10)).then(|| format!("{:03}", dice.below(300)));
        Self { number, text }
    }

    fn sql(&self, id: i64) -> String {
        let number = self.number.map_or("NULL".to_owned(), |number| number.to_string());
        let text = self.text.as_ref().map_or("NULL".to_owned(), |text| format!("'{text}'"));
        format!("({id}, {number}, {text})")
    }
}

/// A condition on a row.
enum Condition {
    Id(&'static str, i64),
    Number(&'static str, i64),
    Text(&'static str, String),
    OneOf(Vec<i64>),
    /// Texts that contain this text.
    Has(String),
    IsNull,
    Same(i64),
    /// Fails for rows with this number, and must be evaluated only on rows that the other conditions keep.
    Quotient(i64),
    Not(Box<Condition>),
    And(Box<Condition>, Box<Condition>),
    Or(Box<Condition>, Box<Condition>),
}

impl Condition {
    fn random(dice: &mut Random, depth: usize) -> Self {
        let comparison = *dice.pick(&["=", "<>", "<", "<=", ">", ">="]);
        let side = *dice.pick(&["<", ">", "<=", ">="]);
        if depth > 0 && dice.chance(60) {
            let (left, right) = (Self::random(dice, depth - 1).into(), Self::random(dice, depth - 1).into());
            return match dice.below(3) {
                0 => Self::Not(left),
                1 => Self::And(left, right),
                _ => Self::Or(left, right),
            };
        }
        match dice.below(8) {
            0 | 1 => Self::Id(side, dice.below(KEYS) as i64),
            2 => Self::Number(comparison, dice.below(200) as i64 - 100),
            3 => Self::Text(comparison, format!("{:03}", dice.below(300))),
            4 => Self::OneOf((0..1 + dice.below(30)).map(|_| dice.below(200) as i64 - 100).collect()),
            5 => Self::Has(dice.below(100).to_string()),
            6 => Self::IsNull,
            _ => Self::Same(dice.below(200) as i64 - 100),
        }
    }

    fn holds(&self, id: i64, row: &Row) -> Option<bool> {
        match self {
            Self::Id(comparison, with) => Some(compare(comparison, &id, with)),
            Self::Number(comparison, with) => row.number.map(|number| compare(comparison, &number, with)),
            Self::Text(comparison, with) => row.text.as_ref().map(|text| compare(comparison, text, with)),
            Self::OneOf(numbers) => row.number.map(|number| numbers.contains(&number)),
            Self::Has(part) => row.text.as_ref().map(|text| text.contains(part)),
            Self::IsNull => Some(row.number.is_none()),
            Self::Same(with) => Some(row.number == Some(*with)),
            Self::Quotient(except) => row.number.map(|number| 100 / (number - except) > 3),
            Self::Not(inner) => inner.holds(id, row).map(|holds| !holds),
            Self::And(left, right) => match left.holds(id, row) {
                Some(false) => Some(false),
                Some(true) => right.holds(id, row),
                None => right.holds(id, row).filter(|holds| !holds),
            },
            Self::Or(left, right) => match left.holds(id, row) {
                Some(true) => Some(true),
                Some(false) => right.holds(id, row),
                None => right.holds(id, row).filter(|holds| *holds),
            },
        }
    }
}

fn compare<T: Ord>(comparison: &str, left: &T, right: &T) -> bool {
    match comparison {
        "=" => left == right,
        "<>" => left != right,
        "<" => left < right,
        "<=" => left <= right,
        ">" => left > right,
        _ => left >= right,
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(comparison, with) => write!(f, "id {comparison} {with}"),
            Self::Number(comparison, with) => write!(f, "number {comparison} ({with})"),
            Self::Text(comparison, with) => write!(f, "text {comparison} '{with}'"),
            Self::OneOf(numbers) => {
                let numbers: Vec<String> = numbers.iter().map(i64::to_string).collect();
                write!(f, "number IN ({})", numbers.join(", "))
            }
            Self::Has(part) => write!(f, "text LIKE '%{part}%'"),
            Self::IsNull => write!(f, "number IS NULL"),
            Self::Same(with) => write!(f, "number IS NOT DISTINCT FROM ({with})"),
            Self::Quotient(except) => write!(f, "100 / (number - ({except})) > 3"),
            Self::Not(inner) => write!(f, "NOT ({inner})"),
            Self::And(left, right) => write!(f, "({left}) AND ({right})"),
            Self::Or(left, right) => write!(f, "({left}) OR ({right})"),
        }
    }
}

/// A live table and its expected rows.
struct Table {
    test: TestEngine,
    rows: BTreeMap<i64, Row>,
}

impl Table {
    /// Rows in order of their keys, some of which were replaced or deleted.
    async fn new(dice: &mut Random) -> Self {
        let test = TestEngine::new().await;
        test.run("CREATE LIVE TABLE t (id BIGINT PRIMARY KEY, number BIGINT, text TEXT)").await;
        let mut table = Self { test, rows: BTreeMap::new() };
        let first: BTreeMap<i64, Row> = (0..KEYS as i64).map(|id| (id, Row::random(dice))).collect();
        table.upsert(first).await;
        for _ in 0..3 {
            let some = (0..500).map(|_| (dice.below(KEYS + 1000) as i64, Row::random(dice))).collect();
            table.upsert(some).await;
        }
        table.test.run("DELETE FROM t WHERE id % 1000 = 13").await;
        table.rows.retain(|id, _| id % 1000 != 13);
        table
    }

    async fn upsert(&mut self, rows: BTreeMap<i64, Row>) {
        let mut texts = rows.iter().map(|(id, row)| row.sql(*id)).peekable();
        while texts.peek().is_some() {
            let some: Vec<String> = texts.by_ref().take(30_000).collect();
            self.test.run(&format!("INSERT INTO t VALUES {}", some.join(", "))).await;
        }
        self.rows.extend(rows);
    }

    fn chosen(&self, condition: &Condition) -> Vec<(i64, &Row)> {
        let rows = self.rows.iter().map(|(id, row)| (*id, row));
        rows.filter(|(id, row)| condition.holds(*id, row) == Some(true)).collect()
    }

    async fn check(&self, condition: &Condition) {
        let sql = format!("SELECT id, text FROM t WHERE {condition}");
        let text = |row: &Row| row.text.clone().unwrap_or_else(|| "NULL".to_owned());
        let expected = self.chosen(condition).into_iter().map(|(id, row)| vec![id.to_string(), text(row)]);
        let expected = sorted(expected.collect());
        let found = sorted(self.test.run(&sql).await);
        assert!(found == expected, "{} rows instead of {}: {sql}", found.len(), expected.len());
        let count = format!("SELECT count(*) FROM t WHERE {condition}");
        assert_eq!(self.test.run(&count).await, [[expected.len().to_string()]], "{count}");
    }

    /// The first rows in an order, and no other.
    async fn check_first(&self, condition: &Condition, limit: usize) {
        let order = "number DESC NULLS LAST, text, id";
        let sql = format!("SELECT id FROM t WHERE {condition} ORDER BY {order} LIMIT {limit}");
        let mut chosen = self.chosen(condition);
        chosen.sort_by_key(|(id, row)| (Reverse(row.number), row.text.is_none(), row.text.clone(), *id));
        let expected: Vec<Vec<String>> =
            chosen.iter().take(limit).map(|(id, _)| vec![id.to_string()]).collect();
        assert_eq!(self.test.run(&sql).await, expected, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn scans_check_conditions_and_lose_no_row() {
    let mut dice = Random(seed());
    let mut table = Table::new(&mut dice).await;
    for round in 0..2 {
        for _ in 0..40 {
            table.check(&Condition::random(&mut dice, 3)).await;
        }
        for limit in [1, 10, 5000] {
            table.check_first(&Condition::random(&mut dice, 2), limit).await;
        }
        // A condition that can fail is evaluated only on rows that the other conditions keep.
        let except = dice.below(200) as i64 - 100;
        let unlike = Condition::Not(Condition::Same(except).into());
        table.check(&Condition::And(unlike.into(), Condition::Quotient(except).into())).await;
        if round == 0 {
            let rows = std::mem::take(&mut table.rows);
            table = Table { test: table.test.reopen().await, rows };
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scan_gives_only_the_columns_that_are_asked_for() {
    let test = TestEngine::new().await;
    test.run("CREATE LIVE TABLE t (id BIGINT PRIMARY KEY, number BIGINT, text TEXT)").await;
    test.run("INSERT INTO t VALUES (1, 10, 'one'), (2, 20, 'two'), (3, NULL, 'three')").await;
    let plan = test.operators("SELECT id FROM t WHERE number > 10 AND text LIKE 't%'").await;
    assert!(
        plan.contains("columns=[id]") && plan.contains("filter=") && !plan.contains("FilterExec"),
        "{plan}"
    );
    // Dead rows have values too, which may be such that a condition fails.
    test.run("INSERT INTO t VALUES (1, 0, 'one')").await;
    test.run("DELETE FROM t WHERE id = 1").await;
    let plan = test.operators("SELECT id FROM t WHERE 100 / number = 5").await;
    assert!(plan.contains("FilterExec"), "{plan}");
    assert_eq!(test.run("SELECT id FROM t WHERE 100 / number = 5").await, [["2"]]);
    let versions = "SELECT id, _version FROM t WHERE _version > 0 AND number = 20";
    let looked_up = test.run("SELECT id, _version FROM t WHERE id = 2").await;
    assert_eq!((test.run(versions).await, looked_up.len()), (looked_up, 1));
}

/// A join or a sort passes a dynamic filter to the scans below it, and drops the filter when it runs again.
#[tokio::test(flavor = "multi_thread")]
async fn what_operators_find_out_narrows_scans() {
    let test = TestEngine::new().await;
    test.run("CREATE LIVE TABLE t (id BIGINT PRIMARY KEY, number BIGINT)").await;
    test.run("CREATE LIVE TABLE few (id BIGINT PRIMARY KEY)").await;
    test.run("INSERT INTO t SELECT value, value % 1000 FROM generate_series(1, 300000) AS s (value)").await;
    test.run("INSERT INTO few VALUES (7), (150000), (999999)").await;
    let plan = test.operators("SELECT t.number FROM t JOIN few ON t.id = few.id").await;
    assert!(plan.contains("filter=DynamicFilter"), "{plan}");
    let joined = sorted(test.run("SELECT t.number FROM t JOIN few ON t.id = few.id").await);
    assert_eq!(joined, [["0"], ["7"]]);
    let above = "SELECT t.id FROM t JOIN few ON t.id = few.id ORDER BY t.id DESC LIMIT 1";
    assert_eq!(test.run(above).await, [["150000"]]);
    // Each step of the recursion asks for the lowest key above the last.
    let steps = "WITH RECURSIVE r AS (SELECT 299990 AS n UNION ALL SELECT m FROM \
                 (SELECT t.id AS m FROM t JOIN r ON t.id > r.n ORDER BY t.id LIMIT 1) AS next) SELECT count(*) FROM r";
    assert_eq!(test.run(steps).await, [["11"]]);
}

/// A scan gives slices of large columns. A slice keeps the whole column in memory, but only once however many slices there are:
/// a statement counts as large as its values.
#[tokio::test(flavor = "multi_thread")]
async fn a_statement_may_write_millions_of_rows() {
    let test = TestEngine::new().await;
    test.run("CREATE LIVE TABLE numbers (id BIGINT PRIMARY KEY, n BIGINT)").await;
    test.run("INSERT INTO numbers SELECT value, value AS n FROM generate_series(1, 1500000) AS s (value)")
        .await;
    test.run("UPDATE numbers SET n = n + 1").await;
    let told = test.run("SELECT count(*), sum(n - id) FROM numbers").await;
    assert_eq!(told, [["1500000", "1500000"]]);
    test.run("DELETE FROM numbers WHERE n > 0").await;
    assert_eq!(test.run("SELECT count(*) FROM numbers").await, [["0"]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_may_write_many_texts_of_some_of_the_rows() {
    let test = TestEngine::new().await;
    test.run("CREATE LIVE TABLE texts (id BIGINT PRIMARY KEY, t TEXT, n BIGINT)").await;
    test.run(
        "INSERT INTO texts SELECT value, lpad(value::text, 100, '0'), 0 FROM generate_series(1, 400000) AS s (value)",
    )
    .await;
    test.run("UPDATE texts SET n = 1 WHERE id % 2 = 0").await;
    let told = test.run("SELECT n, count(*), sum(length(t)) FROM texts GROUP BY n ORDER BY n").await;
    assert_eq!(told, [["0", "200000", "20000000"], ["1", "200000", "20000000"]]);
    test.run("CREATE LIVE TABLE copied (PRIMARY KEY (id)) AS SELECT id, t FROM texts").await;
    assert_eq!(test.run("SELECT count(DISTINCT t) FROM copied").await, [["400000"]]);
}

/// The bounds of a column are no bounds of its values after a cast, and casting the bounds may fail.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_cast_is_not_judged_by_bounds_that_say_nothing_of_it() {
    let test = TestEngine::new().await;
    test.run("CREATE LIVE TABLE t (id BIGINT PRIMARY KEY, moment TIMESTAMP, n BIGINT)").await;
    test.run(
        "INSERT INTO t VALUES (1, TIMESTAMP '2024-01-01 10:00:00', 1), (2, TIMESTAMP '2024-01-02 08:00:00', 100000)",
    )
    .await;
    for (condition, expected) in [
        ("CAST(moment AS TIME) >= CAST('09:00:00' AS TIME)", "1"),
        ("CAST(moment AS TIME) < CAST('09:00:00' AS TIME)", "2"),
        ("CAST(moment AS DATE) = DATE '2024-01-02'", "2"),
        // The cast is evaluated only on rows that the other conditions keep.
        ("n < 10 AND CAST(n AS SMALLINT) > 0.5", "1"),
    ] {
        let found = test.run(&format!("SELECT id FROM t WHERE {condition}")).await;
        assert_eq!(found, [[expected]], "{condition}");
    }
}
