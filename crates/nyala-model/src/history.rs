//! The query history: shapes of aggregations, without constants, and how often they were asked.

use serde::{Deserialize, Serialize};

use crate::ids::CubeId;
use crate::name::QualifiedName;

/// A table of an aggregation.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ShapeTable {
    /// The table.
    pub table: QualifiedName,
    /// The qualifier of its columns: its name, or another if it is read twice.
    pub alias: String,
    /// The conditions of its LEFT JOIN; none if it is joined otherwise.
    pub left: Option<Vec<ShapeCondition>>,
}

/// A join condition.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ShapeCondition {
    /// Aliases of the tables it reads.
    pub aliases: Vec<String>,
    /// Its SQL.
    pub sql: String,
}

/// An aggregation over a join of tables, as SQL in pieces. Two queries that differ only in the values they
/// compare with, in aliases or in the order of tables and conditions, have one shape.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct QueryShape {
    /// The tables: inner-joined ones by name, then left-joined ones.
    pub tables: Vec<ShapeTable>,
    /// Equalities of inner joins.
    pub joins: Vec<ShapeCondition>,
    /// All other conditions, with `?` in the place of values.
    pub filters: Vec<String>,
    /// The columns that `filters` read.
    pub filtered: Vec<String>,
    /// Group expressions.
    pub group: Vec<String>,
    /// Grouping sets, as positions in `group`; empty for a plain GROUP BY.
    pub sets: Vec<Vec<usize>>,
    /// Aggregate calls.
    pub aggregates: Vec<String>,
}

/// A cuboid that answered, with the number of its uses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CuboidUse {
    /// The cube. Another cube of the same name has another identity.
    pub cube: CubeId,
    /// Its name.
    pub name: QualifiedName,
    /// The cuboid's dimensions, in the cube's order.
    pub cuboid: Vec<String>,
    /// Number of reads.
    pub times: u64,
    /// Time of the last read, in milliseconds since the Unix epoch.
    pub last_ms: u64,
}

/// Statistics of one shape: its number of queries, their times, and the cuboids that answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueryHistoryEntry {
    /// Identity: a digest of the shape.
    pub id: String,
    /// The shape of the queries.
    pub shape: QueryShape,
    /// Number of queries.
    pub asked: u64,
    /// Total microseconds. A query with several aggregations divides its time among them.
    pub total_us: u64,
    /// Microseconds of the slowest query.
    pub max_us: u64,
    /// Total rows sent to clients.
    pub rows: u64,
    /// Number of queries that no cuboid answered.
    pub misses: u64,
    /// Total microseconds of these.
    #[serde(default)]
    pub missed_us: u64,
    /// Why no cuboid answered the last time; none if there was no cube to consider.
    pub miss_reason: Option<String>,
    /// Last time that no cuboid answered, in milliseconds since the Unix epoch; 0 for never.
    pub last_miss_ms: u64,
    /// Cuboids that answered.
    pub answers: Vec<CuboidUse>,
    /// Time of the last query, in milliseconds since the Unix epoch.
    pub last_asked_ms: u64,
}

impl QueryHistoryEntry {
    /// Adds another node's statistics of the same shape.
    pub fn add(&mut self, other: &Self) {
        self.asked = self.asked.saturating_add(other.asked);
        self.total_us = self.total_us.saturating_add(other.total_us);
        self.max_us = self.max_us.max(other.max_us);
        self.rows = self.rows.saturating_add(other.rows);
        self.misses = self.misses.saturating_add(other.misses);
        self.missed_us = self.missed_us.saturating_add(other.missed_us);
        if other.last_miss_ms > self.last_miss_ms {
            self.miss_reason.clone_from(&other.miss_reason);
            self.last_miss_ms = other.last_miss_ms;
        }
        for answer in &other.answers {
            let known = self.answers.iter_mut().find(|a| a.cube == answer.cube && a.cuboid == answer.cuboid);
            match known {
                Some(known) => {
                    known.times = known.times.saturating_add(answer.times);
                    known.last_ms = known.last_ms.max(answer.last_ms);
                }
                None => self.answers.push(answer.clone()),
            }
        }
        self.last_asked_ms = self.last_asked_ms.max(other.last_asked_ms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nodes_know_of_a_shape_adds_up() {
        let answer = |cuboid: &str, times, last_ms| CuboidUse {
            cube: CubeId(1),
            name: QualifiedName::new("public", "c"),
            cuboid: vec![cuboid.to_owned()],
            times,
            last_ms,
        };
        let entry = |n: u64, answers| QueryHistoryEntry {
            id: "a".to_owned(),
            shape: QueryShape::default(),
            asked: n,
            total_us: n,
            max_us: n,
            rows: n,
            misses: n,
            missed_us: n,
            miss_reason: Some(n.to_string()),
            last_miss_ms: n,
            answers,
            last_asked_ms: n,
        };
        let (one, other) =
            (entry(3, vec![answer("x", 1, 9)]), entry(5, vec![answer("y", 1, 2), answer("x", 2, 4)]));
        let (mut sum, mut again) = (one.clone(), other.clone());
        sum.add(&other);
        again.add(&one);
        assert_eq!((sum.asked, sum.total_us, sum.max_us, sum.rows, sum.misses), (8, 8, 5, 8, 8));
        assert_eq!((sum.miss_reason.as_deref(), sum.last_miss_ms, sum.last_asked_ms), (Some("5"), 5, 5));
        assert_eq!(sum.answers, [answer("x", 3, 9), answer("y", 1, 2)]);
        sum.answers.sort_by(|a, b| a.cuboid.cmp(&b.cuboid));
        again.answers.sort_by(|a, b| a.cuboid.cmp(&b.cuboid));
        assert_eq!(sum, again);
    }
}
