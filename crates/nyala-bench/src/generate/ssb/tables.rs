//! The five tables as plans.

use std::ops::Range;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use super::lineorder::Orders;
use super::sizes::Sizes;
use super::{calendar, customer, dates, lineorder, part, supplier};
use crate::generate::plan::{Part, TablePlan, cut, steps};

/// The tables, the fact table first.
pub const TABLES: [&str; 5] = ["lineorder", "customer", "supplier", "part", "dates"];

/// About how many rows a batch has.
const BATCH_ROWS: u64 = 8_192;
/// Lines of an order, on average.
const ORDER_LINES: u64 = 4;

/// The tables of a scale, in the order of [`TABLES`]. The scale must be above 0 and at most 10,000.
pub fn plan(scale: f64) -> anyhow::Result<Vec<TablePlan>> {
    let sizes = Sizes::at(scale)?;
    let orders = Orders::new(sizes);
    let lines = move |places| orders.batch(places);
    Ok(vec![
        table("lineorder", lineorder::schema(), sizes.orders, ORDER_LINES, lines),
        table("customer", customer::schema(), sizes.customers.into(), 1, customer::batch),
        table("supplier", supplier::schema(), sizes.suppliers.into(), 1, supplier::batch),
        table("part", part::schema(), sizes.parts.into(), 1, part::batch),
        table("dates", dates::schema(), calendar::DAYS.into(), 1, dates::batch),
    ])
}

/// A table of `units` units with about `unit_rows` rows each, which `batch` generates.
fn table(
    name: &'static str,
    schema: SchemaRef,
    units: u64,
    unit_rows: u64,
    batch: impl Fn(Range<u64>) -> anyhow::Result<RecordBatch> + Clone + Send + 'static,
) -> TablePlan {
    let part = |places: Range<u64>| {
        let batch = batch.clone();
        Part {
            expected_rows: (places.end - places.start) * unit_rows,
            open: Box::new(move || Ok(Box::new(steps(places, BATCH_ROWS / unit_rows).map(batch)))),
        }
    };
    TablePlan { name, schema, parts: cut(units, unit_rows).into_iter().map(part).collect() }
}
