//! The types of a table's columns as they were written: a store has one type for all texts.

use std::collections::BTreeMap;

use datafusion::sql::sqlparser::ast::{AlterTableOperation, ColumnDef, DataType, Statement};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;

use super::versions::folded;

/// The written types by column, from the statements that made and altered a table.
#[must_use]
pub fn written_columns(definition: &str) -> BTreeMap<String, DataType> {
    let mut types = BTreeMap::new();
    for statement in definition.split("; ") {
        // Options of Nyala's own follow the columns; without them it is PostgreSQL's statement.
        let plain = statement.rsplit_once(" WITH (").map_or(statement, |(plain, _)| plain);
        let plain = plain.replacen("CREATE LIVE TABLE", "CREATE TABLE", 1);
        let parsed = Parser::parse_sql(&PostgreSqlDialect {}, &plain).unwrap_or_default();
        parsed.iter().for_each(|statement| follow(&mut types, statement));
    }
    types
}

fn follow(types: &mut BTreeMap<String, DataType>, statement: &Statement) {
    let add = |types: &mut BTreeMap<String, DataType>, column: &ColumnDef| {
        types.insert(folded(&column.name), column.data_type.clone());
    };
    match statement {
        Statement::CreateTable(create) => create.columns.iter().for_each(|column| add(types, column)),
        Statement::AlterTable(alter) => {
            for operation in &alter.operations {
                match operation {
                    // A column that was there already keeps its type.
                    AlterTableOperation::AddColumn { column_def, .. } => {
                        let name = folded(&column_def.name);
                        types.entry(name).or_insert_with(|| column_def.data_type.clone());
                    }
                    AlterTableOperation::DropColumn { column_names, .. } => {
                        column_names.iter().for_each(|name| _ = types.remove(&folded(name)));
                    }
                    AlterTableOperation::RenameColumn { old_column_name, new_column_name } => {
                        if let Some(own) = types.remove(&folded(old_column_name)) {
                            types.insert(folded(new_column_name), own);
                        }
                    }
                    _ => {}
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_follow_their_columns() {
        let definition = "CREATE LIVE TABLE t (id INT PRIMARY KEY, v VARCHAR(3), \"W\" CHAR(2)) WITH (buckets = 4); \
             ALTER TABLE t RENAME COLUMN v TO name; ALTER TABLE t ADD COLUMN j JSON; ALTER TABLE t DROP COLUMN \"W\"";
        let found: Vec<String> =
            written_columns(definition).iter().map(|(name, written)| format!("{name} {written}")).collect();
        assert_eq!(found, ["id INT", "j JSON", "name VARCHAR(3)"]);
    }
}
