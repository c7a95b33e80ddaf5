//! UPDATE and DELETE with further tables, which DataFusion's planner refuses.
//!
//! `UPDATE t … FROM a, b JOIN c ON …` is planned as an UPDATE of `t CROSS JOIN a CROSS JOIN (b JOIN c ON …)`: the
//! target stays the leftmost table. `DELETE FROM t USING a, b` is planned as `UPDATE t FROM a, b` without a SET, and so
//! is a DELETE with an alias for its table, which the planner would not know.

use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    Delete, FromTable, Join, JoinConstraint, JoinOperator, Statement as SqlStatement, TableFactor,
    TableWithJoins, Update, UpdateTableFromKind,
};

/// Joins the tables of FROM to the target.
pub fn join_from(update: &mut Update) {
    let Some(UpdateTableFromKind::BeforeSet(from) | UpdateTableFromKind::AfterSet(from)) = update.from.take()
    else {
        return;
    };
    update.table.joins.extend(from.into_iter().map(|table| Join {
        relation: alone(table),
        global: false,
        join_operator: JoinOperator::CrossJoin(JoinConstraint::None),
    }));
}

/// A table with its joins as one relation, as if in brackets.
fn alone(table: TableWithJoins) -> TableFactor {
    match table.joins.is_empty() {
        true => table.relation,
        false => TableFactor::NestedJoin { table_with_joins: Box::new(table), alias: None },
    }
}

/// Makes an UPDATE of a DELETE with further tables or with an alias for its table; returns whether it did. A
/// DELETE with other unusual clauses stays, for the planner to refuse.
pub fn take_delete(statement: &mut SqlStatement) -> bool {
    let SqlStatement::Delete(delete) = statement else { return false };
    let usual = delete.tables.is_empty()
        && delete.order_by.is_empty()
        && delete.limit.is_none()
        && delete.optimizer_hints.is_empty()
        && delete.output.is_none();
    match target(delete) {
        Some(table) if usual => {
            *statement = SqlStatement::Update(as_update(delete, table));
            true
        }
        _ => false,
    }
}

/// The target, if the DELETE needs this rewrite.
fn target(delete: &Delete) -> Option<TableWithJoins> {
    let (FromTable::WithFromKeyword(tables) | FromTable::WithoutKeyword(tables)) = &delete.from;
    let [table] = tables.as_slice() else { return None };
    let TableFactor::Table { alias, .. } = &table.relation else { return None };
    let simple = table.joins.is_empty() && (delete.using.is_some() || alias.is_some());
    simple.then(|| table.clone())
}

fn as_update(delete: &mut Delete, table: TableWithJoins) -> Update {
    Update {
        update_token: AttachedToken::empty(),
        optimizer_hints: Vec::new(),
        table,
        assignments: Vec::new(),
        from: delete.using.take().map(UpdateTableFromKind::AfterSet),
        selection: delete.selection.take(),
        returning: delete.returning.take(),
        output: None,
        or: None,
        order_by: Vec::new(),
        limit: None,
    }
}
