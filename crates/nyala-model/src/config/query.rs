//! Settings of queries: their resources, and the limits of statements.

use serde::{Deserialize, Serialize};

use super::values::size;
use super::{InvalidConfig, check};

/// Limits and resources of queries.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct QueryConfig {
    /// Threads that compute; 0 means one for each core. Default 0.
    pub threads: usize,
    /// Memory limit of hot cuboids, queries and builds together, in bytes; 0 means 60 % of the
    /// memory of the machine, or of its control group if that is less. `cache` takes its share;
    /// queries and builds get half of the rest each, and spill or fail beyond it. Default 0.
    #[serde(deserialize_with = "size")]
    pub memory_limit_bytes: usize,
    /// Memory limit of the process, in bytes; 0 means the memory of the machine, or of its control group if
    /// that is less. Near the limit, the statement that holds the most is ended. Default 0.
    #[serde(deserialize_with = "size")]
    pub process_limit_bytes: usize,
    /// Disk that spilling may use, in bytes. Default 100 GiB.
    #[serde(deserialize_with = "size")]
    pub spill_limit_bytes: u64,
    /// Rows of a batch. Larger batches cost memory, smaller ones time. Default 8192.
    pub batch_rows: usize,
    /// Rows that one node reads alone; a query that reads more is divided among the executors. Default 16777216.
    pub single_node_rows: usize,
    /// Longest statement accepted, in bytes. Default 1 MiB.
    #[serde(deserialize_with = "size")]
    pub max_statement_bytes: usize,
    /// Deepest nesting and longest chain of one operator accepted in a statement: planning time grows
    /// faster than the chain does. Default 2000.
    pub max_expression_terms: usize,
    /// Most SELECTs one statement may combine with UNION, INTERSECT and EXCEPT. Default 500.
    pub max_set_operations: usize,
    /// Most SELECTs, tables and joins in a statement's plan; a WITH query counts at each use. Default
    /// 5000.
    pub max_plan_nodes: usize,
    /// Most expressions in the plan of one statement; a constant counts as a tenth. Default 50000.
    pub max_plan_expressions: usize,
    /// A query that runs longer is cancelled, in milliseconds; 0 means never. Default 0.
    pub statement_timeout_ms: u64,
    /// A statement that takes longer is logged, in milliseconds; 0 means none is. Default 10000.
    pub slow_ms: u64,
    /// Work without progress for this long is listed in the log and in `system.stuck`, in milliseconds; 0
    /// means never. Default 60000.
    pub stuck_after_ms: u64,
}

impl Default for QueryConfig {
    fn default() -> Self {
        Self {
            threads: 0,
            memory_limit_bytes: 0,
            process_limit_bytes: 0,
            spill_limit_bytes: 100 << 30,
            batch_rows: 8192,
            single_node_rows: 1 << 24,
            max_statement_bytes: 1 << 20,
            max_expression_terms: 2000,
            max_set_operations: 500,
            max_plan_nodes: 5_000,
            max_plan_expressions: 50_000,
            statement_timeout_ms: 0,
            slow_ms: 10_000,
            stuck_after_ms: 60_000,
        }
    }
}

impl QueryConfig {
    pub(super) fn validate(&self) -> Result<(), InvalidConfig> {
        check(self.threads <= 1024, "query.threads", "at most 1024", &self.threads)?;
        check(self.batch_rows >= 16, "query.batch_rows", "at least 16", &self.batch_rows)?;
        let rows = self.single_node_rows;
        check(rows >= 1, "query.single_node_rows", "at least 1", &rows)?;
        check(
            self.memory_limit_bytes == 0 || self.memory_limit_bytes >= 16 << 20,
            "query.memory_limit_bytes",
            "0 or at least 16777216",
            &self.memory_limit_bytes,
        )?;
        check(
            self.process_limit_bytes == 0 || self.process_limit_bytes >= 256 << 20,
            "query.process_limit_bytes",
            "0 or at least 268435456",
            &self.process_limit_bytes,
        )?;
        check(
            self.max_statement_bytes > 0,
            "query.max_statement_bytes",
            "at least 1",
            &self.max_statement_bytes,
        )?;
        check(
            (1..=20_000).contains(&self.max_expression_terms),
            "query.max_expression_terms",
            "between 1 and 20000",
            &self.max_expression_terms,
        )?;
        check(
            (1..=5_000).contains(&self.max_set_operations),
            "query.max_set_operations",
            "between 1 and 5000",
            &self.max_set_operations,
        )?;
        check(
            (100..=1_000_000).contains(&self.max_plan_nodes),
            "query.max_plan_nodes",
            "between 100 and 1000000",
            &self.max_plan_nodes,
        )?;
        check(
            (1000..=100_000_000).contains(&self.max_plan_expressions),
            "query.max_plan_expressions",
            "between 1000 and 100000000",
            &self.max_plan_expressions,
        )
    }
}
