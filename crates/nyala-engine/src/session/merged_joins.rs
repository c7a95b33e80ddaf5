//! The columns of tables, for joins that merge some of them: USING and NATURAL.

use std::collections::HashMap;

use datafusion::common::{ResolvedTableReference, TableReference};
use datafusion::execution::SessionState;
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::planner::object_name_to_table_reference;
use datafusion::sql::sqlparser::ast::ObjectName;
use nyala_cube::live::ROW_VERSION;
use nyala_sql::error::Result;
use nyala_sql::statement::{merge_joins, merges_columns};

/// Gives joins by USING and NATURAL their conditions, and merged columns their values, where that needs the columns of tables.
pub async fn merge_columns(statement: &mut DfStatement, state: &SessionState) -> Result<()> {
    if !merges_columns(statement) {
        return Ok(());
    }
    let defaults = &state.config_options().catalog;
    let resolved = |name: TableReference| name.resolve(&defaults.default_catalog, &defaults.default_schema);
    let mut columns: HashMap<ResolvedTableReference, Vec<String>> = HashMap::new();
    for name in state.resolve_table_references(statement)? {
        let name = resolved(name);
        let Ok(schema) = state.schema_for_ref(name.clone()) else { continue };
        if let Some(table) = schema.table(&name.table).await? {
            let names = table.schema().fields().iter().map(|field| field.name().clone()).collect();
            columns.insert(name, names);
        }
    }
    let columns_of = |name: &ObjectName| {
        let name = object_name_to_table_reference(name.clone(), true).ok()?;
        columns.get(&resolved(name)).cloned()
    };
    merge_joins(statement, &columns_of, ROW_VERSION)
}
