//! Where the columns of a result come from: columns of tables that are shown as they are.

use std::sync::Arc;

use datafusion::common::Column;
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::{Distinct, Expr, JoinType, LogicalPlan, TableScan};
use nyala_cube::live::LiveProvider;
use nyala_cube::scan::ExternalTable;
use nyala_model::TableEntry;

use crate::session::view_of;

/// Deeper plans are not followed.
const MAX_DEPTH: usize = 64;

/// The origin of a column.
#[derive(Debug, Clone)]
pub enum Origin {
    /// A column of a table.
    Table {
        /// The table.
        entry: Arc<TableEntry>,
        /// The name of the column.
        column: String,
        /// Whether a view is between the statement and the table.
        through_view: bool,
    },
    /// The result of a function. Its type may depend on that of the first argument, and functions of JSON give texts.
    Call {
        /// Its name.
        name: String,
        /// Where its first argument comes from.
        of: Option<Box<Origin>>,
    },
}

impl Origin {
    /// This origin, seen through a view.
    fn through_view(self) -> Self {
        match self {
            Self::Table { entry, column, .. } => Self::Table { entry, column, through_view: true },
            Self::Call { name, of } => Self::Call { name, of: of.map(|of| Box::new(of.through_view())) },
        }
    }
}

/// The origins of the columns of a plan; none for those that are computed.
pub fn origins(plan: &LogicalPlan) -> Vec<Option<Origin>> {
    (0..plan.schema().fields().len()).map(|at| origin(plan, at, 0)).collect()
}

fn origin(plan: &LogicalPlan, at: usize, depth: usize) -> Option<Origin> {
    if depth > MAX_DEPTH {
        return None;
    }
    let within = |input: &LogicalPlan, at| origin(input, at, depth + 1);
    match plan {
        LogicalPlan::Projection(projection) => of_expr(projection.expr.get(at)?, &projection.input, depth),
        LogicalPlan::Aggregate(aggregate) => of_expr(aggregate.group_expr.get(at)?, &aggregate.input, depth),
        LogicalPlan::SubqueryAlias(alias) => {
            let origin = within(&alias.input, at)?;
            Some(if view_of(alias).is_some() { origin.through_view() } else { origin })
        }
        LogicalPlan::Filter(filter) => within(&filter.input, at),
        LogicalPlan::Sort(sort) => within(&sort.input, at),
        LogicalPlan::Limit(limit) => within(&limit.input, at),
        LogicalPlan::Distinct(Distinct::All(input)) => within(input, at),
        LogicalPlan::Window(window) => within(&window.input, at),
        LogicalPlan::Join(join) => {
            let left = match join.join_type {
                JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => 0,
                _ => join.left.schema().fields().len(),
            };
            if at < left { within(&join.left, at) } else { within(&join.right, at - left) }
        }
        LogicalPlan::TableScan(scan) => of_table(scan, at),
        _ => None,
    }
}

fn of_expr(expr: &Expr, input: &LogicalPlan, depth: usize) -> Option<Origin> {
    match expr {
        Expr::Alias(alias) => of_expr(&alias.expr, input, depth),
        Expr::Column(Column { relation, name, .. }) => {
            let at = input.schema().index_of_column_by_name(relation.as_ref(), name)?;
            origin(input, at, depth + 1)
        }
        Expr::ScalarFunction(call) if depth < MAX_DEPTH => {
            let of = call.args.first().and_then(|argument| of_expr(argument, input, depth + 1));
            Some(Origin::Call { name: call.name().to_owned(), of: of.map(Box::new) })
        }
        _ => None,
    }
}

fn of_table(scan: &TableScan, at: usize) -> Option<Origin> {
    let column = scan.projected_schema.fields().get(at)?.name().clone();
    let provider = source_as_provider(&scan.source).ok()?;
    let external = provider.downcast_ref::<ExternalTable>().map(|table| Arc::clone(table.entry()));
    let live = || Some(Arc::clone(provider.downcast_ref::<LiveProvider>()?.table().entry()));
    let entry = external.or_else(live)?;
    Some(Origin::Table { entry, column, through_view: false })
}
