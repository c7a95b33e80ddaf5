//! What was asked: aggregations in a form without the values that were compared with, and how often.

use serde::{Deserialize, Serialize};

use crate::ids::CubeId;
use crate::name::QualifiedName;

/// A table of an aggregation.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ShapeTable {
    /// The table.
    pub table: QualifiedName,
    /// What its columns are qualified with: its name, or another if it is read twice.
    pub alias: String,
    /// The conditions of its LEFT JOIN; none if it is joined otherwise.
    pub left: Option<Vec<ShapeCondition>>,
}

/// A condition that ties tables together.
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
    /// The tables: those of inner joins by name, then those of left joins.
    pub tables: Vec<ShapeTable>,
    /// Equalities of inner joins.
    pub joins: Vec<ShapeCondition>,
    /// All other conditions, with `?` in the place of values.
    pub filters: Vec<String>,
    /// The columns these read.
    pub filtered: Vec<String>,
    /// Group expressions.
    pub group: Vec<String>,
    /// Grouping sets, as positions in `group`; none if it groups plainly.
    pub sets: Vec<Vec<usize>>,
    /// Aggregate calls.
    pub aggregates: Vec<String>,
}

/// A cuboid that answered, and how often.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CuboidUse {
    /// The cube. Another cube of the same name has another identity.
    pub cube: CubeId,
    /// Its name.
    pub name: QualifiedName,
    /// The cuboid's dimensions, in the cube's order.
    pub cuboid: Vec<String>,
    /// How often it was read.
    pub times: u64,
    /// Milliseconds since the Unix epoch when it was read last.
    pub last_ms: u64,
}

/// How often one shape was asked, how long it took, and what answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueryHistoryEntry {
    /// Identity: a digest of the shape.
    pub id: String,
    /// What was asked.
    pub shape: QueryShape,
    /// How often.
    pub asked: u64,
    /// Microseconds in all. A query with several aggregations divides its time among them.
    pub total_us: u64,
    /// Microseconds of the slowest.
    pub max_us: u64,
    /// Rows given to clients in all.
    pub rows: u64,
    /// How often no cuboid answered.
    pub misses: u64,
    /// Why none did the last time; none if there was no cube to consider.
    pub miss_reason: Option<String>,
    /// Milliseconds since the Unix epoch when no cuboid answered for the last time; 0 for never.
    pub last_miss_ms: u64,
    /// Cuboids that answered.
    pub answers: Vec<CuboidUse>,
    /// Milliseconds since the Unix epoch.
    pub last_asked_ms: u64,
}
