//! The tables that a plan reads, for access checks.

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::cte_worktable::CteWorkTable;
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::{LogicalPlan, TableScan};
use nyala_cube::cube::read_as;
use nyala_cube::live::ChangesProvider;
use nyala_model::QualifiedName;
use nyala_sql::error::Result;

use crate::session::{DATABASE, Settings, SnapshotContext};

/// Schemas that describe the database; every role may read them.
const DESCRIBING_SCHEMAS: [&str; 2] = ["information_schema", PG_CATALOG];
/// The schema of PostgreSQL's system tables.
pub const PG_CATALOG: &str = "pg_catalog";
/// Tables of `pg_catalog` about passwords, and about the statements of other sessions: only superusers may read them.
const FOR_SUPERUSERS: [&str; 4] = ["pg_authid", "pg_shadow", "pg_stat_activity", "pg_user_mapping"];

/// Every table that a plan reads, also in subqueries.
pub fn tables_of(
    plan: &LogicalPlan,
    context: &SnapshotContext,
    settings: &Settings,
) -> Result<Vec<QualifiedName>> {
    let mut tables = Vec::new();
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node
            && let Some(table) = read_by(scan, settings, context)
            && !tables.contains(&table)
        {
            tables.push(table);
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(tables)
}

/// The table that a scan reads, or the view that it belongs to; none for schemas that every role may read, and for table functions. Any other source
/// counts as a table, which must have been granted.
fn read_by(scan: &TableScan, settings: &Settings, context: &SnapshotContext) -> Option<QualifiedName> {
    if let Some(name) = read_as(scan).or_else(|| changes_of(scan)) {
        return Some(name);
    }
    // A recursive query that reads itself: its first part is in the same plan.
    if source_as_provider(&scan.source).is_ok_and(|provider| provider.is::<CteWorkTable>()) {
        return None;
    }
    let name = scan.table_name.table();
    let is_function =
        scan.table_name.schema().is_none() && context.is_table_function(name.trim_end_matches("()"));
    let resolved = scan.table_name.clone().resolve(DATABASE, settings.schema());
    let is_system = DESCRIBING_SCHEMAS.contains(&resolved.schema.as_ref())
        && !FOR_SUPERUSERS.contains(&resolved.table.as_ref());
    (!is_function && !is_system)
        .then(|| QualifiedName::new(resolved.schema.as_ref(), resolved.table.as_ref()))
}

/// The live table of a scan of its changes.
fn changes_of(scan: &TableScan) -> Option<QualifiedName> {
    let provider = source_as_provider(&scan.source).ok()?;
    Some(provider.downcast_ref::<ChangesProvider>()?.table().entry().name.clone())
}
