//! The tables that a plan reads, for access checks.

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::cte_worktable::CteWorkTable;
use datafusion::datasource::source_as_provider;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{LogicalPlan, TableScan};
use nyala_cube::cube::table_of;
use nyala_cube::live::{ChangesProvider, LiveProvider};
use nyala_model::QualifiedName;
use nyala_sql::error::Result;

use crate::session::{DATABASE, view_of};

/// Schemas that describe the database; every role may read them.
const DESCRIBING_SCHEMAS: [&str; 2] = ["information_schema", PG_CATALOG];
/// The schema of PostgreSQL's system tables.
pub const PG_CATALOG: &str = "pg_catalog";
/// Tables of `pg_catalog` about passwords, and about the statements of other sessions: only superusers may read them.
const FOR_SUPERUSERS: [&str; 4] = ["pg_authid", "pg_shadow", "pg_stat_activity", "pg_user_mapping"];

/// Every table and view that a plan reads, also in subqueries. To be asked of the plan that names were resolved to, before any rule has
/// rewritten it: what a rule leaves out was named all the same. Tables below a view are read with the rights of the view.
pub fn tables_of(plan: &LogicalPlan, state: &SessionState) -> Result<Vec<QualifiedName>> {
    let mut tables = Vec::new();
    plan.apply_with_subqueries(|node| {
        let view = match node {
            LogicalPlan::SubqueryAlias(alias) => view_of(alias),
            _ => None,
        };
        let next = if view.is_some() { TreeNodeRecursion::Jump } else { TreeNodeRecursion::Continue };
        let table = match node {
            LogicalPlan::TableScan(scan) => read_by(scan, state),
            _ => view,
        };
        tables.extend(table.filter(|table| !tables.contains(table)));
        Ok(next)
    })?;
    Ok(tables)
}

/// The table that a scan reads; none for schemas that every role may read, and for table functions. Any other source counts as a table,
/// which must have been granted.
fn read_by(scan: &TableScan, state: &SessionState) -> Option<QualifiedName> {
    if let Some(name) = table_of(scan).or_else(|| changes_of(scan)) {
        return Some(name);
    }
    // A recursive query that reads itself: its first part is in the same plan.
    if source_as_provider(&scan.source).is_ok_and(|provider| provider.is::<CteWorkTable>()) {
        return None;
    }
    let name = scan.table_name.table();
    let is_function = scan.table_name.schema().is_none()
        && state.table_functions().contains_key(name.trim_end_matches("()"));
    let schema = state.config_options().catalog.default_schema.as_str();
    let resolved = scan.table_name.clone().resolve(DATABASE, schema);
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

/// Whether a plan reads a live table, also through a view.
pub fn reads_live(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            let provider = source_as_provider(&scan.source)?;
            found |= provider.is::<LiveProvider>() || provider.is::<ChangesProvider>();
        }
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}
