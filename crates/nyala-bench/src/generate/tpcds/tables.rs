//! The 24 tables as plans.

use std::ops::Range;

use anyhow::{Context as _, ensure};
use arrow::datatypes::SchemaRef;
use tpcdsgen::config::{Session, SessionBuilder, Table};

use super::layout::schema;
use super::lines::Lines;
use super::rows;
use crate::generate::plan::{Part, TablePlan, cut};

/// The tables, facts first.
pub const TABLES: [&str; 24] = [
    "store_sales",
    "store_returns",
    "catalog_sales",
    "catalog_returns",
    "web_sales",
    "web_returns",
    "inventory",
    "call_center",
    "catalog_page",
    "customer",
    "customer_address",
    "customer_demographics",
    "date_dim",
    "household_demographics",
    "income_band",
    "item",
    "promotion",
    "reason",
    "ship_mode",
    "store",
    "time_dim",
    "warehouse",
    "web_page",
    "web_site",
];

/// The largest scale the specification knows.
const MAX_SCALE: f64 = 100_000.0;

/// The tables of a scale, in the order of [`TABLES`]. The scale must be above 0 and at most 100,000.
pub fn plan(scale: f64) -> anyhow::Result<Vec<TablePlan>> {
    ensure!(
        scale > 0.0 && scale <= MAX_SCALE,
        "scale of `tpcds` must be above 0 and at most {MAX_SCALE}, but is `{scale}`"
    );
    let session = SessionBuilder::new().with_scale_factor(scale).build()?;
    TABLES.iter().map(|name| table(name, &session)).collect()
}

fn table(name: &'static str, session: &Session) -> anyhow::Result<TablePlan> {
    let table = Table::values().iter().find(|table| table.get_name() == name).copied();
    let table = table.with_context(|| format!("the generator has no table `{name}`"))?;
    let schema = schema(name)?;
    let source_rows = session.get_scaling().get_row_count(table);
    let ranges = cut(source_rows, items_of_order(table).unwrap_or(1));
    let parts = ranges.into_iter().map(|range| part(table, session.clone(), schema.clone(), range)).collect();
    Ok(TablePlan { name, schema, parts })
}

fn part(table: Table, session: Session, schema: SchemaRef, range: Range<u64>) -> Part {
    let rows = (range.end - range.start) * items_of_order(table).unwrap_or(1);
    // The generator writes the word instead of nothing in these two tables, as `dsdgen`'s port does.
    let null_word = matches!(table, Table::CallCenter | Table::HouseholdDemographics);
    Part {
        expected_rows: if is_returns(table) { rows / 10 } else { rows },
        open: Box::new(move || {
            Ok(Box::new(Lines::new(rows::open(table, session, range), schema, null_word)))
        }),
    }
}

/// Items an order has on average. Returns are drawn from the orders again, so their source rows are
/// orders, too.
fn items_of_order(table: Table) -> Option<u64> {
    match table {
        Table::StoreSales | Table::StoreReturns | Table::WebSales | Table::WebReturns => Some(12),
        Table::CatalogSales | Table::CatalogReturns => Some(9),
        _ => None,
    }
}

/// Whether a table holds the tenth of the items that comes back.
fn is_returns(table: Table) -> bool {
    matches!(table, Table::StoreReturns | Table::CatalogReturns | Table::WebReturns)
}
